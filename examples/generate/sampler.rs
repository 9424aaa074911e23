//! Choosing the next token.

/// How to choose the next token from the logits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    /// Divides the logits; 0 always takes the largest.
    pub(crate) temperature: f32,
    /// Draws only from this many most likely tokens.
    pub(crate) top_k: Option<usize>,
    /// Draws only from the most likely tokens whose probabilities sum to this.
    pub(crate) top_p: Option<f32>,
    /// Seed of the random number generator.
    pub(crate) seed: u64,
}

/// Draws tokens.
pub(crate) struct Sampler {
    sampling: Sampling,
    random: fastrand::Rng,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling) -> Self {
        Sampler { sampling, random: fastrand::Rng::with_seed(sampling.seed) }
    }

    /// Chooses the next token; `None` if all logits are NaN.
    pub(crate) fn next(&mut self, logits: &[f32]) -> Option<u32> {
        if self.sampling.temperature <= 0.0 {
            return most_likely(logits);
        }
        let mut order: Vec<u32> =
            (0..logits.len() as u32).filter(|i| !logits[*i as usize].is_nan()).collect();
        let logit = |i: &u32| logits[*i as usize];
        // A stable sort: among equal logits, the lowest id comes first.
        order.sort_by(|a, b| logit(b).total_cmp(&logit(a)));
        let most_likely = *order.first()?;
        order.truncate(self.sampling.top_k.filter(|k| *k > 0).unwrap_or(order.len()));
        let max = logit(&most_likely);
        let mut weights: Vec<f32> =
            order.iter().map(|i| ((logit(i) - max) / self.sampling.temperature).exp()).collect();
        if let Some(p) = self.sampling.top_p {
            let enough = weights.iter().sum::<f32>() * p;
            let mut sum = 0.0;
            let kept = weights
                .iter()
                .take_while(|w| {
                    let more = sum < enough;
                    sum += **w;
                    more
                })
                .count();
            weights.truncate(kept.max(1));
        }
        let mut at = self.random.f32() * weights.iter().sum::<f32>();
        let drawn = weights
            .iter()
            .position(|w| {
                at -= w;
                at < 0.0
            })
            .unwrap_or(weights.len() - 1);
        Some(order[drawn])
    }
}

/// The id of the largest logit, ignoring NaN; the lowest id if several are equal.
pub(crate) fn most_likely(logits: &[f32]) -> Option<u32> {
    let numbers = logits.iter().zip(0..).filter(|(v, _)| !v.is_nan());
    numbers.reduce(|best, next| if next.0.total_cmp(best.0).is_gt() { next } else { best }).map(|(_, i)| i)
}
