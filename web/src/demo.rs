//! A loaded model, its index and its exploration prompts, as JavaScript sees them.

use crate::backend;
use crate::messages::{Finished, Happening, Request, Texts};
use crate::settings::Settings;
use crate::weighing::Weighing;
use js_sys::{Function, Promise};
use rex_grpo::PromptTrie;
use rex_model::{Decoder, HuggingFaceFiles, LoadedModel, Sampling};
use rex_rollout::retrieval::Bm25Index;
use rex_rollout::{ExplorationPool, ProbeOn, Protocol};
use rex_sampler::{Draw, Event, ModelCodec, ProbeStart, Probing, Rollout, Sampler, Task};
use serde_json::json;
use std::cell::RefCell;
use std::fmt::Display;
use std::io::Cursor;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// Logits from which uncertainty is computed (`K` of LogTokU).
const TOP: usize = 10;

/// Answers questions.
#[wasm_bindgen]
pub struct Demo {
    decoder: Decoder,
    codec: ModelCodec,
    index: Bm25Index,
    pool: ExplorationPool,
    trie: PromptTrie,
    settings: Settings,
    protocol: Protocol,
    /// The transcripts of the last question.
    last: RefCell<Vec<Rollout>>,
}

#[wasm_bindgen]
impl Demo {
    /// Opens the device and reads the files; then answers once, so that the device's programs are compiled.
    ///
    /// `texts` is the JSON of [`Texts`].
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub async fn load(
        texts: String,
        tokenizer: Vec<u8>,
        weights: Vec<u8>,
        index: Vec<u8>,
    ) -> Result<Self, JsError> {
        console_error_panic_hook::set_once();
        let texts: Texts = serde_json::from_str(&texts).map_err(named("the worker's message"))?;
        let device = backend::open().await.map_err(named("the device"))?;
        let files = HuggingFaceFiles {
            config_json: &texts.config,
            generation_config_json: texts.generation_config.as_deref(),
            tokenizer_json: &tokenizer,
            chat_template: None,
            weights: vec![("model.safetensors".to_string(), Cursor::new(weights))],
        };
        let LoadedModel { config, decoder, tokenizer, .. } =
            LoadedModel::from_hugging_face(files, &device).map_err(shown)?;
        let codec = ModelCodec(tokenizer);
        let index = Bm25Index::from_bytes(&index).map_err(named("the index"))?;
        let pool =
            ExplorationPool::parse(&texts.exploration, &codec).map_err(named("the exploration prompts"))?;
        let trie = PromptTrie::new(pool.prompts());
        let settings: Settings = toml::from_str(&texts.settings).map_err(named("the settings"))?;
        let protocol = settings.protocol(config.eos_token_ids);
        let demo = Self { decoder, codec, index, pool, trie, settings, protocol, last: RefCell::default() };
        demo.warm_up().await?;
        Ok(demo)
    }

    /// The back end, the model and what it searches, as JSON.
    pub fn info(&self) -> String {
        let memory = wasm_bindgen::memory().unchecked_into::<js_sys::WebAssembly::Memory>();
        let memory = memory.buffer().unchecked_into::<js_sys::ArrayBuffer>().byte_length();
        json!({
            "backend": backend::NAME,
            "parameters": burn::module::Module::num_params(&self.decoder),
            "vocabulary": self.codec.0.vocab_size(),
            "passages": self.index.len(),
            "exploration_prompts": self.pool.prompts().len(),
            "memory_bytes": memory,
        })
        .to_string()
    }

    /// Draws the transcripts of a [`Request`] and returns them as JSON: `transcripts`, each a [`Finished`], and `tokens`, the
    /// number that was computed.
    ///
    /// `happened(json)` is called with every [`Happening`]. After each round (a token for every transcript under way)
    /// `go_on()` is awaited; when it resolves to something false, sampling stops, and what has not ended is left out.
    ///
    /// # Errors
    /// A question that makes no prompt or one that is too long, and the index's errors.
    pub async fn sample(
        &self,
        request: String,
        happened: Function,
        go_on: Function,
    ) -> Result<String, JsError> {
        let request: Request = serde_json::from_str(&request).map_err(named("the worker's message"))?;
        let task = self.task(&request)?;
        let tasks = [task];
        let draw = self.draw(&request);
        let sampler = self.sampler();
        let mut generation = sampler.start(&self.decoder, &tasks, draw);
        let mut observe = |event: Event<'_>| {
            for happening in Happening::of(event, &self.codec) {
                let json = serde_json::to_string(&happening).expect("plain data");
                // What a listener throws is its own matter.
                let _ = happened.call1(&JsValue::NULL, &json.into());
            }
        };
        let mut cancelled = false;
        while !cancelled && generation.round_async(&mut observe).await.map_err(shown)? {
            cancelled = !awaited(&go_on).await?;
        }
        let sampled = generation.finish();

