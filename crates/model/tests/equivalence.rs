//! What must not matter does not: the cache, batching, forking, padding, order and chunking, for every family.

mod tiny;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use rex_model::{Activations, Cache, Decoder, Engine, Job, Lora, RowId, Sampling, pass_tokens};
use tiny::{FAMILIES, assert_close, decoders, floats, ids, logits, random_ids};

/// `[tokens][vocab]` logits of one row without a cache.
fn uncached(decoder: &Decoder, row: &[u32]) -> Vec<Vec<f32>> {
    logits(decoder, decoder.forward(ids(&[row], &decoder.device()), None))
}

/// The log-probabilities of `row[1..]` by the training forward, alone.
fn training(decoder: &Decoder, row: &[u32], temperature: f64) -> Vec<f32> {
    let flags: Vec<bool> = (0..row.len()).map(|t| t > 0).collect();
    floats(decoder.log_probs(&[row], &[flags], temperature))[1..].to_vec()
}

fn score(engine: &mut Engine<'_>, row: RowId, tokens: &[u32]) -> Vec<f32> {
    engine.advance(&[Job { row, tokens, score: true, draw: None }]).remove(0).log_probs
}

/// Every family's name and decoder.
fn families() -> impl Iterator<Item = (&'static str, Decoder)> {
    FAMILIES.iter().map(|(name, _)| *name).zip(decoders(&Device::flex()))
}

#[test]
fn cached_logits_equal_uncached() {
    for (name, decoder) in families() {
        // Longer than a block of the cache, fed in uneven pieces.
        let row = random_ids(1, 300);
        let whole = uncached(&decoder, &row);
        let mut cache = Cache::new(&decoder);
        let id = cache.open();
        let mut start = 0;
        for piece in [1, 100, 1, 1, 150, 47] {
            cache.lead(&mut [id], |id| *id);
            let tokens = ids(&[&row[start..start + piece]], &decoder.device());
            let hidden = decoder.forward(tokens, Some(cache.extend(&[piece], piece)));
            for (t, cached) in logits(&decoder, hidden).iter().enumerate() {
                assert_close(cached, &whole[start + t], &format!("{name}, token {}", start + t));
            }
            start += piece;
        }
        assert_eq!(cache.len(id), row.len());
    }
}

#[test]
fn padding_batching_and_order_do_not_matter() {
    let rows: Vec<Vec<u32>> = [5, 17, 1, 9].iter().map(|n| random_ids(*n as u64, *n)).collect();
    for (name, decoder) in families() {
        for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
            let batch: Vec<&[u32]> = order.iter().map(|r| rows[*r].as_slice()).collect();
            let together = logits(&decoder, decoder.forward(ids(&batch, &decoder.device()), None));
            let width = together.len() / order.len();
            for (slot, r) in order.iter().enumerate() {
                for (t, alone) in uncached(&decoder, &rows[*r]).iter().enumerate() {
                    assert_close(alone, &together[slot * width + t], &format!("{name}, row {r}, token {t}"));
                }
            }
        }
    }
}

#[test]
fn training_log_probs_do_not_depend_on_the_batch() {
    let rows: Vec<Vec<u32>> = [5, 17, 1, 9].iter().map(|n| random_ids(*n as u64, *n)).collect();
    for (name, decoder) in families() {
        let batch: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let flags: Vec<Vec<bool>> =
            rows.iter().map(|row| (0..row.len()).map(|t| t % 3 == 1).collect()).collect();
        let together = floats(decoder.log_probs(&batch, &flags, 0.7));
        for (r, row) in rows.iter().enumerate() {
            let alone = training(&decoder, row, 0.7);
            let expected: Vec<f32> =
                (0..17).map(|t| if t % 3 == 1 && t < row.len() { alone[t - 1] } else { 0.0 }).collect();
            assert_close(&together[r * 17..][..17], &expected, &format!("{name}, row {r}"));
        }
    }
}

