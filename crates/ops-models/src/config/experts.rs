//! Mixtures of experts.
use crate::Result;
use crate::keys::Keys;
use ops_core::ops::{GroupScore, Scoring, ScoringOrder};

/// A mixture of experts.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Experts {
    /// Number of experts.
    pub count: usize,
    /// Number of experts per token.
    pub used: usize,
    /// Width of an expert.
    pub ffn: usize,
    /// How the router's logits become scores.
    pub scoring: Scoring,
    /// Whether scoring comes before or after the choice.
    pub order: ScoringOrder,
    /// Whether the weights of the chosen experts are scaled to sum to 1.
    pub renormalize: bool,
    /// A factor on the weights.
    pub scale: f64,
    /// The number of expert groups, and how many of them are kept.
    pub groups: (usize, usize),
    /// How a group is scored.
    pub group_score: GroupScore,
    /// Width of the shared block, which computes every token; 0 if there is none.
    pub shared: usize,
    /// Number of leading layers that have a dense block instead.
    pub leading_dense: usize,
}

impl Experts {
    /// Reads the metadata. The default is softmax over all experts with renormalised weights.
    pub(crate) fn read(keys: &Keys<'_>, ffn: usize) -> Result<Self> {
        let (scoring, order) = match keys.find::<u32>("expert_gating_func")?.unwrap_or(0) {
            0 | 1 => (Scoring::Softmax, ScoringOrder::Before),
            2 => (Scoring::Sigmoid, ScoringOrder::Before),
            3 => (Scoring::Softmax, ScoringOrder::After),
            other => {
                let wanted = "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)";
                return Err(keys.wrong("expert_gating_func", other, wanted));
            }
        };
        let found = |key: &str| -> Result<usize> { Ok(keys.find::<u32>(key)?.unwrap_or(0) as usize) };
        let groups = found("expert_group_count")?.max(1);
        let kept = if groups == 1 { 1 } else { keys.count("expert_group_used_count")? };
        let ffn = keys.count_or("expert_feed_forward_length", ffn)?;
        // The shared block's size is given as its width, or as a number of experts.
        let count = found("expert_shared_count")?;
        let shared = found("expert_shared_feed_forward_length")?;
        let shared = if shared > 0 { Some(shared) } else { count.checked_mul(ffn) };
        let shared = shared.ok_or_else(|| {
            keys.wrong("expert_shared_count", count, format!("a number of experts of width {ffn}"))
        })?;
        Ok(Experts {
            count: keys.count("expert_count")?,
            used: keys.count("expert_used_count")?,
            ffn,
            scoring,
            order,
            renormalize: keys.find::<bool>("expert_weights_norm")?.unwrap_or(true),
            scale: keys.float("expert_weights_scale")?.filter(|scale| *scale != 0.0).unwrap_or(1.0),
            groups: (groups, kept),
            group_score: GroupScore::Top2,
            shared,
            leading_dense: found("leading_dense_block_count")?,
        })
    }

    /// Checks that the numbers of experts and groups fit together.
    pub(super) fn check(&self, keys: &Keys<'_>) -> Result<()> {
        let &Experts { count, used, groups: (groups, kept), .. } = self;
        if !count.is_multiple_of(groups) {
            return Err(keys.wrong(
                "expert_group_count",
                groups,
                format!("a divisor of {count}, the number of experts"),
            ));
        }
        if kept > groups {
            return Err(keys.wrong("expert_group_used_count", kept, format!("at most {groups}")));
        }
        let left = count / groups * kept;
        if used > left {
            return Err(keys.wrong("expert_used_count", used, format!("at most {left}")));
        }
        Ok(())
    }
}
