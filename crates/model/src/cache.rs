//! The key/value cache of a batch of rows with different lengths.

use std::collections::HashMap;

use burn::tensor::{BoolStore, DType, Device, IndexingUpdateOp, Int, Tensor};

use crate::decoder::Decoder;
use crate::log_probs::ids;

/// Keys and values of every layer for many rows, a rectangle of slots times tokens that grows as needed.
///
/// A row lives in one slot, from its first token on. A forward pass computes on the first slots only: [`lead`](Self::lead)
/// moves the rows of the next pass there, so rows that have ended or wait cost nothing but their memory, and a pass reads
/// the cache as a view.
#[derive(Debug)]
pub struct Cache {
    layers: Vec<Buffers>,
    heads: usize,
    head_dim: usize,
    dtype: DType,
    device: Device,
    writing: Writing,
    /// Slots and tokens a slot for which there is memory.
    allocated: (usize, usize),
    slots: Vec<Option<Row>>,
    slot_of: HashMap<RowId, usize>,
    opened: u64,
}

/// A row of a [`Cache`]. Never given twice by the same cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(u64);

#[derive(Debug, Clone, Copy)]
struct Row {
    id: RowId,
    len: usize,
}

/// One layer's keys and values, `[slots * heads * tokens, head_dim]` each: a head's tokens lie together, as attention
/// reads them. `None` until memory is reserved.
#[derive(Debug, Default)]
struct Buffers {
    keys: Option<Tensor<2>>,
    values: Option<Tensor<2>>,
}

/// How rows of a buffer are overwritten.
#[derive(Debug, Clone, Copy)]
enum Writing {
    /// One after the other, where they are; on a GPU each would wait for the one before.
    InTurn,
    /// All at once; on the CPU the whole buffer would be copied.
    AtOnce,
}

/// Tokens that one forward pass adds to the first rows of a [`Cache`].
pub struct Extension<'c> {
    cache: &'c mut Cache,
    starts: Vec<usize>,
    width: usize,
}

/// One layer's part of an [`Extension`].
pub(crate) struct LayerCache<'c> {
    buffers: &'c mut Buffers,
    /// Where the new keys and values go, `[rows * heads * width]`.
    places: Tensor<1, Int>,
    writing: Writing,
    allocated: (usize, usize),
    keys: usize,
}

/// Tokens by which slots grow at least.
pub(crate) const BLOCK: usize = 128;

impl Cache {
    /// An empty cache for this decoder, on its device without automatic differentiation.
    pub fn new(decoder: &Decoder) -> Self {
        let attention = &decoder.layers[0].self_attn;
        Self {
            layers: decoder.layers.iter().map(|_| Buffers::default()).collect(),
            heads: attention.num_key_value_heads,
            head_dim: attention.head_dim,
            dtype: decoder.computes_in.into(),
            writing: Writing::on(&decoder.device()),
            device: decoder.device(),
            allocated: (0, 0),
            slots: Vec::new(),
            slot_of: HashMap::new(),
            opened: 0,
        }
    }

    /// A new row without tokens.
    pub fn open(&mut self) -> RowId {
        let row = Row { id: RowId(self.opened), len: 0 };
        self.opened += 1;
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(row);
        self.slot_of.insert(row.id, slot);
        row.id
    }

    /// Forgets a row; its slot is used again.
    ///
    /// # Panics
    /// If the row is not open.
    pub fn close(&mut self, row: RowId) {
        let slot = self.slot_of.remove(&row).expect("the row is closed");
        self.slots[slot] = None;
    }

    /// A new row that holds the first `len` tokens of `row`.
    ///
    /// # Panics
    /// If `row` is shorter.
    pub fn fork(&mut self, row: RowId, len: usize) -> RowId {
        assert!(len <= self.len(row), "cannot fork {len} tokens of a row that holds {}", self.len(row));
        let fork = self.open();
        self.reserve(0);
        let to = self.slot_of[&fork];
        self.copy(&[(self.slot_of[&row], to, len)]);
        self.slots[to] = Some(Row { id: fork, len });
        fork
    }