/// Rows that leave each other at any token, some after others have left, one of them twice and one the beginning of another.
fn rows_that_begin_alike() -> Vec<Vec<u32>> {
    let mut rows = vec![random_ids(0, 90), random_ids(1, 20), random_ids(2, 1)];
    for (seed, (row, shared, own)) in
        [(0, 80, 9), (0, 30, 40), (3, 85, 7), (4, 60, 1), (4, 70, 35), (1, 2, 30)].into_iter().enumerate()
    {
        let own = random_ids(10 + seed as u64, own);
        rows.push([&rows[row][..shared], &own].concat());
    }
    rows.extend([rows[7].clone(), rows[0][..50].to_vec()]);
    rows
}

#[test]
fn what_rows_have_in_common_is_computed_once_and_changes_nothing() {
    let rows = rows_that_begin_alike();
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    let padded = rows.len() * rows.iter().map(|row| row.len()).max().unwrap();
    assert!(2 * pass_tokens(&rows) < padded, "{} of {padded} tokens are computed", pass_tokens(&rows));
    // Tokens in common are scored in some rows and not in others.
    let score: Vec<Vec<bool>> = rows
        .iter()
        .enumerate()
        .map(|(r, row)| (0..row.len()).map(|t| t > 0 && (t + r) % 3 != 1).collect())
        .collect();
    for ((name, _), decoder) in FAMILIES.iter().zip(decoders(&Device::flex().autodiff())) {
        // A slope of its own for every token of every row.
        let slopes = |r: usize, log_probs: &Tensor<2>| (log_probs.clone() + 1.0) * (0.01 + 0.005 * r as f64);
        let mut expected: Vec<Vec<f32>> = Vec::new();
        let mut expected_log_probs = Vec::new();
        for (r, (row, flags)) in rows.iter().zip(&score).enumerate() {
            let pass = decoder.pass(&[row], std::slice::from_ref(flags), 0.7, Activations::Recomputed);
            let log_probs = pass.log_probs();
            let slopes = slopes(r, &log_probs);
            expected_log_probs.push(floats(log_probs));
            let part = gradients(&decoder, &pass.backward(slopes));
            match expected.is_empty() {
                true => expected = part,
                false => expected.iter_mut().zip(part).for_each(|(sum, part)| add(sum, &part)),
            }
        }
        for activations in [Activations::Kept, Activations::Recomputed] {
            let pass = decoder.pass(&rows, &score, 0.7, activations);
            let log_probs = pass.log_probs();
            let each = (0..rows.len()).map(|r| slopes(r, &log_probs.clone().narrow(0, r, 1)));
            let found = gradients(&decoder, &pass.backward(Tensor::cat(each.collect(), 0)));
            for (r, expected) in expected_log_probs.iter().enumerate() {
                let found = floats(log_probs.clone().narrow(0, r, 1).narrow(1, 0, expected.len()));
                assert_close(&found, expected, &format!("{name}, row {r}, {activations:?}"));
            }
            for (parameter, (expected, found)) in expected.iter().zip(&found).enumerate() {
                assert_close(found, expected, &format!("{name}, parameter {parameter}, {activations:?}"));
            }
        }
    }
}

/// Adds up the gradients of a parameter; none is 0.
fn add(sum: &mut Vec<f32>, part: &[f32]) {
    sum.resize(sum.len().max(part.len()), 0.0);
    sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
}

