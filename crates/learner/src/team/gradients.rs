//! The sum of all processes' gradients.

use super::Team;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};

/// Numbers that are summed in one message: enough for its latency not to matter, and little beside a model (25 MiB, as
/// PyTorch's DistributedDataParallel has it).
const BUCKET: usize = 25 << 18;

/// The gradients of a module's parameters, summed over the processes in buckets, in the host's memory. A parameter that has one
/// in any process has one in all afterwards.
pub(crate) fn sum_gradients<M: Module>(team: &dyn Team, module: &M, own: GradientsParams) -> GradientsParams {
    if team.size() == 1 {
        return own;
    }
    let mut presence = Presence { gradients: &own, there: Vec::new() };
    module.visit(&mut presence);
    let mut there = presence.there;
    team.sum_f64(&mut there);

    let mut pack = Pack { there: there.iter(), gradients: own, numbers: Vec::new() };
    module.visit(&mut pack);
    let mut numbers = pack.numbers;
    numbers.chunks_mut(BUCKET).for_each(|bucket| team.sum_f32(bucket));

    let mut unpack = Unpack { there: there.iter(), numbers: &numbers, gradients: GradientsParams::new() };
    module.visit(&mut unpack);
    unpack.gradients
}

/// 1 for every parameter that has a gradient here, 0 for the others, in visiting order.
struct Presence<'g> {
    gradients: &'g GradientsParams,
    there: Vec<f64>,
}

impl ModuleVisitor for Presence<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.there.push(f64::from(self.gradients.get::<D>(param.id).is_some()));
    }
}

/// Moves the gradients into one list; zeros where only others have one.
struct Pack<'t> {
    there: std::slice::Iter<'t, f64>,
    gradients: GradientsParams,
    numbers: Vec<f32>,
}

impl ModuleVisitor for Pack<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.there.next() == Some(&0.0) {
            return;
        }
        match self.gradients.remove::<D>(param.id) {
            Some(gradient) => {
                let values: Vec<f32> = gradient.into_data().try_to_vec().expect("gradients are f32");
                self.numbers.extend(values);
            }
            None => self.numbers.resize(self.numbers.len() + param.shape().num_elements(), 0.0),
        }
    }
}

/// The reverse.
struct Unpack<'t> {
    there: std::slice::Iter<'t, f64>,
    numbers: &'t [f32],
    gradients: GradientsParams,
}

impl ModuleVisitor for Unpack<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.there.next() == Some(&0.0) {
            return;
        }
        let (values, rest) = self.numbers.split_at(param.shape().num_elements());
        self.numbers = rest;
        let values = TensorData::new(values.to_vec(), param.shape());
        let device = param.val().inner().device();
        self.gradients.register(param.id, Tensor::<D>::from_data(values, &device));
    }
}
