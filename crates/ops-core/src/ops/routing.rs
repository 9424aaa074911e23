//! Routing of tokens to experts, and the weighted sum of the experts' results.
use super::extents;
use super::registry::OptionValue;
use crate::{
    AnyRef, AsView, AsViewMut, DType, Error, Execute, Float, Layout, Op, Operand, Operands, Result, Shape,
    TensorOf, Tolerance, Written, operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

pub(super) mod args {
    use super::*;
    operands!(pub mod router_topk: RouterTopK<T: Float> { logits: in T, bias: opt any, weights: out f32, ids: out u32 });
    operands!(pub mod combine_experts: CombineExperts<T: Float> { x: in T, weights: in f32, y: out T });
}

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
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RouterTopK<T> {
    /// The number of experts per token.
    pub k: usize,
    /// How logits become scores.
    pub scoring: Scoring,
    /// Whether experts are scored before or after they are chosen.
    pub order: ScoringOrder,
    /// Divides the weights by their sum (plus 1e-20).
    pub renormalize: bool,
    /// Multiplies the final weights.
    pub scale: f64,
    /// The number of groups of consecutive experts; must divide the number of experts.
    pub groups: usize,
    /// The number of groups kept.
    pub groups_kept: usize,
    /// How a group is scored.
    pub group_score: GroupScore,
    types: PhantomData<T>,
}
impl<T> RouterTopK<T> {
    /// The `k` experts with the largest softmax; their weights are the softmax over all experts.
    pub fn of(k: usize) -> Self {
        RouterTopK {
            k,
            scoring: Scoring::Softmax,
            order: ScoringOrder::Before,
            renormalize: false,
            scale: 1.0,
            groups: 1,
            groups_kept: 1,
            group_score: GroupScore::Top2,
            types: PhantomData,
        }
    }
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
    fn name(&self) -> &'static str {
        "router_topk"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![
            ("k", self.k.into()),
            ("scoring", OptionValue::word(Scoring::ALL, self.scoring)),
            ("order", OptionValue::word(ScoringOrder::ALL, self.order)),
            ("renormalize", self.renormalize.into()),
            ("scale", self.scale.into()),
            ("groups", self.groups.into()),
            ("groups_kept", self.groups_kept.into()),
            ("group_score", OptionValue::word(GroupScore::ALL, self.group_score)),
        ]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let RouterTopK { k, scoring, order, renormalize, scale, groups, groups_kept, group_score, types: _ } =
            self;
        (k, scoring, order, renormalize, scale.to_bits(), groups, groups_kept, group_score).hash(state);
    }
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

/// `y[i] = Σ_j weights[i, j] · x[i, j]`: the weighted sum of each token's expert results.
///
/// Operands: `x[n, k, d]`; `weights[n, k]` of f32; `y[n, d]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CombineExperts<T>(PhantomData<T>);
impl<T> CombineExperts<T> {
    /// The op; it has no options.
    pub const OP: Self = CombineExperts(PhantomData);
}
impl<T: Float> Op for CombineExperts<T> {
    fn name(&self) -> &'static str {
        "combine_experts"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &args::combine_experts::Shapes<'_>) -> Result<[Shape; 1]> {
        let [n, k, d] = three(self.name(), "x", on.x, "[n, k, d]")?;
        extents(self.name(), "weights", on.weights, &[n, k])?;
        Ok([Shape::new(&[n, d])?])
    }
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

/// Routing to experts by logits in `T`, and sums of their results.
pub trait RoutingOps<T: Float>: Execute<RouterTopK<T>> + Execute<CombineExperts<T>> {
    /// [`RouterTopK`]: the experts of each token and their weights.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Param`], [`Error::DType`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let logits = b.tensor(&[1, 4], &[-200.0f32, 3.0, -200.0, 3.0])?;
    /// let (weights, ids) = b.router_topk(&logits, None, RouterTopK::of(2))?;
    /// assert_eq!((weights.to_vec(&b)?, ids.to_vec(&b)?), (vec![0.5, 0.5], vec![1, 3]));
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn router_topk(
        &self,
        logits: impl AsView<Self::Space, T>,
        bias: Option<AnyRef<'_, Self::Space>>,
        op: RouterTopK<T>,
    ) -> Result<WeightsAndIds<Self>> {
        let logits = logits.view();
        let on =
            args::router_topk::Shapes { logits: logits.layout(), bias: None, weights: Written, ids: Written };
        let [weights, ids] = op.infer(&on)?;
        let (mut weights, mut ids) = (self.empty(weights)?, self.empty(ids)?);
        self.router_topk_into(logits, bias, &mut weights, &mut ids, op)?;
        Ok((weights, ids))
    }
    /// [`router_topk`](Self::router_topk) into `weights` and `ids`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Param`], [`Error::DType`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let logits = b.tensor(&[1, 4], &[-200.0f32, 3.0, -200.0, 3.0])?;
    /// // The bias chooses the first expert, and its weight is that without a bias.
    /// let bias = b.tensor(&[4], &[2.0f32, 0.0, 0.0, 0.0])?;
    /// let (mut weights, mut ids) = (b.zeros(&[1, 2])?, b.zeros(&[1, 2])?);
    /// b.router_topk_into(&logits, Some(bias.any()), &mut weights, &mut ids, RouterTopK::of(2).renormalize())?;
    /// assert_eq!((weights.to_vec(&b)?, ids.to_vec(&b)?), (vec![0.0, 1.0], vec![0, 1]));
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn router_topk_into(
        &self,
        logits: impl AsView<Self::Space, T>,
        bias: Option<AnyRef<'_, Self::Space>>,
        mut weights: impl AsViewMut<Self::Space, f32>,
        mut ids: impl AsViewMut<Self::Space, u32>,
        op: RouterTopK<T>,
    ) -> Result<()> {
        let (logits, bias) = (logits.view(), bias.map(|b| b.shorten()));
        self.run(
            &op,
            args::router_topk::Args { logits, bias, weights: weights.view_mut(), ids: ids.view_mut() },
        )
    }
    /// [`CombineExperts`]: `Σ_j weights[i, j] · x[i, j]`.
    ///
    /// # Errors
    /// [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2, 3], &[1.0f32, 2.0, 3.0, 10.0, 20.0, 30.0])?;
    /// let weights = b.tensor(&[1, 2], &[0.5f32, 0.25])?;
    /// assert_eq!(b.combine_experts(&x, &weights)?.to_vec(&b)?, [3.0, 6.0, 9.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn combine_experts(
        &self,
        x: impl AsView<Self::Space, T>,
        weights: impl AsView<Self::Space, f32>,
    ) -> Result<TensorOf<Self, T>> {
        let (x, weights) = (x.view(), weights.view());
        let on = args::combine_experts::Shapes { x: x.layout(), weights: weights.layout(), y: Written };
        let [shape] = CombineExperts::<T>::OP.infer(&on)?;
        let mut y = self.empty(shape)?;
        self.combine_experts_into(x, weights, &mut y)?;
        Ok(y)
    }
    /// [`combine_experts`](Self::combine_experts) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2, 3], &[1.0f32, 2.0, 3.0, 10.0, 20.0, 30.0])?;
    /// let weights = b.tensor(&[1, 2], &[0.5f32, 0.25])?;
    /// let mut y = b.zeros(&[1, 3])?;
    /// b.combine_experts_into(&x, &weights, &mut y)?;
    /// assert_eq!(y.to_vec(&b)?, [3.0, 6.0, 9.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn combine_experts_into(
        &self,
        x: impl AsView<Self::Space, T>,
        weights: impl AsView<Self::Space, f32>,
        mut y: impl AsViewMut<Self::Space, T>,
    ) -> Result<()> {
        let (x, weights) = (x.view(), weights.view());
        self.run(&CombineExperts::<T>::OP, args::combine_experts::Args { x, weights, y: y.view_mut() })
    }
}
impl<T: Float, B: Execute<RouterTopK<T>> + Execute<CombineExperts<T>>> RoutingOps<T> for B {}
