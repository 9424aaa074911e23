//! Routing of tokens to experts, and the weighted sum of the experts' results.
use super::declare::{family, methods, ops};
use super::extents;
use super::options::words;
use crate::{
    Backend, DType, Error, Execute, Float, Layout, Op, Operand, Operands, Result, Shape, TensorOf, Tolerance,
};
use core::hash::Hash;

/// How logits become scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scoring {
    /// Softmax over the experts.
    #[default]
    Softmax,
    /// The sigmoid of each logit.
    Sigmoid,
}

/// Whether experts are scored before or after they are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScoringOrder {
    /// All experts are scored, and those with the largest scores are chosen.
    #[default]
    Before,
    /// The experts with the largest logits are chosen and scored among themselves.
    After,
}

/// How a group of experts is scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupScore {
    /// The sum of its two largest biased scores; for a group of one expert, its only score.
    #[default]
    Top2,
    /// Its largest biased score.
    Max,
}

impl Scoring {
    /// All, with the words that files use.
    pub const ALL: [(&str, Scoring); 2] = [("softmax", Scoring::Softmax), ("sigmoid", Scoring::Sigmoid)];
}
impl ScoringOrder {
    /// All, with the words that files use.
    pub const ALL: [(&str, ScoringOrder); 2] =
        [("before", ScoringOrder::Before), ("after", ScoringOrder::After)];
}
impl GroupScore {
    /// All, with the words that files use.
    pub const ALL: [(&str, GroupScore); 2] = [("top2", GroupScore::Top2), ("max", GroupScore::Max)];
}

words!(Scoring, ScoringOrder, GroupScore);

ops! {
    /// The top `k` experts of each token and their weights.
    ///
    /// Operands: `logits[n, e]`; optional `bias[e]` in `T` or f32; `weights[n, k]` of f32; `ids[n, k]` of u32.
    /// Experts are in descending order of score, the lower id first among equals. The bias is added to scores (to
    /// logits, if scoring comes after the choice) only to choose experts. Scores are f32, so unequal logits may
    /// tie. Logits of NaN give any distinct ids.
    ///
    /// With several groups, only the experts of the `groups_kept` best groups are candidates, the lower group
    /// first among equals. Shazeer et al., "Outrageously Large Neural Networks", 2017; groups: DeepSeek-AI,
    /// "DeepSeek-V3 Technical Report", 2024.
    pub struct RouterTopK<T: Float> {
        /// The number of experts per token.
        pub k: usize,
        /// How logits become scores.
        pub scoring: Scoring = Scoring::Softmax,
        /// Whether experts are scored before or after they are chosen.
        pub order: ScoringOrder = ScoringOrder::Before,
        /// Divides the weights by their sum (plus 1e-20).
        pub renormalize: bool = false,
        /// Multiplies the final weights.
        pub scale: f64 = 1.0,
        /// The number of groups of consecutive experts; must divide the number of experts.
        pub groups: usize = 1,
        /// The number of groups kept.
        pub groups_kept: usize = 1,
        /// How a group is scored.
        pub group_score: GroupScore = GroupScore::Top2,
    }
    /// The `k` experts with the largest softmax; their weights are the softmax over all experts.
    fn of;
    operands router_topk { logits: in T [n, e], bias: opt any [e], weights: out f32 [n, k], ids: out u32 [n, k] }

    /// `y[i] = Σ_j weights[i, j] · x[i, j]`: the weighted sum of each token's expert results.
    ///
    /// Operands: `x[n, k, d]`; `weights[n, k]` of f32; `y[n, d]`.
    pub struct CombineExperts<T: Float> {}
    const OP;
    operands combine_experts { x: in T [n, k, d], weights: in f32 [n, k], y: out T [n, d] }
}
impl<T> RouterTopK<T> {
    /// Sets how logits become scores.
    pub fn scoring(self, scoring: Scoring) -> Self {
        RouterTopK { scoring, ..self }
    }
    /// Scores the chosen experts among themselves.
    pub fn scored_after(self) -> Self {
        RouterTopK { order: ScoringOrder::After, ..self }
    }
    /// Divides the weights by their sum.
    pub fn renormalize(self) -> Self {
        RouterTopK { renormalize: true, ..self }
    }
    /// Multiplies the final weights.
    pub fn scale(self, scale: f64) -> Self {
        RouterTopK { scale, ..self }
    }
    /// Chooses among the experts of the `kept` best of `groups` groups.
    pub fn groups(self, groups: usize, kept: usize) -> Self {
        RouterTopK { groups, groups_kept: kept, ..self }
    }
    /// Sets how a group is scored.
    pub fn group_score(self, group_score: GroupScore) -> Self {
        RouterTopK { group_score, ..self }
    }

