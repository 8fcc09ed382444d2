//! Transcripts, drawn by all processes for all of them.

use crate::sampler::{Draw, Event, Sampled, Sampler, Task};
use rex_learner::Team;
use rex_model::Decoder;
use rex_rollout::RetrievalError;

/// The transcripts of all tasks, of which this process draws its share.
///
/// # Errors
/// The retriever's error, if a search of this process fails.
pub(crate) fn sample(
    team: &dyn Team,
    sampler: &Sampler<'_>,
    decoder: &Decoder,
    tasks: &[Task],
    draw: Draw<'_>,
    observe: &mut (dyn FnMut(Event<'_>) + Send),
) -> Result<Sampled, RetrievalError> {
    let own = sampler.sample_share(decoder, tasks, team.share(tasks.len()), draw, observe)?;
    if team.size() == 1 {
        return Ok(own);
    }
    let own = serde_json::to_vec(&own).expect("plain data");
    let read = |part: &Vec<u8>| serde_json::from_slice(part).expect("what a process like this one wrote");
    Ok(Sampled::of(team.gather(&own).iter().map(read).collect()))
}