#[test]
fn recomputed_activations_give_the_same_log_probs_and_gradients() {
    let rows: Vec<Vec<u32>> = [5, 70, 1, 9].iter().map(|n| random_ids(*n as u64, *n)).collect();
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    let some: Vec<Vec<bool>> = rows.iter().map(|row| (0..row.len()).map(|t| t % 3 == 1).collect()).collect();
    let none: Vec<Vec<bool>> = rows.iter().map(|row| vec![false; row.len()]).collect();
    for ((name, _), decoder) in FAMILIES.iter().zip(decoders(&Device::flex().autodiff())) {
        let run = |score, activations| {
            let pass = decoder.pass(&rows, score, 0.7, activations);
            let log_probs = pass.log_probs();
            // A slope of its own for every token.
            let slopes = (log_probs.clone() + 1.0) * 0.1;
            (floats(log_probs), gradients(&decoder, &pass.backward(slopes)))
        };
        let (log_probs, expected) = run(&some, Activations::Kept);
        let (again, found) = run(&some, Activations::Recomputed);
        assert_eq!(log_probs, again, "{name}");
        assert_eq!(expected.len(), found.len());
        for (parameter, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert!(!expected.is_empty(), "{name}: parameter {parameter} has no gradient");
            assert_close(found, expected, &format!("{name}, gradient of parameter {parameter}"));
        }
        let (log_probs, found) = run(&none, Activations::Recomputed);
        assert!(log_probs.iter().all(|log_prob| *log_prob == 0.0) && found.iter().all(Vec::is_empty));
    }
}

#[test]
fn fresh_adapters_change_nothing_and_alone_are_trained() {
    let rows: Vec<Vec<u32>> = [5, 17].iter().map(|n| random_ids(*n as u64, *n)).collect();
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    let score: Vec<Vec<bool>> = rows.iter().map(|row| (0..row.len()).map(|t| t > 0).collect()).collect();
    let lora = Lora { rank: 3, alpha: 6.0, target_modules: vec!["q_proj".into(), "down_proj".into()] };
    for ((name, _), decoder) in FAMILIES.iter().zip(decoders(&Device::flex().autodiff())) {
        let before = floats(decoder.log_probs(&rows, &score, 1.0).inner());
        let frozen = count(&decoder);
        let decoder = decoder.with_adapters(&lora, 1);
        assert_eq!(floats(decoder.log_probs(&rows, &score, 1.0).inner()), before, "{name}");

        let run = |activations| {
            let pass = decoder.pass(&rows, &score, 1.0, activations);
            let slopes = pass.log_probs().ones_like();
            gradients(&decoder, &pass.backward(slopes))
        };
        let (kept, recomputed) = (run(Activations::Kept), run(Activations::Recomputed));
        // Two factors for each of two matrices in two layers.
        let trained = kept.iter().filter(|gradient| !gradient.is_empty()).count();
        assert_eq!((kept.len(), trained), (frozen + 8, 8), "{name}");
        for (kept, recomputed) in kept.iter().zip(&recomputed) {
            assert_close(recomputed, kept, name);
        }
    }
}

#[test]
fn merged_adapters_compute_the_same() {
    let row = random_ids(3, 40);
    let lora = Lora { rank: 2, alpha: 4.0, target_modules: Lora::MODULES.map(String::from).to_vec() };
    for ((name, _), decoder) in FAMILIES.iter().zip(decoders(&Device::flex())) {
        let before = uncached(&decoder, &row);
        let adapted = decoder.with_adapters(&lora, 1).map(&mut Shift);
        let (apart, merged) = (uncached(&adapted, &row), uncached(&adapted.frozen(), &row));
        assert_eq!(count(&adapted.frozen()), count(&adapted) - 28, "{name}");
        for (t, (apart, merged)) in apart.iter().zip(&merged).enumerate() {
            assert_close(merged, apart, &format!("{name}, token {t}"));
        }
        assert_ne!(before, apart);
    }

    /// So that no factor is 0.
    struct Shift;
    impl ModuleMapper for Shift {
        fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
            parameter.map(|tensor| tensor + 0.05)
        }
    }
}

fn count(decoder: &Decoder) -> usize {
    gradients(decoder, &GradientsParams::new()).len()
}

/// The gradient of every parameter in visiting order, empty where there is none.
fn gradients(decoder: &Decoder, gradients: &GradientsParams) -> Vec<Vec<f32>> {
    struct Read<'g> {
        gradients: &'g GradientsParams,
        found: Vec<Vec<f32>>,
    }
    impl ModuleVisitor for Read<'_> {
        fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
            self.found.push(self.gradients.get::<D>(parameter.id).map(floats).unwrap_or_default());
        }
    }
    let mut read = Read { gradients, found: Vec::new() };
    decoder.visit(&mut read);
    read.found
}

