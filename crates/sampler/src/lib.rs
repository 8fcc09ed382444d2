//! Mixed sampling with a model and a search engine: what training, the command line and the browser demo share.
//!
//! [`Sampler`] drives many episodes over one engine, to the end ([`Sampler::sample`]) or a round at a time
//! ([`Sampler::start`]), where the caller may wait for a device or stop in between. [`ModelCodec`] is the model's tokenizer
//! as episodes see one, [`probe_density`] what a finished probe is to the policy correction.

mod codec;
mod density;
mod generation;
mod sampler;

pub use codec::ModelCodec;
pub use density::probe_density;
pub use generation::Generation;
pub use sampler::{Draw, Event, Origin, ProbeStart, Probing, Rollout, Sampled, Sampler, Task};
