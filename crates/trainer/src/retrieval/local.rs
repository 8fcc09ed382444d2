//! An index in this process, searched one way or another.

use super::{DenseRetriever, Hybrid};
use crate::error::TrainError;
use burn::tensor::Device;
use rex_rollout::Retriever;
use rex_rollout::retrieval::Bm25Index;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// How an index is searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// By words.
    #[default]
    Bm25,
    /// By meaning: vectors that `rex index build --encoder` has made.
    Dense,
    /// Both, fused by rank.
    Hybrid,
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "bm25" => Ok(Self::Bm25),
            "dense" => Ok(Self::Dense),
            "hybrid" => Ok(Self::Hybrid),
            _ => Err("expected bm25, dense or hybrid".to_string()),
        }
    }
}

/// A retriever over `index`, which is in `folder`. An encoder runs on `device`.
///
/// # Errors
/// When the method needs vectors and there are none, or they or their encoder cannot be used.
pub fn local(
    index: Arc<Bm25Index>,
    folder: &Path,
    method: Method,
    device: &Device,
) -> Result<Box<dyn Retriever>, TrainError> {
    let dense = || DenseRetriever::open(folder, index.clone(), device);
    Ok(match method {
        Method::Bm25 => Box::new(index),
        Method::Dense => Box::new(dense()?),
        Method::Hybrid => Box::new(Hybrid::new(index.clone(), dense()?)),
    })
}