#[test]
fn chunked_prefill_equals_the_whole() {
    // Longer than the chunks of a pass, beside rows of other lengths.
    let rows: Vec<Vec<u32>> = [600, 3, 290, 1, 40].iter().map(|n| random_ids(*n as u64, *n)).collect();
    for (name, decoder) in families() {
        let mut engine = Engine::new(&decoder, Sampling::Temperature(0.7));
        let open: Vec<RowId> = rows.iter().map(|_| engine.open()).collect();
        let job = |(row, tokens)| Job { row, tokens, score: true, draw: None };
        let jobs: Vec<Job<'_>> = open.iter().copied().zip(rows.iter().map(Vec::as_slice)).map(job).collect();
        for ((tokens, row), advance) in rows.iter().zip(&open).zip(engine.advance(&jobs)) {
            let what = format!("{name}, {} tokens", tokens.len());
            assert_close(&advance.log_probs, &training(&decoder, tokens, 0.7), &what);
            assert_eq!(engine.len(*row), tokens.len());
        }
        assert_eq!((engine.tokens().prefilled, engine.tokens().decoded), (934, 0));
    }
}

#[test]
fn a_fork_equals_a_fresh_row() {
    let (parent, tail) = (random_ids(1, 200), random_ids(2, 20));
    for (name, decoder) in families() {
        let mut engine = Engine::new(&decoder, Sampling::Greedy);
        let original = engine.open();
        score(&mut engine, original, &parent);
        for len in [0, 1, 130, 200] {
            let fork = engine.fork(original, len);
            assert_eq!((engine.len(fork), engine.len(original)), (len, 200));
            let whole = [&parent[..len], &tail[..]].concat();
            let expected = training(&decoder, &whole, 1.0);
            assert_close(
                &score(&mut engine, fork, &tail),
                &expected[len..],
                &format!("{name}, fork of {len}"),
            );
        }
        let whole = [&parent[..], &tail[..]].concat();
        let expected = training(&decoder, &whole, 1.0);
        assert_close(&score(&mut engine, original, &tail), &expected[200..], &format!("{name}, the parent"));
    }
}

#[test]
fn rows_join_wait_and_leave() {
    let rows: Vec<Vec<u32>> = (0..6).map(|r| random_ids(r, 40)).collect();
    for (name, decoder) in families() {
        let mut engine = Engine::new(&decoder, Sampling::Greedy);
        // Row `r` lives in steps `r..r + 12` and waits in some of them; (r, id, tokens fed).
        let mut open: Vec<(usize, RowId, usize)> = Vec::new();
        for step in 0..18 {
            if step < rows.len() {
                open.push((step, engine.open(), 0));
            }
            for (_, id, _) in open.extract_if(.., |(r, ..)| step >= *r + 12) {
                engine.close(id);
            }
            let busy: Vec<&mut (usize, RowId, usize)> =
                open.iter_mut().filter(|(r, ..)| (step + r) % 3 != 0).collect();
            let piece = |r: usize| 1 + (step + r) % 4;
            let job = |(r, row, fed): &(usize, RowId, usize)| Job {
                row: *row,
                tokens: &rows[*r][*fed..fed + piece(*r)],
                score: true,
                draw: Some(0.5),
            };
            let jobs: Vec<Job<'_>> = busy.iter().map(|row| job(row)).collect();
            for ((r, id, fed), advance) in busy.into_iter().zip(engine.advance(&jobs)) {
                let what = format!("{name}, step {step}, row {r}");
                let seen = &rows[*r][..*fed + piece(*r)];
                assert_close(&advance.log_probs, &training(&decoder, seen, 1.0)[*fed..], &what);
                let last = uncached(&decoder, seen).pop().unwrap();
                let best = (0..last.len()).max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap();
                assert_eq!(advance.drawn.unwrap().id as usize, best, "{what}");
                *fed = seen.len();
                assert_eq!(engine.len(*id), *fed);
            }
        }
    }
}
