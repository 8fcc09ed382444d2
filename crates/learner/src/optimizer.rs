//! AdamW with a warm-up schedule, and clipping by the *global* norm of the gradient (Burn's own clips each
//! parameter by itself).

use crate::config::{OptimizerConfig, Schedule};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;

/// AdamW over a module's parameters.
pub struct Optimizer {
    adamw: ModuleOptimizer,
    config: OptimizerConfig,
    total_steps: usize,
}

impl Optimizer {
    pub fn new(config: &OptimizerConfig, total_steps: usize) -> Self {
        let adamw = AdamWConfig::new()
            .with_beta_1(config.betas[0])
            .with_beta_2(config.betas[1])
            .with_epsilon(config.eps)
            .with_weight_decay(config.weight_decay)
            .init();
        Self { adamw, config: config.clone(), total_steps }
    }

    /// Learning rate of a 1-based step: linear warm-up, then constant or a half cosine down to 0.
    pub fn learning_rate(&self, step: usize) -> f64 {
        let warmup = (self.config.lr_warmup_steps_ratio * self.total_steps as f64).floor();
        let step = step as f64;
        if step <= warmup {
            return self.config.lr * step / warmup;
        }
        match self.config.schedule {
            Schedule::Constant => self.config.lr,
            Schedule::Cosine => {
                let done = (step - 1.0 - warmup) / (self.total_steps as f64 - warmup).max(1.0);
                self.config.lr * 0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos())
            }
        }
    }

    /// One update with gradients scaled so that their global norm, `norm`, is at most `grad_clip`.
    pub fn step<M: Module>(&mut self, step: usize, module: M, grads: GradientsParams, norm: f64) -> M {
        let scale = (self.config.grad_clip / (norm + 1e-6)).min(1.0);
        let grads = if scale < 1.0 { scaled(&module, grads, scale) } else { grads };
        self.adamw.step(self.learning_rate(step), module, grads)
    }

    pub fn state(&self) -> &ModuleOptimizer {
        &self.adamw
    }

    pub fn restore(&mut self, record: burn::optim::OptimizerRecord) {
        self.adamw = self.adamw.clone().load_record(record);
    }
}

/// `sqrt(Σ g²)` over all parameters, in one read from the device. Not finite when any gradient is not.
pub fn global_norm<M: Module>(module: &M, grads: &GradientsParams) -> f64 {
    squares(module, grads).into_scalar::<f32>().sqrt().into()
}

/// `[1]`: `Σ g²` over all parameters.
pub(crate) fn squares<M: Module>(module: &M, grads: &GradientsParams) -> Tensor<1> {
    struct Squares<'g> {
        grads: &'g GradientsParams,
        sums: Vec<Tensor<1>>,
    }
    impl ModuleVisitor for Squares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(grad) = self.grads.get::<D>(param.id) {
                self.sums.push(grad.square().sum());
            }
        }
    }
    let mut squares = Squares { grads, sums: Vec::new() };
    module.visit(&mut squares);
    if squares.sums.is_empty() {
        return Tensor::zeros([1], &module.devices()[0]);
    }
    Tensor::cat(squares.sums, 0).sum()
}

fn scaled<M: Module>(module: &M, grads: GradientsParams, scale: f64) -> GradientsParams {
    struct Scale {
        grads: GradientsParams,
        scale: f64,
    }
    impl ModuleVisitor for Scale {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(grad) = self.grads.remove::<D>(param.id) {
                self.grads.register(param.id, grad.mul_scalar(self.scale));
            }
        }
    }
    let mut visitor = Scale { grads, scale };
    module.visit(&mut visitor);
    visitor.grads
}

/// Names the parameters 1, 2, 3… in visiting order. Burn draws their ids at random, and optimizer state is kept by
/// id: numbered, the state of a checkpoint finds its parameters again in another process.
pub fn number_parameters<M: Module>(module: M) -> M {
    struct Number(u64);
    impl ModuleMapper for Number {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            self.0 += 1;
            let (_, tensor, mapper) = param.consume();
            Param::from_mapped_value(ParamId::from(self.0), tensor, mapper)
        }
    }
    module.map(&mut Number(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;

    fn optimizer(ratio: f64, schedule: Schedule) -> Optimizer {
        let config =
            OptimizerConfig { lr: 1.0, lr_warmup_steps_ratio: ratio, schedule, ..Default::default() };
        Optimizer::new(&config, 10)
    }

    #[test]
    fn learning_rates() {
        let check = |ratio, schedule, step, expected: f64| {
            let found = optimizer(ratio, schedule).learning_rate(step);
            assert!((found - expected).abs() < 1e-12, "{ratio} {schedule:?} {step}: {found}, not {expected}");
        };
        check(0.0, Schedule::Constant, 1, 1.0);
        check(0.4, Schedule::Constant, 1, 0.25);
        check(0.4, Schedule::Constant, 4, 1.0);
        check(0.4, Schedule::Constant, 10, 1.0);
        check(0.0, Schedule::Cosine, 1, 1.0);
        check(0.0, Schedule::Cosine, 6, 0.5);
        check(0.4, Schedule::Cosine, 5, 1.0);
        check(1.0, Schedule::Cosine, 10, 1.0);
    }

    fn layer() -> (Linear, GradientsParams) {
        let device = Device::flex().autodiff();
        let layer = number_parameters(LinearConfig::new(2, 1).init(&device));
        // d/dw of 3·x₁·w₁ + …: the gradient of the weight is (3, 4)·s, that of the bias s = 12.
        let input = Tensor::<2>::from_data([[3.0, 4.0]], &device);
        let loss = layer.forward(input).sum() * 12.0;
        let grads = GradientsParams::from_grads(loss.backward(), &layer);
        (layer, grads)
    }

    #[test]
    fn the_norm_is_global() {
        let (layer, grads) = layer();
        // 12·√(3² + 4² + 1)
        assert!((global_norm(&layer, &grads) - 12.0 * 26f64.sqrt()).abs() < 1e-4);
        let scaled = scaled(&layer, grads, 0.5);
        assert!((global_norm(&layer, &scaled) - 6.0 * 26f64.sqrt()).abs() < 1e-4);
    }

    #[test]
    fn a_gradient_that_is_not_finite_shows_in_the_norm() {
        let (layer, mut grads) = layer();
        let weight: Tensor<2> = grads.remove(layer.weight.id).unwrap();
        grads.register(layer.weight.id, weight * f64::NAN);
        assert!(!global_norm(&layer, &grads).is_finite());
    }

    /// An optimizer that was saved and loaded into another process's parameters goes on as if nothing had happened.
    #[test]
    fn state_survives_by_number() {
        let (layer, grads) = layer();
        let mut optimizer = optimizer(0.0, Schedule::Constant);
        let layer_after_one = optimizer.step(1, layer.clone(), grads, 1.0);
        let bytes = optimizer.state().to_record().into_bytes().unwrap();
        let mut resumed = self::optimizer(0.0, Schedule::Constant);
        resumed.restore(burn::optim::OptimizerRecord::from_bytes(bytes).unwrap());
        let grads = || {
            let device = Device::flex().autodiff();
            let loss = layer_after_one.forward(Tensor::<2>::from_data([[1.0, -2.0]], &device)).sum();
            GradientsParams::from_grads(loss.backward(), &layer_after_one)
        };
        let unbroken = optimizer.step(2, layer_after_one.clone(), grads(), 1.0);
        let resumed = resumed.step(2, layer_after_one.clone(), grads(), 1.0);
        let weights = |layer: &Linear| layer.weight.val().inner().into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(weights(&unbroken), weights(&resumed));
    }
}