    /// Tokens that the row holds.
    pub fn len(&self, row: RowId) -> usize {
        self.row(row).len
    }

    /// Slots and tokens a slot for which there is memory.
    pub fn allocated(&self) -> (usize, usize) {
        self.allocated
    }

    /// Moves the rows of `items` to the first slots and sorts the items by slot: the order of the next pass.
    ///
    /// # Panics
    /// If a row appears twice.
    pub fn lead<T>(&mut self, items: &mut [T], row: impl Fn(&T) -> RowId) {
        self.reserve(0);
        let mut leads = vec![false; self.slots.len()];
        for item in items.iter() {
            let lead = &mut leads[self.slot_of[&row(item)]];
            assert!(!*lead, "a row appears twice in one pass");
            *lead = true;
        }
        let front = (0..items.len()).filter(|slot| !leads[*slot]);
        let behind = (items.len()..leads.len()).filter(|slot| leads[*slot]);
        let swaps: Vec<_> = front.zip(behind).collect();
        let len = |slot: usize| self.slots[slot].map_or(0, |row| row.len);
        let moves: Vec<_> = swaps.iter().flat_map(|&(a, b)| [(a, b, len(a)), (b, a, len(b))]).collect();
        self.copy(&moves);
        for (a, b) in swaps {
            self.slots.swap(a, b);
            for slot in [a, b] {
                if let Some(row) = self.slots[slot] {
                    self.slot_of.insert(row.id, slot);
                }
            }
        }
        items.sort_by_key(|item| self.slot_of[&row(item)]);
    }

    /// Adds `tokens[slot]` tokens to each of the first `tokens.len()` slots, for a pass over `width` tokens a row. What a
    /// shorter row is padded with is written behind its end, where no query looks and the next token overwrites it.
    pub fn extend(&mut self, tokens: &[usize], width: usize) -> Extension<'_> {
        let mut starts = Vec::with_capacity(tokens.len());
        for (slot, tokens) in self.slots.iter_mut().zip(tokens) {
            let row = slot.as_mut().expect("the rows of a pass have been led to the first slots");
            starts.push(row.len);
            row.len += tokens;
        }
        assert_eq!(starts.len(), tokens.len(), "more rows than are open");
        self.reserve(starts.iter().max().map_or(0, |start| start + width));
        Extension { cache: self, starts, width }
    }

    fn row(&self, row: RowId) -> Row {
        let slot = self.slot_of.get(&row).expect("the row is closed");
        self.slots[*slot].expect("slots and rows agree")
    }

    /// Memory for every slot to hold `tokens` tokens.
    fn reserve(&mut self, tokens: usize) {
        let (slots, capacity) = self.allocated;
        if self.slots.len() <= slots && tokens <= capacity {
            return;
        }
        let grown = if self.slots.len() > slots { grown(slots, self.slots.len()) } else { slots };
        let allocated = (grown, tokens.max(capacity).max(1).next_multiple_of(BLOCK));
        let (heads, dim) = (self.heads, self.head_dim);
        for layer in &mut self.layers {
            for buffer in [&mut layer.keys, &mut layer.values] {
                let shape = [allocated.0, heads, allocated.1, dim];
                let empty = Tensor::<4>::zeros(shape, (&self.device, self.dtype));
                let filled = match buffer.take() {
                    None => empty,
                    Some(old) => {
                        let old = old.reshape([slots, heads, capacity, dim]);
                        empty.slice_assign([0..slots, 0..heads, 0..capacity, 0..dim], old)
                    }
                };
                *buffer = Some(filled.reshape([allocated.0 * heads * allocated.1, dim]));
            }
        }
        self.allocated = allocated;
    }

    /// Copies the first `len` tokens from slot to slot, for every `(from, to, len)` at once.
    fn copy(&mut self, moves: &[(usize, usize, usize)]) {
        let from: Vec<i32> = moves.iter().flat_map(|&(from, _, len)| self.places(from, 0, len)).collect();
        let to: Vec<i32> = moves.iter().flat_map(|&(_, to, len)| self.places(to, 0, len)).collect();
        if from.is_empty() {
            return;
        }
        let (from, to) = (ids(&from, &self.device), ids(&to, &self.device));
        for layer in &mut self.layers {
            for buffer in [&mut layer.keys, &mut layer.values] {
                let moved = buffer.as_ref().expect("reserved").clone().select(0, from.clone());
                self.writing.write(buffer, to.clone(), moved);
            }
        }
    }

    /// Where a slot keeps its tokens `start..start + len`, head by head.
    fn places(&self, slot: usize, start: usize, len: usize) -> impl Iterator<Item = i32> {
        let (heads, capacity) = (self.heads, self.allocated.1);
        (0..heads).flat_map(move |head| {
            let first = (slot * heads + head) * capacity + start;
            (first..first + len).map(|place| place as i32)
        })
    }
}

