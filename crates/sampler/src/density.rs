//! From a finished probe to its density (METHOD §3).

use rex_grpo::{Probe, ProbeDensity, PromptTrie};
use rex_rollout::Episode;

/// Where an episode's exploration prompt lies and under which density it was drawn; `None` for an original.
///
/// `log_failure_rate` is `log z` of the step's originals.
///
/// # Panics
/// If `trie` does not count the pool that the exploration prompt was drawn from.
pub fn probe_density(
    episode: &Episode,
    trie: &PromptTrie,
    density: ProbeDensity,
    log_failure_rate: f64,
) -> Option<Probe> {
    let prompt = episode.branch()?.exploration.clone();
    let transcript = episode.transcript();
    let prompt_log_density = trie
        .log_density(&transcript.ids()[prompt.clone()], density)
        .expect("exploration prompts come from the pool that the trie counts");
    let loss_mask: Vec<bool> = transcript.authors().iter().map(|author| author.in_loss()).collect();
    Some(Probe::new(prompt, prompt_log_density, &loss_mask, log_failure_rate))
}
