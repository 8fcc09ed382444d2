//! Low-rank adapters (Hu et al., arXiv 2106.09685): a frozen matrix `W` acts as `W + (alpha / rank) A B`.

use burn::module::{LoraAdapter, Module, ModuleMapper, Param, Reparameterizer};
use burn::tensor::{FloatDType, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::decoder::Decoder;

/// Which matrices are adapted, and by how much.
#[derive(Debug, Clone, PartialEq)]
pub struct Lora {
    /// Columns of `A` and rows of `B`.
    pub rank: usize,
    pub alpha: f64,
    /// Names out of [`Lora::MODULES`].
    pub target_modules: Vec<String>,
}

impl Lora {
    /// The linear maps of a layer, by their names in checkpoints.
    pub const MODULES: [&str; 7] =
        ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
}

impl Decoder {
    /// Freezes every parameter and gives the target modules adapters that are trained in their place. The decoder computes
    /// what it did: `B` starts at 0, `A` uniform in `±1/√in` as in PEFT, from `seed`.
    pub fn with_adapters(self, lora: &Lora, seed: u64) -> Self {
        self.apply_reparameterization(Attach { lora, random: ChaCha8Rng::seed_from_u64(seed) })
    }

    /// What generates: the same function, without a graph, adapters merged into the weights that they adapt, and these in
    /// the type that products are computed in.
    pub fn frozen(&self) -> Self {
        self.valid().materialize().map(&mut Round(self.computes_in))
    }
}

struct Round(FloatDType);

impl ModuleMapper for Round {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        parameter.map(|tensor| tensor.cast(self.0))
    }
}

struct Attach<'l> {
    lora: &'l Lora,
    random: ChaCha8Rng,
}

impl Reparameterizer for Attach<'_> {
    type Reparam = LoraAdapter;

    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LoraAdapter>) {
        let Lora { rank, alpha, ref target_modules } = *self.lora;
        let param = param.set_require_grad(false);
        let module = path.strip_suffix(".weight").and_then(|path| path.rsplit('.').next());
        if !module.is_some_and(|module| target_modules.iter().any(|target| target == module)) {
            return (param, None);
        }
        let (shape, device) = (param.lazy_shape(), param.lazy_device());
        let (input, output) = (shape[0], shape[1]);
        let bound = (input as f32).powf(-0.5);
        let values = (0..input * rank).map(|_| self.random.random_range(-bound..bound)).collect();
        let a = Tensor::<2>::from_data(TensorData::new::<f32, _>(values, [input, rank]), &device);
        let b = Tensor::<2>::zeros([rank, output], &device);
        let adapter =
            LoraAdapter { a: Param::from_tensor(a), b: Param::from_tensor(b), scale: alpha / rank as f64 };
        (param, Some(adapter))
    }
}