impl Extension<'_> {
    /// The position of each row's first new token.
    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Tokens that the longest row holds afterwards, padding included.
    pub(crate) fn keys(&self) -> usize {
        self.starts.iter().max().map_or(0, |start| start + self.width)
    }

    pub(crate) fn layers(&mut self) -> impl Iterator<Item = LayerCache<'_>> {
        let (keys, width) = (self.keys(), self.width);
        let Cache { allocated, writing, .. } = *self.cache;
        let places = self.starts.iter().enumerate();
        let places = places.flat_map(|(slot, start)| self.cache.places(slot, *start, width));
        let places = ids(&places.collect::<Vec<_>>(), &self.cache.device);
        let layers = self.cache.layers.iter_mut();
        layers.map(move |buffers| LayerCache { buffers, places: places.clone(), writing, allocated, keys })
    }
}

impl LayerCache<'_> {
    /// Appends `[rows, heads, width, head_dim]` and returns all keys and values of the rows, `[rows, heads, keys,
    /// head_dim]`.
    pub(crate) fn append(self, keys: Tensor<4>, values: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        let [rows, heads, width, dim] = keys.dims();
        let add = |buffer: &mut Option<Tensor<2>>, new: Tensor<4>| {
            self.writing.write(buffer, self.places.clone(), new.reshape([rows * heads * width, dim]));
            let (slots, capacity) = self.allocated;
            let all = buffer.as_ref().expect("reserved").clone().reshape([slots, heads, capacity, dim]);
            all.slice([0..rows, 0..heads, 0..self.keys])
        };
        (add(&mut self.buffers.keys, keys), add(&mut self.buffers.values, values))
    }
}

/// Slots after `slots` where `wanted` are wanted. Rows are opened one at a time: half again as many keep the copies linear.
fn grown(slots: usize, wanted: usize) -> usize {
    wanted.max(slots * 3 / 2)
}

/// Slots of a cache in which `rows` rows were opened one by one.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn slots_for(rows: usize) -> usize {
    let mut slots = 0;
    while slots < rows {
        slots = grown(slots, slots + 1);
    }
    slots
}

impl Writing {
    /// Booleans of the host's own kind are a tensor's elements only where the host computes.
    fn on(device: &Device) -> Self {
        if device.supports_dtype(DType::Bool(BoolStore::Native)) { Self::InTurn } else { Self::AtOnce }
    }

    /// Overwrites the rows `places` of a buffer, which are distinct; in place, since nothing else holds the tensor that is
    /// taken out.
    fn write(self, buffer: &mut Option<Tensor<2>>, places: Tensor<1, Int>, values: Tensor<2>) {
        let taken = buffer.take().expect("reserved");
        *buffer = Some(match self {
            Self::InTurn => taken.select_assign(0, places, values, IndexingUpdateOp::Assign),
            Self::AtOnce => taken.scatter_nd(places.unsqueeze_dim::<2>(1), values, IndexingUpdateOp::Assign),
        });
    }
}
