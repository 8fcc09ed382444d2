//! From where on something is wrong, and why there.

/// Steps whose mean is compared: enough to even out a few odd questions, few enough to warn in time.
pub(super) const WINDOW: usize = 5;

/// Entropy is lost where it fell to this share of its start and below this many nats a token. Both, because a model that was
/// trained on transcripts starts low, and one that starts high may well halve. At 0.1 nats most tokens are drawn with
/// more than 0.9.
pub(super) const ENTROPY_SHARE: f64 = 0.2;
pub(super) const ENTROPY_NATS: f64 = 0.1;

/// Searching is lost where it fell to this share of its start without better answers: a policy that learns to search
/// only when it must answers better.
pub(super) const SEARCH_SHARE: f64 = 0.25;
/// Fewer searches a question than this were never a habit.
pub(super) const SEARCH_HABIT: f64 = 0.2;
/// Exact match that counts as better.
pub(super) const EM_GAIN: f64 = 0.05;

/// What the policy gets right became less likely by this many nats a token: each token by a quarter, ten in a row to a
/// twentieth. It is the policy's own samples that are measured, so that a fall is one of confidence.
pub(super) const LIKELIHOOD_NATS: f64 = 0.3;

/// Steps in a row without a gradient: one happens by chance in small batches, three mean that the questions are too hard
/// or too easy.
pub(super) const FLAT_STEPS: usize = 3;
/// Advantages are `(r − mean)/(std + 1e-6)`: equal rewards leave rounding, no more.
pub(super) const FLAT_ADVANTAGE: f64 = 1e-6;

/// Share of transcripts cut off by the context: at every fifth the reward measures length.
pub(super) const TRUNCATED_SHARE: f64 = 0.2;

/// The probes' accuracy is averaged with weight 0.1: after 20 steps without a success an eighth is left (0.9^20 = 0.12).
pub(super) const KEEP_RATIO_SHARE: f64 = 0.125;
