//! One vector a passage, in a memory-mapped file beside the index.
//!
//! The file is a line of JSON ([`Header`]), padded with spaces to [`START`] bytes, then for each passage, in the order of
//! [`Bm25Index::documents`], the scale of its vector (f32, little-endian) and its numbers divided by it, as signed bytes. A byte
//! a number is a quarter of f32; rounding moves an inner product of MiniLM's by less than 0.01.

use super::graph;
use crate::run_dir::publish;
use memmap2::Mmap;
use rayon::prelude::*;
use rex_rollout::retrieval::{Bm25Index, IndexError};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "vectors.rex";
const START: usize = 8192;
const SCALE: usize = size_of::<f32>();
/// A query's numbers are integers up to this: finer than a passage's, and no sum of products overflows 32 bits below a
/// dimension of 8,256.
const QUERY_RANGE: f32 = 2047.0;
const ROW_RANGE: f32 = 127.0;

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    dim: usize,
    /// Of the index whose passages these are.
    fingerprint: String,
    /// Folder of the encoder that made them.
    encoder: PathBuf,
}

const FORMAT: &str = "rex vectors 1";

/// The vectors of an index.
pub struct Vectors {
    map: Mmap,
    dim: usize,
    encoder: PathBuf,
}

/// Whether there are vectors beside the index in `folder`.
pub fn has_vectors(folder: &Path) -> bool {
    folder.join(NAME).is_file()
}

/// A passage's number and its inner product with the query.
pub type Hit = (usize, f32);

impl Vectors {
    /// Opens the vectors beside `index`, in `folder`; `None` where there are none.
    ///
    /// # Errors
    /// When they are damaged, or were made for another index.
    pub fn open(folder: &Path, index: &Bm25Index) -> Result<Option<Self>, IndexError> {
        let damaged = |reason: &str| IndexError::Damaged {
            place: folder.display().to_string(),
            reason: format!("{NAME}: {reason}"),
        };
        let file = match File::open(folder.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| damaged(&error.to_string()))?,
        };
        #[expect(
            unsafe_code,
            reason = "the file is written aside and renamed; nobody changes it in its place"
        )]
        let map = unsafe { Mmap::map(&file) }.map_err(|error| damaged(&error.to_string()))?;
        let head = map.get(..START).ok_or_else(|| damaged("too short"))?;
        let header: Header = serde_json::from_slice(head).map_err(|_| damaged("not a file of vectors"))?;
        if header.format != FORMAT || header.dim == 0 {
            return Err(damaged("not a file of vectors of this version"));
        }
        if header.fingerprint != index.fingerprint() {
            return Err(damaged("they were made for another index"));
        }
        if map.len() as u64 != START as u64 + index.len() * (SCALE + header.dim) as u64 {
            return Err(damaged("not one vector for each passage"));
        }
        Ok(Some(Self { map, dim: header.dim, encoder: header.encoder }))
    }

    /// Folder of the encoder that made them.
    pub fn encoder(&self) -> &Path {
        &self.encoder
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of passages.
    pub fn len(&self) -> usize {
        (self.map.len() - START) / self.stride()
    }

    /// A passage's vector, up to a factor.
    pub(super) fn numbers(&self, row: usize) -> &[i8] {
        bytemuck::cast_slice(&self.row(row)[SCALE..])
    }

    fn row(&self, row: usize) -> &[u8] {
        &self.map[START + row * self.stride()..][..self.stride()]
    }

    fn stride(&self) -> usize {
        SCALE + self.dim
    }

    /// The `k` of some passages with the largest inner products, best first; equal ones in the order of the file.
    ///
    /// # Panics
    /// When the query has another dimension, or there is no such passage.
    pub fn best_of(&self, rows: &[usize], query: &[f32], k: usize) -> Vec<Hit> {
        let query = Query::new(query, self.dim);
        let mut best = Best::new(k);
        rows.iter().for_each(|row| best.offer(query.score(self.row(*row)), *row));
        sorted(best.hits(), k)
    }

    /// The `k` passages with the largest inner products for each query, best first; equal ones in the order of the file.
    ///
    /// # Panics
    /// When a query has another dimension.
    pub fn search(&self, queries: &[Vec<f32>], k: usize) -> Vec<Vec<Hit>> {
        /// Rows that stay in the cache while every query looks at them.
        const BLOCK: usize = 512;
        let queries: Vec<Query> = queries.iter().map(|query| Query::new(query, self.dim)).collect();
        let stride = self.stride();
        let share = self.len().div_ceil(rayon::current_num_threads()).max(1);
        let parts: Vec<Vec<Best>> = (self.map[START..].par_chunks(share * stride).enumerate())
            .map(|(part, rows)| {
                let mut best: Vec<Best> = queries.iter().map(|_| Best::new(k)).collect();
                for (block, rows) in rows.chunks(BLOCK * stride).enumerate() {
                    let first = part * share + block * BLOCK;
                    for (query, best) in queries.iter().zip(&mut best) {
                        for (row, bytes) in rows.chunks_exact(stride).enumerate() {
                            best.offer(query.score(bytes), first + row);
                        }
                    }
                }
                best
            })
            .collect();
        let merge = |query: usize| sorted(parts.iter().flat_map(|part| part[query].hits()), k);
        (0..queries.len()).map(merge).collect()
    }
}

