//! What must not matter does not: the cache, batching, forking, padding, order and chunking, for every family.

mod tiny;

use rex_model::{Cache, Decoder, Engine, Job, RowId, Sampling};
use tiny::{FAMILIES, Family, device, ids, random_ids};

/// `[tokens][vocab]` logits of one row without a cache.
fn logits(decoder: &Decoder, row: &[u32]) -> Vec<Vec<f32>> {
    let hidden = decoder.forward(ids(&[row]), None);
    split(decoder, hidden)
}

fn split(decoder: &Decoder, hidden: burn::tensor::Tensor<3>) -> Vec<Vec<f32>> {
    let logits = decoder.logits(hidden.flatten::<2>(0, 1));
    let vocab = logits.dims()[1];
    let values = logits.into_data().try_to_vec::<f32>().unwrap();
    values.chunks(vocab).map(<[f32]>::to_vec).collect()
}

#[track_caller]
fn assert_close(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 1e-4, "{what}, element {i}: {a} and {b}");
    }
}

fn score(engine: &mut Engine<'_>, row: RowId, tokens: &[u32]) -> Vec<f32> {
    let job = Job { row, tokens, score: true, draw: None };
    engine.advance(&[job]).remove(0).log_probs
}

/// The log-probabilities of `row[1..]` by the training forward, alone.
fn expected(decoder: &Decoder, row: &[u32], temperature: f64) -> Vec<f32> {
    let flags: Vec<bool> = (0..row.len()).map(|t| t > 0).collect();
    let values = decoder.log_probs(&[row], &[flags], temperature).into_data().try_to_vec::<f32>().unwrap();
    values[1..].to_vec()
}

fn check_all(check: impl Fn(&str, &Decoder)) {
    for Family { name, config } in FAMILIES {
        check(name, &config().init(&device()));
    }
}

#[test]
fn cached_logits_equal_uncached() {
    check_all(|name, decoder| {
        // Longer than a block of the cache, fed in uneven pieces.
        let row = random_ids(1, 300);
        let whole = logits(decoder, &row);
        let mut cache = Cache::new(decoder);
        let id = cache.open();
        let mut start = 0;
        for piece in [1, 100, 1, 1, 150, 47] {
            cache.lead(&mut [id], |id| *id);
            let tokens = &row[start..start + piece];
            let hidden = decoder.forward(ids(&[tokens]), Some(cache.extend(&[piece], piece)));
            for (t, cached) in split(decoder, hidden).iter().enumerate() {
                assert_close(cached, &whole[start + t], &format!("{name}, token {}", start + t));
            }
            start += piece;
        }
        assert_eq!(cache.len(id), row.len());
    });
}

#[test]
fn padding_batching_and_order_do_not_matter() {
    check_all(|name, decoder| {
        let rows: Vec<Vec<u32>> =
            [5, 17, 1, 9].iter().enumerate().map(|(i, n)| random_ids(i as u64, *n)).collect();
        for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
            let batch: Vec<&[u32]> = order.iter().map(|r| rows[*r].as_slice()).collect();
            let hidden = decoder.forward(ids(&batch), None);
            let together = split(decoder, hidden);
            let width = together.len() / order.len();
            for (slot, r) in order.iter().enumerate() {
                for (t, alone) in logits(decoder, &rows[*r]).iter().enumerate() {
                    assert_close(alone, &together[slot * width + t], &format!("{name}, row {r}, token {t}"));
                }
            }
        }
    });
}

#[test]
fn chunked_prefill_equals_the_whole() {
    check_all(|name, decoder| {
        let mut engine = Engine::new(decoder, Sampling::Temperature(0.7));
        // Longer than the chunks of a pass, beside rows of other lengths.
        let rows: Vec<Vec<u32>> = [600, 3, 290, 1, 40].iter().map(|n| random_ids(*n as u64, *n)).collect();
        let ids: Vec<RowId> = rows.iter().map(|_| engine.open()).collect();
        let jobs: Vec<Job<'_>> = ids
            .iter()
            .zip(&rows)
            .map(|(id, row)| Job { row: *id, tokens: row, score: true, draw: None })
            .collect();
        let advances = engine.advance(&jobs);
        for ((row, id), advance) in rows.iter().zip(ids).zip(advances) {
            assert_close(
                &advance.log_probs,
                &expected(decoder, row, 0.7),
                &format!("{name}, {} tokens", row.len()),
            );
            assert_eq!(engine.len(id), row.len());
        }
    });
}

#[test]
fn a_fork_equals_a_fresh_row() {
    check_all(|name, decoder| {
        let mut engine = Engine::new(decoder, Sampling::Greedy);
        let (parent, tail) = (random_ids(1, 200), random_ids(2, 20));
        let original = engine.open();
        score(&mut engine, original, &parent);
        for len in [0, 1, 130, 200] {
            let fork = engine.fork(original, len);
            assert_eq!((engine.len(fork), engine.len(original)), (len, 200));
            let fresh = engine.open();
            let whole = [&parent[..len], &tail[..]].concat();
            let fresh_scores = score(&mut engine, fresh, &whole);
            let forked_scores = score(&mut engine, fork, &tail);
            assert_close(&forked_scores, &fresh_scores[len..], &format!("{name}, fork of {len}"));
            engine.close(fork);
            engine.close(fresh);
        }
        // The parent is unharmed.
        let more = score(&mut engine, original, &tail);
        let whole = [&parent[..], &tail[..]].concat();
        assert_close(&more, &expected(decoder, &whole, 1.0)[200..], name);
    });
}

#[test]
fn rows_join_wait_and_leave() {
    check_all(|name, decoder| {
        let mut engine = Engine::new(decoder, Sampling::Greedy);
        let rows: Vec<Vec<u32>> = (0..6).map(|r| random_ids(r, 40)).collect();
        // Row r is fed in steps r..r + 12, and not in those where (step + r) % 3 == 0.
        let mut open: Vec<(usize, RowId, usize)> = Vec::new();
        for step in 0..20 {
            if step < rows.len() {
                open.push((step, engine.open(), 0));
            }
            open.retain(|(r, id, _)| {
                let stays = step < r + 12;
                if !stays {
                    engine.close(*id);
                }
                stays
            });
            let pieces: Vec<(usize, usize)> = (0..open.len())
                .filter(|i| (step + open[*i].0) % 3 != 0)
                .map(|i| (i, 1 + (step + i) % 4))
                .collect();
            let jobs: Vec<Job<'_>> = pieces
                .iter()
                .map(|&(i, n)| {
                    let (r, row, fed) = open[i];
                    Job { row, tokens: &rows[r][fed..fed + n], score: true, draw: Some(0.5) }
                })
                .collect();
            let advances = engine.advance(&jobs);
            for (&(i, n), advance) in pieces.iter().zip(advances) {
                let (r, id, fed) = &mut open[i];
                let seen = &rows[*r][..*fed + n];
                let wanted = expected(decoder, seen, 1.0);
                assert_close(
                    &advance.log_probs,
                    &wanted[seen.len() - n..],
                    &format!("{name}, step {step}, row {r}"),
                );
                let last = logits(decoder, seen).pop().unwrap();
                let best = (0..last.len()).max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap();
                assert_eq!(advance.drawn.unwrap().id as usize, best, "{name}, step {step}, row {r}");
                *fed += n;
                assert_eq!(engine.len(*id), *fed);
            }
        }
    });
}