    /// Checks `k` and the groups for `e` experts.
    fn check(&self, e: usize) -> Result<()> {
        let wrong = |option, got: usize, want: String| Err(Error::param("router_topk", option, got, want));
        let &RouterTopK { k, groups, groups_kept, .. } = self;
        if groups == 0 || !e.is_multiple_of(groups) {
            return wrong("groups", groups, format!("a divisor of the {e} experts"));
        }
        if groups_kept > groups {
            return wrong("groups_kept", groups_kept, format!("at most the {groups} groups"));
        }
        let left = e / groups * groups_kept;
        if k > left {
            return wrong(
                "k",
                k,
                format!("at most {left}: {groups_kept} of {groups} groups of {e} experts are kept"),
            );
        }
        Ok(())
    }
}
impl<T: Float> Op for RouterTopK<T> {
    fn infer(&self, on: &args::router_topk::Shapes<'_>) -> Result<[Shape; 2]> {
        let &[n, e] = on.logits.dims() else {
            return Err(Error::shape(self.name(), "logits", on.logits, "[n, e]"));
        };
        if u32::try_from(e).is_err() {
            return Err(Error::shape(
                self.name(),
                "logits",
                on.logits,
                "fewer than 2^32 experts, since ids are u32",
            ));
        }
        own_or_f32::<T>(self.name(), on.bias, &[e])?;
        self.check(e)?;
        let shape = Shape::new(&[n, self.k])?;
        Ok([shape, shape])
    }
}

/// Checks a bias, if given: of `T` or f32, with these extents.
pub(super) fn own_or_f32<T: Float>(
    op: &'static str,
    bias: Option<Operand<'_>>,
    dims: &[usize],
) -> Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    let want = match T::DTYPE {
        DType::F16 => "f16 or f32",
        DType::BF16 => "bf16 or f32",
        DType::F32 => "f32",
        _ => "f64 or f32",
    };
    bias.require(op, |dtype| dtype == T::DTYPE || dtype == DType::F32, want)?;
    extents(op, bias.name, bias.layout, dims)
}

impl<T: Float> Op for CombineExperts<T> {
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::summed(dtype)
    }
}

/// The extents of an operand with three axes.
pub(super) fn three(op: &'static str, operand: &'static str, x: &Layout, want: &str) -> Result<[usize; 3]> {
    <[usize; 3]>::try_from(x.dims()).map_err(|_| Error::shape(op, operand, x, want))
}

/// Weights and ids, as [`RouterTopK`] gives them.
pub type WeightsAndIds<B> = (TensorOf<B, f32>, TensorOf<B, u32>);

family! {
    /// Routing to experts by logits in `T`, and sums of their results.
    pub trait RoutingOps<T: Float>: Execute<RouterTopK<T>>, Execute<CombineExperts<T>>;
    methods RoutingMethods;
}

/// The methods of [`RoutingOps`].
pub trait RoutingMethods: Backend {
    methods! {
        RoutingOps<T: Float>;
        /// [`RouterTopK`]: the experts of each token and their weights.
        example
        /// let logits = b.tensor(&[1, 4], &[-200.0f32, 3.0, -200.0, 3.0])?;
        /// let (weights, ids) = b.router_topk(&logits, None, RouterTopK::of(2))?;
        /// assert_eq!((weights.to_vec(&b)?, ids.to_vec(&b)?), (vec![0.5, 0.5], vec![1, 3]));
        fn router_topk, router_topk_into(
            logits: in T, bias: opt any; weights: f32, ids: u32; op: impl Into<RouterTopK<T>>
        ) = router_topk(op.into());

        /// [`CombineExperts`]: `Σ_j weights[i, j] · x[i, j]`.
        example
        /// let x = b.tensor(&[1, 2, 3], &[1.0f32, 2.0, 3.0, 10.0, 20.0, 30.0])?;
        /// let weights = b.tensor(&[1, 2], &[0.5f32, 0.25])?;
        /// assert_eq!(b.combine_experts(&x, &weights)?.to_vec(&b)?, [3.0, 6.0, 9.0]);
        fn combine_experts, combine_experts_into(
            x: in T, weights: in f32; y: T
        ) = combine_experts(CombineExperts::<T>::OP);
    }
}