fn sorted(hits: impl Iterator<Item = Hit>, k: usize) -> Vec<Hit> {
    let mut hits: Vec<Hit> = hits.collect();
    hits.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    hits.truncate(k);
    hits
}

/// A vector as its scale and its numbers divided by it, rounded to signed bytes.
pub(super) fn rounded(vector: &[f32]) -> (f32, Vec<i8>) {
    let scale = largest(vector) / ROW_RANGE;
    (scale, vector.iter().map(|x| (x / scale).round() as i8).collect())
}

/// A query in integers.
struct Query {
    numbers: Vec<i16>,
    scale: f32,
}

impl Query {
    fn new(query: &[f32], dim: usize) -> Self {
        assert_eq!(query.len(), dim, "dimension of query and passages");
        let scale = largest(query) / QUERY_RANGE;
        Self { numbers: query.iter().map(|x| (x / scale).round() as i16).collect(), scale }
    }

    fn score(&self, row: &[u8]) -> f32 {
        let (scale, numbers) = row.split_at(SCALE);
        let scale = f32::from_le_bytes(scale.try_into().expect("as long as an f32"));
        let products = numbers.iter().zip(&self.numbers).map(|(a, b)| i32::from(*a as i8) * i32::from(*b));
        products.sum::<i32>() as f32 * scale * self.scale
    }
}

/// The largest magnitude; 1 where all are 0.
fn largest(vector: &[f32]) -> f32 {
    let largest = vector.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
    if largest > 0.0 { largest } else { 1.0 }
}

/// The `k` best so far.
struct Best {
    k: usize,
    /// Scores as integers of the same order, and the later row first among equals.
    heap: BinaryHeap<Reverse<(i32, Reverse<usize>)>>,
}

impl Best {
    fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::new() }
    }

    fn offer(&mut self, score: f32, row: usize) {
        let entry = Reverse((ordered(score), Reverse(row)));
        if self.heap.len() < self.k {
            self.heap.push(entry);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && entry < *worst
        {
            *worst = entry;
        }
    }

    fn hits(&self) -> impl Iterator<Item = Hit> {
        self.heap.iter().map(|Reverse((score, Reverse(row)))| (*row, unordered(*score)))
    }
}

/// Floats as integers of the same order.
fn ordered(score: f32) -> i32 {
    let bits = score.to_bits() as i32;
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

fn unordered(ordered: i32) -> f32 {
    f32::from_bits((ordered ^ (((ordered >> 31) as u32) >> 1) as i32) as u32)
}

/// Writes the vectors of an index: [`add`](Self::add) one for each passage, then [`finish`](Self::finish).
pub struct VectorWriter {
    file: BufWriter<File>,
    target: PathBuf,
    aside: PathBuf,
}

impl VectorWriter {
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(folder: &Path, index: &Bm25Index, dim: usize, encoder: &Path) -> io::Result<Self> {
        let (target, aside) = (folder.join(NAME), folder.join(format!("{NAME}.partial")));
        // Vectors of an earlier index answer for passages that are gone.
        for old in [&folder.join(graph::NAME), &target] {
            match fs::remove_file(old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let encoder = fs::canonicalize(encoder)?;
        let header = Header { format: FORMAT.to_string(), dim, fingerprint: index.fingerprint(), encoder };
        let mut head = serde_json::to_vec(&header)?;
        assert!(head.len() < START, "a header of {} bytes", head.len());
        head.resize(START - 1, b' ');
        head.push(b'\n');
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&aside)?);
        file.write_all(&head)?;
        Ok(Self { file, target, aside })
    }

    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, vector: &[f32]) -> io::Result<()> {
        let (scale, numbers) = rounded(vector);
        self.file.write_all(&scale.to_le_bytes())?;
        self.file.write_all(bytemuck::cast_slice(&numbers))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> io::Result<()> {
        drop(self.file.into_inner().map_err(io::IntoInnerError::into_error)?);
        publish(&self.aside, &self.target)
    }
}