        let mut transcripts = Vec::new();
        for rollout in &sampled.rollouts {
            let ids = rollout.episode.transcript().ids();
            let top = TOP.min(self.codec.0.vocab_size());
            let alternatives = self.decoder.alternatives_async(ids, top, draw.sampling.temperature()).await;
            transcripts.push(Finished::new(rollout, &alternatives, &self.codec));
        }
        let tokens = json!({ "prefilled": sampled.tokens.prefilled, "decoded": sampled.tokens.decoded });
        *self.last.borrow_mut() = sampled.rollouts;
        Ok(json!({ "cancelled": cancelled, "transcripts": transcripts, "tokens": tokens }).to_string())
    }

    /// The last question's transcripts under a mixture with a share `alpha` of probes (their share of the transcripts when
    /// absent), as the JSON of a [`Weighing`].
    pub fn weigh(&self, alpha: Option<f64>) -> String {
        let weighing = Weighing::new(&self.last.borrow(), &self.trie, alpha);
        serde_json::to_string(&weighing).expect("plain data")
    }
}

impl Demo {
    fn sampler(&self) -> Sampler<'_> {
        Sampler {
            codec: &self.codec,
            retriever: &self.index,
            protocol: &self.protocol,
            topk: self.settings.topk(),
            max_rows: self.settings.max_rows(),
            probe_start: ProbeStart::DeadEnd,
        }
    }

    fn task(&self, request: &Request) -> Result<Task, JsError> {
        let prompt = self.codec.0.encode(&self.settings.prompt(&request.question));
        let limit = self.settings.max_prompt_tokens();
        if prompt.len() > limit {
            let message = format!("the question makes a prompt of {} tokens; {limit} fit", prompt.len());
            return Err(JsError::new(&message));
        }
        if prompt.is_empty() {
            return Err(JsError::new("the question makes an empty prompt"));
        }
        Ok(Task { prompt, golds: request.golds.clone() })
    }

    /// As `rex ask` draws: the same seed gives the same tokens.
    fn draw(&self, request: &Request) -> Draw<'_> {
        let sampling = match request.temperature {
            temperature if temperature > 0.0 => Sampling::Temperature(temperature),
            _ => Sampling::Greedy,
        };
        let probing = Probing { probability: 1.0, on: ProbeOn::WrongAnswer, pool: &self.pool };
        Draw {
            sampling,
            group_size: request.originals.max(1),
            probing: request.mixed.then_some(probing),
            seed: request.seed,
            step: 0,
        }
    }

    async fn warm_up(&self) -> Result<(), JsError> {
        let tasks = [Task { prompt: self.codec.0.encode(&self.settings.prompt("?")), golds: Vec::new() }];
        let draw = Draw { sampling: Sampling::Greedy, group_size: 1, probing: None, seed: 0, step: 0 };
        let sampler = self.sampler();
        let mut generation = sampler.start(&self.decoder, &tasks, draw);
        generation.round_async(&mut |_| ()).await.map_err(shown)?;
        Ok(())
    }
}

/// Whether `go_on` resolves to something true.
async fn awaited(go_on: &Function) -> Result<bool, JsError> {
    let failed = |_| JsError::new("the worker's `go_on` failed");
    let promise: Promise = go_on.call0(&JsValue::NULL).map_err(failed)?.unchecked_into();
    Ok(JsFuture::from(promise).await.map_err(failed)?.is_truthy())
}

fn shown(error: impl Display) -> JsError {
    JsError::new(&error.to_string())
}

fn named<E: Display>(what: &str) -> impl Fn(E) -> JsError {
    move |error| JsError::new(&format!("{what}: {error}"))
}
