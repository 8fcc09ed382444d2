//! A loaded model, its index and its exploration prompts, as JavaScript sees them.

use crate::backend;
use crate::messages::{Asked, Finished, Happening, Lesson, Request, Texts};
use crate::settings::Settings;
use crate::student::Student;
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
    /// What answers: the model as it was loaded, or as it has learnt.
    decoder: RefCell<Decoder>,
    /// As it was loaded.
    start: Decoder,
    student: RefCell<Option<Student>>,
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
        let protocol = settings.rollout.protocol(config.eos_token_ids);
        let (start, decoder) = (decoder.clone(), RefCell::new(decoder));
        let student = RefCell::default();
        let demo = Self {
            decoder,
            start,
            student,
            codec,
            index,
            pool,
            trie,
            settings,
            protocol,
            last: RefCell::default(),
        };
        demo.warm_up().await?;
        Ok(demo)
    }

    /// The back end, the model and what it searches, as JSON.
    pub fn info(&self) -> String {
        let memory = wasm_bindgen::memory().unchecked_into::<js_sys::WebAssembly::Memory>();
        let memory = memory.buffer().unchecked_into::<js_sys::ArrayBuffer>().byte_length();
        json!({
            "backend": backend::NAME,
            "parameters": burn::module::Module::num_params(&self.start),
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
        let task = self.task(&request.asked)?;
        let tasks = [task];
        let draw = self.draw(&request);
        let sampler = self.sampler();
        let decoder = self.decoder.borrow().clone();
        let mut generation = sampler.start(&decoder, &tasks, draw);
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
            let alternatives = decoder.alternatives_async(ids, top, draw.sampling.temperature()).await;
            transcripts.push(Finished::new(rollout, &alternatives, &self.codec));
        }
        let tokens = json!({ "prefilled": sampled.tokens.prefilled, "decoded": sampled.tokens.decoded });
        *self.last.borrow_mut() = sampled.rollouts;
        Ok(json!({ "cancelled": cancelled, "transcripts": transcripts, "tokens": tokens }).to_string())
    }

    /// One step of REX on the questions of a [`Lesson`]: draws their transcripts by mixed sampling, and updates the policy, which
    /// answers from then on. Returns the JSON of a [`Learnt`], or `null` where `go_on()` resolved to something false; it is
    /// awaited as in [`sample`](Self::sample), and `drawn(done, total)` is called whenever an original has ended.
    ///
    /// # Errors
    /// As [`sample`](Self::sample); where a step is under way already.
    pub async fn learn(&self, lesson: String, drawn: Function, go_on: Function) -> Result<String, JsError> {
        let Lesson { questions, seed } =
            serde_json::from_str(&lesson).map_err(named("the worker's message"))?;
        let under_way = |_| JsError::new("a step is under way");
        let mut student = self.student.try_borrow_mut().map_err(under_way)?;
        let student =
            student.get_or_insert_with(|| Student::new(&self.start, &self.settings, &self.pool, seed));
        let tasks: Vec<Task> = questions.iter().map(|asked| self.task(asked)).collect::<Result<_, _>>()?;
        let rollout = &self.settings.rollout;
        let probe = &self.settings.probe;
        let probing = Probing { probability: probe.probability, on: probe.on, pool: &self.pool };
        let draw = Draw {
            sampling: Sampling::Temperature(rollout.temperature),
            group_size: rollout.group_size,
            probing: (probe.probability > 0.0).then_some(probing),
            seed,
            // The trainer's stream of a step without replaced questions.
            step: (student.step() as u64 + 1) << 8,
        };
        // What answers is the policy as the last step left it.
        let (sampler, policy) = (self.sampler(), self.decoder.borrow().clone());
        let mut generation = sampler.start(&policy, &tasks, draw);
        let (mut done, total) = (0, tasks.len() * draw.group_size);
        let mut observe = |event: Event<'_>| {
            if let Event::Finished { episode, .. } = event
                && episode.branch().is_none()
            {
                done += 1;
                let _ = drawn.call2(&JsValue::NULL, &done.into(), &(total as u32).into());
            }
        };
        while generation.round_async(&mut observe).await.map_err(shown)? {
            if !awaited(&go_on).await? {
                return Ok("null".to_string());
            }
        }
        let learnt = student.learn(&generation.finish().rollouts).await;
        *self.decoder.borrow_mut() = student.policy();
        Ok(serde_json::to_string(&learnt).expect("plain data"))
    }

    /// Goes back to the model as it was loaded.
    ///
    /// # Errors
    /// Where a step is under way.
    pub fn unlearn(&self) -> Result<(), JsError> {
        let mut student = self.student.try_borrow_mut().map_err(|_| JsError::new("a step is under way"))?;
        *student = None;
        *self.decoder.borrow_mut() = self.start.clone();
        Ok(())
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
            topk: self.settings.retriever.topk,
            max_rows: self.settings.rollout.max_rows,
            probe_start: ProbeStart::DeadEnd,
        }
    }

    fn task(&self, asked: &Asked) -> Result<Task, JsError> {
        let prompt = self.codec.0.encode(&self.settings.prompt(&asked.question));
        let limit = self.settings.rollout.max_start_length;
        if prompt.len() > limit {
            let message = format!("the question makes a prompt of {} tokens; {limit} fit", prompt.len());
            return Err(JsError::new(&message));
        }
        if prompt.is_empty() {
            return Err(JsError::new("the question makes an empty prompt"));
        }
        Ok(Task { prompt, golds: asked.golds.clone() })
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
        let mut generation = sampler.start(&self.start, &tasks, draw);
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
