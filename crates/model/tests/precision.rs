//! Products in bf16: close to f32, with parameters and gradients that stay f32.

mod tiny;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, FloatDType, Tensor};
use rex_model::{Activations, Decoder, Engine, Job, Sampling};
use tiny::{decoders, floats, random_ids};

/// Log-probabilities of `row[1..]` and the gradient of their sum, flattened.
fn scored(decoder: &Decoder, row: &[u32], activations: Activations) -> (Vec<f32>, Vec<f32>) {
    struct Flatten<'g>(&'g GradientsParams, Vec<f32>);
    impl ModuleVisitor for Flatten<'_> {
        fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
            assert_eq!(parameter.val().dtype(), DType::F32);
            let gradient = self.0.get::<D>(parameter.id).expect("every parameter is trained");
            assert_eq!(gradient.dtype(), DType::F32);
            self.1.extend(floats(gradient));
        }
    }
    let flags = vec![(0..row.len()).map(|t| t > 0).collect()];
    let pass = decoder.pass(&[row], &flags, 1.0, activations);
    let log_probs = floats(pass.log_probs());
    let slopes = pass.log_probs().ones_like();
    let gradients = pass.backward(slopes);
    let mut flatten = Flatten(&gradients, Vec::new());
    decoder.visit(&mut flatten);
    (log_probs, flatten.1)
}

#[test]
fn bf16_is_close_to_f32_and_trains_f32() {
    let row = random_ids(1, 40);
    for exact in decoders(&Device::flex().autodiff()) {
        let rounded = exact.clone().computing_in(FloatDType::BF16);
        let (expected, slope) = scored(&exact, &row, Activations::Kept);
        for activations in [Activations::Kept, Activations::Recomputed] {
            let (found, rounded_slope) = scored(&rounded, &row, activations);
            let differences = expected.iter().zip(&found).map(|(a, b)| (a - b).abs());
            let worst = differences.fold(0.0, f32::max);
            let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let cosine = product(&slope, &rounded_slope)
                / (product(&slope, &slope) * product(&rounded_slope, &rounded_slope)).sqrt();
            println!("log-probabilities differ by up to {worst:.3}, gradients have the cosine {cosine:.5}");
            // A bf16 has 8 bits: logits of a few nats are exact to a few hundredths.
            assert!(0.0 < worst && worst < 0.15, "log-probabilities differ by {worst}");
            assert!(cosine > 0.999, "the cosine of the gradients is {cosine}");
        }
    }
}

/// What generates has weights in bf16, and draws under the probabilities that training then finds.
#[test]
fn bf16_draws_as_it_trains() {
    for decoder in decoders(&Device::flex().autodiff()) {
        let decoder = decoder.computing_in(FloatDType::BF16);
        let frozen = decoder.frozen();
        assert_eq!(frozen.layers[0].mlp.up_proj.weight.val().dtype(), DType::BF16);
        let mut engine = Engine::new(&frozen, Sampling::Temperature(1.0));
        let (row, mut ids) = (engine.open(), random_ids(2, 5));
        let mut recorded = Vec::new();
        for step in 0..20 {
            let tokens = &ids[engine.len(row)..];
            let job = Job { row, tokens, score: false, draw: Some(f64::from(step) / 20.0) };
            let drawn = engine.advance(&[job]).remove(0).drawn.unwrap();
            ids.push(drawn.id);
            recorded.push(drawn.log_prob);
        }
        let (log_probs, _) = scored(&decoder, &ids, Activations::Kept);
        let worst = recorded.iter().zip(&log_probs[5..]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("recorded and found log-probabilities differ by up to {worst:.3}");
        assert!(worst < 0.15, "recorded and found log-probabilities differ by {worst}");
    }
}
