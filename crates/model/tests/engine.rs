//! The engine draws what the distribution says, records what the training forward computes, and stays within its memory.

mod tiny;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_model::{Cache, Decoder, Drawn, Engine, Job, Sampling};
use tiny::{FAMILIES, VOCAB, assert_close, decoder, decoders, floats, ids, logits, random_ids};

#[test]
fn recorded_log_probs_equal_the_training_forward() {
    for decoder in decoders(&Device::flex()) {
        for sampling in [Sampling::Greedy, Sampling::Temperature(1.0), Sampling::Temperature(0.6)] {
            let mut engine = Engine::new(&decoder, sampling);
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            let prompts: Vec<Vec<u32>> = [3, 30, 7].iter().map(|n| random_ids(*n as u64, *n)).collect();
            let open: Vec<_> = prompts.iter().map(|_| engine.open()).collect();
            let mut rows = prompts.clone();
            let mut recorded: Vec<Vec<f32>> = vec![Vec::new(); rows.len()];
            for _ in 0..40 {
                let jobs: Vec<Job<'_>> = (0..rows.len())
                    .map(|r| Job {
                        row: open[r],
                        tokens: &rows[r][engine.len(open[r])..],
                        score: false,
                        draw: Some(rng.random()),
                    })
                    .collect();
                for (r, advance) in engine.advance(&jobs).into_iter().enumerate() {
                    let Drawn { id, log_prob } = advance.drawn.unwrap();
                    rows[r].push(id);
                    recorded[r].push(log_prob);
                }
            }
            let batch: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
            let drawn = |r: usize| (0..rows[r].len()).map(|t| t >= prompts[r].len()).collect();
            let flags: Vec<Vec<bool>> = (0..rows.len()).map(drawn).collect();
            let values = floats(decoder.log_probs(&batch, &flags, sampling.temperature()));
            for r in 0..rows.len() {
                let row = &values[r * 70..][prompts[r].len()..rows[r].len()];
                assert_close(&recorded[r], row, &format!("{sampling:?}, row {r}"));
            }
        }
    }
}

#[test]
fn alternatives_are_the_distribution_in_order() {
    for decoder in decoders(&Device::flex()) {
        let row = random_ids(4, 20);
        let flags: Vec<bool> = (0..row.len()).map(|t| t > 0).collect();
        let expected = floats(decoder.log_probs(&[&row], &[flags], 0.7));
        let places = decoder.alternatives(&row, VOCAB as usize, 0.7);
        assert_eq!(places.len(), row.len() - 1);
        let chosen: Vec<f32> = places
            .iter()
            .zip(&row[1..])
            .map(|(place, id)| place.log_probs[place.ids.iter().position(|other| other == id).unwrap()])
            .collect();
        assert_close(&chosen, &expected[1..], "the row's own tokens");
        for place in places {
            assert!(place.log_probs.is_sorted_by(|a, b| a >= b));
            assert!((place.log_probs.iter().map(|log| log.exp()).sum::<f32>() - 1.0).abs() < 1e-5);
        }
        assert_eq!(decoder.alternatives(&row[..1], 3, 1.0), []);
    }
}

/// One draw after `prompt` for every uniform number, all in one batch.
fn draws(decoder: &Decoder, temperature: f64, prompt: &[u32], uniforms: &[f64]) -> Vec<Drawn> {
    let mut engine = Engine::new(decoder, Sampling::Temperature(temperature));
    let job = |u: &f64| Job { row: engine.open(), tokens: prompt, score: false, draw: Some(*u) };
    let jobs: Vec<Job<'_>> = uniforms.iter().map(job).collect();
    engine.advance(&jobs).into_iter().map(|advance| advance.drawn.unwrap()).collect()
}

#[test]
fn frequencies_and_log_probs_match_the_distribution() {
    let decoder = decoder("llama", "", &Device::flex());
    let prompt = random_ids(5, 4);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for temperature in [1.0, 0.5] {
        let last = logits(&decoder, decoder.forward(ids(&[&prompt], &decoder.device()), None)).pop().unwrap();
        let weights: Vec<f64> = last.iter().map(|l| (f64::from(*l) / temperature).exp()).collect();
        let total: f64 = weights.iter().sum();
        let n = 4000;
        let uniforms: Vec<f64> = (0..n).map(|_| rng.random()).collect();
        let drawn = draws(&decoder, temperature, &prompt, &uniforms);
        let mut counts = vec![0.0; VOCAB as usize];
        for (Drawn { id, log_prob }, u) in drawn.into_iter().zip(&uniforms) {
            let p = weights[id as usize] / total;
            assert!((f64::from(log_prob) - p.ln()).abs() <= 1e-4, "token {id}: {log_prob} and {}", p.ln());
            // The inverse of the cumulative distribution, up to rounding.
            let below: f64 = weights[..id as usize].iter().sum::<f64>() / total;
            assert!(below - 1e-5 <= *u && *u <= below + p + 1e-5, "u = {u} drew {id}");
            counts[id as usize] += 1.0;
        }
        // Pearson's statistic over 61 tokens: mean 60, deviation 11.
        let statistic: f64 = counts
            .iter()
            .zip(&weights)
            .map(|(count, weight)| {
                let expected = n as f64 * weight / total;
                (count - expected) * (count - expected) / expected
            })
            .sum();
        assert!(statistic < 120.0, "temperature {temperature}: chi-squared {statistic} over {VOCAB} tokens");
    }
}

