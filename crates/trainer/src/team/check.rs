//! Whether all processes begin with the same.

use crate::config::Config;
use crate::data::Question;
use crate::error::TrainError;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use rex_learner::Team;
use rex_model::Decoder;
use sha2::{Digest, Sha256};

/// # Errors
/// [`TrainError::Apart`] where another process has another configuration, other questions or other weights than the first: files
/// of an older day on one of the machines would go unnoticed otherwise.
pub(crate) fn check_start(
    team: &dyn Team,
    config: &Config,
    questions: &[Question],
    decoder: &Decoder,
) -> Result<(), TrainError> {
    if team.size() == 1 {
        return Ok(());
    }
    let configuration = toml::to_string(config).expect("the configuration is plain data").into_bytes();
    // With their right answers: each process scores its own share.
    let questions = format!("{questions:?}").into_bytes();
    let weights = sums(decoder).iter().flat_map(|sum| sum.to_le_bytes()).collect();
    for (what, own) in
        [("configuration", configuration), ("set of questions", questions), ("start model", weights)]
    {
        let all = team.gather(&Sha256::digest(own));
        if let Some(rank) = all.iter().position(|other| *other != all[0]) {
            return Err(TrainError::Apart { what, rank });
        }
    }
    Ok(())
}

/// One number a parameter, in one read from the device.
fn sums<M: Module>(module: &M) -> Vec<f32> {
    struct Sums(Vec<Tensor<1>>);
    impl ModuleVisitor for Sums {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().inner().square().sum());
        }
    }
    let mut sums = Sums(Vec::new());
    module.visit(&mut sums);
    Tensor::cat(sums.0, 0).into_data().try_to_vec().expect("parameters are f32")
}
