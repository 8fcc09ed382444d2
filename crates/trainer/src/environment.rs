//! What the policy acts in: tokenizer, prompt, protocol, retriever and exploration prompts, built from a configuration.

use crate::config::Config;
use crate::data::Question;
use crate::error::TrainError;
use crate::retrieval;
use crate::sampler::{ModelCodec, ProbeStart, Probing, Sampler, Task};
use rex_model::LoadedModel;
use rex_rollout::{Codec, DEFAULT_EXPLORATION, ExplorationPool, ProbeOn, Protocol, Retriever};

/// Everything around the model that rollouts need; built once a run.
pub struct Environment {
    codec: ModelCodec,
    prompt: String,
    max_start_length: usize,
    protocol: Protocol,
    retriever: Box<dyn Retriever>,
    pool: ExplorationPool,
    topk: usize,
    max_rows: usize,
    probe_probability: f64,
    probe_on: ProbeOn,
    probe_start: ProbeStart,
}

impl Environment {
    /// Opens or builds the index and encodes the exploration prompts.
    ///
    /// # Errors
    /// A corpus, index or pool that cannot be read, each with its path.
    pub fn new(config: &Config, model: &LoadedModel) -> Result<Self, TrainError> {
        let codec = ModelCodec(model.tokenizer.clone());
        let pool = match &config.probe.pool {
            Some(path) => {
                let io = |source| TrainError::Io { path: path.clone(), source };
                ExplorationPool::parse(&std::fs::read_to_string(path).map_err(io)?, &codec)?
            }
            None => ExplorationPool::parse(DEFAULT_EXPLORATION, &codec)?,
        };
        let rollout = &config.rollout;
        let protocol = rollout.protocol(model.config.eos_token_ids.clone());
        Ok(Self {
            codec,
            prompt: config.data.prompt.clone(),
            max_start_length: rollout.max_start_length,
            protocol,
            retriever: retrieval::connect(&config.retriever, &model.decoder.device())?,
            pool,
            topk: config.retriever.topk,
            max_rows: rollout.max_rows,
            probe_probability: config.probe.probability,
            probe_on: config.probe.on,
            probe_start: config.probe.start,
        })
    }

    pub fn sampler(&self) -> Sampler<'_> {
        Sampler {
            codec: &self.codec,
            retriever: self.retriever.as_ref(),
            protocol: &self.protocol,
            topk: self.topk,
            max_rows: self.max_rows,
            probe_start: self.probe_start,
        }
    }

    /// Mixed sampling as configured; `None` where it is off.
    pub fn probing(&self) -> Option<Probing<'_>> {
        let (probability, on, pool) = (self.probe_probability, self.probe_on, &self.pool);
        (probability > 0.0).then_some(Probing { probability, on, pool })
    }

    pub fn pool(&self) -> &ExplorationPool {
        &self.pool
    }

    pub fn codec(&self) -> &dyn Codec {
        &self.codec
    }

    /// A question's prompt, encoded.
    ///
    /// # Errors
    /// [`TrainError::EmptyPrompt`], or [`TrainError::LongPrompt`]: a prompt is never cut.
    pub fn task(&self, question: &Question) -> Result<Task, TrainError> {
        let prompt = self.codec.0.encode(&self.prompt.replace("{question}", question.question.trim()));
        if prompt.is_empty() {
            return Err(TrainError::EmptyPrompt { id: question.id.clone() });
        }
        if prompt.len() > self.max_start_length {
            let (id, tokens) = (question.id.clone(), prompt.len());
            return Err(TrainError::LongPrompt { id, tokens, limit: self.max_start_length });
        }
        Ok(Task { prompt, golds: question.golden_answers.clone() })
    }
}