#[test]
fn a_draw_does_not_depend_on_the_batch() {
    let decoder = decoder("qwen3", FAMILIES[3].1, &Device::flex());
    let prompt = random_ids(5, 4);
    let uniforms: Vec<f64> = (0..32).map(|i| (f64::from(i) + 0.5) / 32.0).collect();
    let together = draws(&decoder, 1.0, &prompt, &uniforms);
    for (u, drawn) in uniforms.iter().zip(together) {
        let alone = draws(&decoder, 1.0, &prompt, &[*u])[0];
        assert_eq!(alone.id, drawn.id, "u = {u}");
        assert_close(&[alone.log_prob], &[drawn.log_prob], &format!("u = {u}"));
    }
}

#[test]
fn every_parameter_gets_a_finite_gradient() {
    struct Check<'g> {
        gradients: &'g Gradients,
        seen: usize,
    }
    impl ModuleVisitor for Check<'_> {
        fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
            let gradient = parameter.val().grad(self.gradients).expect("every parameter has a gradient");
            let norm = floats(gradient.powi_scalar(2).sum())[0];
            assert!(norm.is_finite() && norm > 0.0, "parameter {}: squared gradient {norm}", self.seen);
            self.seen += 1;
        }
    }
    for (decoder, parameters) in decoders(&Device::flex().autodiff()).into_iter().zip([20, 21, 27, 33]) {
        // Rows of different lengths, so that padding takes part.
        let rows = [random_ids(1, 12), random_ids(2, 5)];
        let flags: Vec<Vec<bool>> = rows.iter().map(|row| (0..row.len()).map(|t| t > 0).collect()).collect();
        let loss = decoder.log_probs(&[&rows[0], &rows[1]], &flags, 0.8).mean();
        let gradients = loss.backward();
        let mut check = Check { gradients: &gradients, seen: 0 };
        decoder.visit(&mut check);
        assert_eq!(check.seen, parameters);
    }
}

#[test]
fn logits_that_are_not_finite_are_reported() {
    let decoder = decoder("llama", "", &Device::flex());
    let broken = decoder.map(&mut Poison);
    for sampling in [Sampling::Greedy, Sampling::Temperature(1.0)] {
        let mut engine = Engine::new(&broken, sampling);
        let row = engine.open();
        let job = Job { row, tokens: &[1, 2, 3], score: true, draw: Some(0.5) };
        let advance = engine.advance(&[job]).remove(0);
        let Drawn { id, log_prob } = advance.drawn.unwrap();
        assert!(id < VOCAB && log_prob.is_nan(), "{sampling:?} drew {id} at {log_prob}");
        assert!(advance.log_probs.iter().all(|log_prob| log_prob.is_nan()));
    }

    struct Poison;
    impl burn::module::ModuleMapper for Poison {
        fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
            parameter.map(|tensor| tensor.mul_scalar(f32::NAN))
        }
    }
}

#[test]
fn memory_is_bounded_when_rows_come_and_go() {
    let decoder = decoder("llama", "", &Device::flex());
    let mut cache = Cache::new(&decoder);
    let mut open = Vec::new();
    for round in 0..1000 {
        open.push((cache.open(), round));
        if open.len() > 5 {
            let (row, _) = open.remove(round % 5);
            cache.close(row);
        }
        // Some of the rows, each by one token.
        let mut rows: Vec<_> = open.iter().filter(|(_, r)| (round + r) % 2 == 0).map(|(id, _)| *id).collect();
        if rows.is_empty() {
            continue;
        }
        cache.lead(&mut rows, |row| *row);
        let tokens = vec![[1u32; 1]; rows.len()];
        let tokens: Vec<&[u32]> = tokens.iter().map(|t| t.as_slice()).collect();
        let lens = vec![1; rows.len()];
        decoder.forward(ids(&tokens, &decoder.device()), Some(cache.extend(&lens, 1)));
    }
    let longest = open.iter().map(|(row, _)| cache.len(*row)).max().unwrap();
    let (slots, tokens) = cache.allocated();
    assert!(
        slots <= 9 && tokens <= 1024 && longest <= tokens,
        "{slots} slots of {tokens}, longest row {longest}"
    );
}

#[test]
#[should_panic(expected = "a row appears twice")]
fn a_row_has_one_job() {
    let decoder = decoder("llama", "", &Device::flex());
    let mut engine = Engine::new(&decoder, Sampling::Greedy);
    let row = engine.open();
    let job = Job { row, tokens: &[1, 2], score: false, draw: None };
    engine.advance(&[job, job]);
}
