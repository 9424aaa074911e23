//! The list of all ops, by name.
//!
//! A suite, command or report knows an op by its name, element type and options, all as values. [`by_name`] makes the op
//! from these and passes it to a [`Visit`]; [`entries`] lists all ops. Each op is declared here once: the names that files,
//! policies and commands use, the types that it runs in, and how to make it from options.
use super::*;
use crate::{DType, Element, Execute, Float, Op, OperandSlot, Operands, Scalar, Signature, Wide};
use std::sync::LazyLock;

// In this module the caller chooses the error type, so the crate's `Result` does not fit.
use core::result::Result;

#[macro_use]
mod types;

pub use crate::option::{OptionValue, Window};
pub use types::{Group, dtype};

/// Ops that move elements. They take element types as values, block formats included.
pub trait OpsOnElements:
    Execute<TensorCopy> + Execute<Where> + Execute<IndexSelect> + Execute<Gather> + Execute<Scatter>
{
}
impl<B> OpsOnElements for B where
    B: Execute<TensorCopy> + Execute<Where> + Execute<IndexSelect> + Execute<Gather> + Execute<Scatter>
{
}

/// Ops on scalars.
pub trait OpsOnScalars<T: Scalar>:
    CopyOps<T> + WhereOps<T> + IndexOps<T> + GatherOps<T> + CastOps<T> + CompareOps<T>
{
}
impl<T: Scalar, B> OpsOnScalars<T> for B where
    B: CopyOps<T> + WhereOps<T> + IndexOps<T> + GatherOps<T> + CastOps<T> + CompareOps<T>
{
}

/// Ops on floats.
#[rustfmt::skip]
pub trait OpsOnFloats<T: Float>:
    OpsOnScalars<T> + ElementwiseOps<T> + ParametricOps<T> + ActivationOps<T> + NormOps<T> + SoftmaxOps<T> + RopeOps<T> + MatMulOps<T>
    + LinearOps<T> + AttentionOps<T> + RaggedAttentionOps<T> + EmbeddingOps<T>
    + ReduceOps<T> + ScanOps<T> + SortOps<T> + ScatterAddOps<T>
    + BatchNormOps<T> + PoolOps<T> + UpsampleOps<T>
    + ConvOps<T>
    + GatedOps<T> + RoutingOps<T> + ExpertOps<T> + SamplingOps<T>
    + HeadOps<T> + LinearAttentionOps<T> + CacheOps<T> + FusedOps<T>
{
}
#[rustfmt::skip]
impl<T: Float, B> OpsOnFloats<T> for B where
    B: OpsOnScalars<T> + ElementwiseOps<T> + ParametricOps<T> + ActivationOps<T> + NormOps<T> + SoftmaxOps<T> + RopeOps<T> + MatMulOps<T>
        + LinearOps<T> + AttentionOps<T> + RaggedAttentionOps<T> + EmbeddingOps<T>
    + ReduceOps<T> + ScanOps<T> + SortOps<T> + ScatterAddOps<T>
    + BatchNormOps<T> + PoolOps<T> + UpsampleOps<T>
    + ConvOps<T>
    + GatedOps<T> + RoutingOps<T> + ExpertOps<T> + SamplingOps<T>
    + HeadOps<T> + LinearAttentionOps<T> + CacheOps<T> + FusedOps<T>
{
}

macro_rules! all_ops {
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+]) => {
        /// A backend that implements every op of this crate in every type.
        ///
        /// The `impl` may be generic over the types. A backend that lacks a kernel reports a
        /// [`Reason`](crate::Reason) at run time.
        pub trait AllOps:
            QuantOps + OpsOnElements
            $(+ OpsOnFloats<$f>)+
            $(+ OpsOnScalars<$i> + ElementwiseOps<$i> + ParametricOps<$i>)+
            $(+ ReduceOps<$i> + ScanOps<$i> + SortOps<$i> + ScatterAddOps<$i>)+
            $(+ OpsOnScalars<$s>)+
        {
        }
        impl<B> AllOps for B where
            B: QuantOps + OpsOnElements
                $(+ OpsOnFloats<$f>)+
                $(+ OpsOnScalars<$i> + ElementwiseOps<$i> + ParametricOps<$i>)+
                $(+ ReduceOps<$i> + ScanOps<$i> + SortOps<$i> + ScatterAddOps<$i>)+
                $(+ OpsOnScalars<$s>)+
        {
        }
    };
}
crate::element_types!([all_ops]);

/// An action on an op, once its type is known.
///
/// [`visit`](Visit::visit) is compiled for every combination of op, type and backend. Do only what needs `O` in it, and leave
/// the rest to functions that are not generic over `O`.
pub trait Visit<B: AllOps> {
    /// The result.
    type Answer;
    /// Handles the op.
    fn visit<O: Op>(self, op: O) -> Self::Answer
    where
        B: Execute<O>;
}

/// What is needed to make an op besides its name: options by name (`None` for the default) and the operand
/// types.
pub trait Options {
    /// The error for an option that cannot be read, or an op that does not exist.
    type Error: From<Refused>;
    /// The element type of an operand.
    ///
    /// # Errors
    /// There is no such operand.
    fn operand(&self, name: &'static str) -> Result<DType, Self::Error>;
    /// Reads a number.
    ///
    /// # Errors
    /// The option is not a number. The methods below have similar errors.
    fn number(&self, name: &'static str) -> Result<Option<f64>, Self::Error>;
    /// Reads a number without loss, even if it is a large integer.
    fn value(&self, name: &'static str) -> Result<Option<Wide>, Self::Error>;
    /// Reads a count.
    fn count(&self, name: &'static str) -> Result<Option<usize>, Self::Error>;
    /// Reads an axis; negative counts from the end.
    fn axis(&self, name: &'static str) -> Result<Option<isize>, Self::Error>;
    /// Reads a list of counts.
    fn counts(&self, name: &'static str) -> Result<Option<Vec<usize>>, Self::Error>;
    /// Reads a list of axes.
    fn axes(&self, name: &'static str) -> Result<Option<Axes>, Self::Error>;
    /// Reads a flag.
    fn flag(&self, name: &'static str) -> Result<Option<bool>, Self::Error>;
    /// Reads the two sides of a window.
    fn window(&self, name: &'static str) -> Result<Option<Window>, Self::Error>;
    /// Reads an element type.
    fn dtype(&self, name: &'static str) -> Result<Option<DType>, Self::Error>;
    /// Reads one of these words, and returns its index.
    fn word(&self, name: &'static str, known: &[&'static str]) -> Result<Option<usize>, Self::Error>;
}

/// Why an op cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No op has this name.
    #[error("`{0}` is not an op of this build")]
    Name(String),
    /// The op does not exist in this type.
    #[error("`{op}` is not available in {dtype}")]
    Type {
        /// The op.
        op: &'static str,
        /// The type.
        dtype: DType,
    },
    /// The op does not take this operand in this type under this name.
    #[error("`{op}` takes no `{operand}` of {dtype}")]
    Operand {
        /// The op.
        op: &'static str,
        /// The operand.
        operand: &'static str,
        /// Its type.
        dtype: DType,
    },
    /// An option does not have one value for each axis.
    #[error("`{option}` has {got} values, expected one for each of {want} axes")]
    Counts {
        /// The option.
        option: &'static str,
        /// The number of its values.
        got: usize,
        /// The number of axes.
        want: usize,
    },
    /// An option without a default is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
}

/// An op, under one of its names.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name that files, policies and commands use.
    pub name: &'static str,
    /// The types that it runs in. A cast runs in its source type.
    pub runs_in: Group,
    /// The operand that must be in a block format under this name.
    pub blocks: Option<&'static str>,
    slots: fn(DType) -> &'static [OperandSlot],
}

impl Entry {
    /// The op's operands in this type; for a cast, `dtype` is the target type. Empty if the op does not exist in the type.
    pub fn slots(&self, dtype: DType) -> &'static [OperandSlot] {
        (self.slots)(dtype)
    }
}

/// A name of an op, and the variant of the op that it means.
#[derive(Clone, Copy)]
struct Name<V> {
    name: &'static str,
    /// Overrides the types that the op is declared for.
    only: Option<Group>,
    /// An operand that must (`true`) or must not (`false`) be in a block format under this name.
    of_blocks: Option<(&'static str, bool)>,
    /// An operand that a call must not have under this name: with it, the call is another op of the same
    /// name.
    without: Option<&'static str>,
    /// Whether the op is listed under this name. If not, another op is.
    listed: bool,
    variant: V,
}

impl<V: Copy> Name<V> {
    const fn of(name: &'static str, variant: V) -> Self {
        Name { name, only: None, of_blocks: None, without: None, listed: true, variant }
    }
    const fn blocks(self, operand: &'static str) -> Self {
        Name { of_blocks: Some((operand, true)), ..self }
    }
    const fn no_blocks(self, operand: &'static str) -> Self {
        Name { of_blocks: Some((operand, false)), ..self }
    }
    const fn without(self, operand: &'static str) -> Self {
        Name { without: Some(operand), ..self }
    }
    const fn unlisted(self) -> Self {
        Name { listed: false, ..self }
    }
    /// Whether a call with these operands has this name.
    fn is_of<O: Options>(&self, name: &str, options: &O) -> bool {
        self.name == name && self.without.is_none_or(|operand| options.operand(operand).is_err())
    }
    fn entry(&self, group: Group, slots: fn(DType) -> &'static [OperandSlot]) -> Entry {
        let blocks = self.of_blocks.filter(|(_, blocks)| *blocks).map(|(operand, _)| operand);
        Entry { name: self.name, runs_in: self.only.unwrap_or(group), blocks, slots }
    }
}

/// For an op with a single name.
const fn one(name: &'static str) -> [Name<()>; 1] {
    [Name::of(name, ())]
}

const UNARY: [Name<UnaryFn>; UnaryFn::ALL.len()] = {
    let mut names = [Name::of("", UnaryFn::ALL[0]); UnaryFn::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        let f = UnaryFn::ALL[at];
        let only = if f.on_integers() { None } else { Some(Group::Floats) };
        names[at] = Name { only, ..Name::of(f.name(), f) };
        at += 1;
    }
    names
};

const BINARY: [Name<BinaryFn>; BinaryFn::ALL.len()] = {
    let mut names = [Name::of("", BinaryFn::ALL[0]); BinaryFn::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Name::of(BinaryFn::ALL[at].name(), BinaryFn::ALL[at]);
        at += 1;
    }
    names
};

const COMPARE: [Name<CompareFn>; CompareFn::ALL.len()] = {
    let mut names = [Name::of("", CompareFn::ALL[0]); CompareFn::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Name::of(CompareFn::ALL[at].name(), CompareFn::ALL[at]);
        at += 1;
    }
    names
};

/// The functions with parameters; the values here are placeholders.
const PARAMETRIC: [Name<ParametricFn>; 3] = {
    let (powf, elu) = (ParametricFn::Powf { exponent: 1.0 }, ParametricFn::Elu { alpha: 1.0 });
    let clamp = ParametricFn::Clamp { min: Wide::Int(0), max: Wide::Int(0) };
    let floats = Some(Group::Floats);
    [
        Name { only: floats, ..Name::of(powf.name(), powf) },
        Name::of(clamp.name(), clamp),
        Name { only: floats, ..Name::of(elu.name(), elu) },
    ]
};

/// Maps a keyword of [`with_type!`] to its [`Group`].
#[rustfmt::skip]
macro_rules! group {
    (floats) => { Group::Floats };
    (numbers) => { Group::Numbers };
    (scalars) => { Group::Scalars };
    (any) => { Group::Elements };
    (single) => { Group::Single };
}

const REDUCE: [Name<ReduceFn>; ReduceFn::ALL.len()] = {
    let mut names = [Name::of("", ReduceFn::ALL[0]); ReduceFn::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        let f = ReduceFn::ALL[at];
        let only = if f.on_integers() { None } else { Some(Group::Floats) };
        names[at] = Name { only, ..Name::of(f.name(), f) };
        at += 1;
    }
    names
};

const POOL: [Name<PoolFn>; PoolFn::ALL.len()] =
    [Name::of(PoolFn::Max.name(), PoolFn::Max), Name::of(PoolFn::Avg.name(), PoolFn::Avg)];

/// The option here is a placeholder.
const UPSAMPLE: [Name<UpsampleFn>; 3] = {
    let bilinear = UpsampleFn::Bilinear2d { align_corners: false };
    let [one, two] = [UpsampleFn::Nearest1d, UpsampleFn::Nearest2d];
    [Name::of(one.name(), one), Name::of(two.name(), two), Name::of(bilinear.name(), bilinear)]
};

const CONV: [Name<ConvForm>; ConvForm::ALL.len()] = {
    let mut names = [Name::of("", ConvForm::ALL[0]); ConvForm::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Name::of(ConvForm::ALL[at].name(), ConvForm::ALL[at]);
        at += 1;
    }
    names
};

/// Declares all ops: for each family its names, its types, and how to make it. The part in braces reads options and runs once;
/// the part after the arrow is compiled for each type `T`.
macro_rules! registry {
    ($(
        $family:ident = $names:expr, $group:ident $T:ident: $Op:ty,
        |$o:ident, $variant:ident: $Variant:ty| { $($read:tt)* } => $make:expr;
    )+) => {
        fn list() -> Vec<Entry> {
            let mut list = Vec::new();
            $(for name in $names.iter().filter(|name| name.listed) {
                let slots = |dtype| with_type!($group, dtype, $T => <$Op as Signature>::SLOTS, _ => &[]);
                enter(&mut list, name.entry(group!($group), slots));
            })+
            list
        }

        /// Makes the op called `name` and passes it to `visit`. `dtype` is the type that it runs in.
        ///
        /// # Errors
        /// Errors of `options`, and [`Refused`] if there is no such op.
        pub fn by_name<B: AllOps, O: Options, V: Visit<B>>(
            name: &str,
            dtype: DType,
            options: &O,
            visit: V,
        ) -> Result<V::Answer, O::Error> {
            $(if let Some(name) = $names.iter().find(|known| known.is_of(name, options)) {
                let dtype = parameter(name, group!($group), dtype, options)?;
                return families::$family(name.name, name.variant, dtype, options, visit);
            })+
            Err(Refused::Name(name.to_owned()).into())
        }

        // One function per family, so that no function contains all ops in all types.
        mod families {
            use super::*;
            $(
                #[inline(never)]
                pub(super) fn $family<B: AllOps, O: Options, V: Visit<B>>(
                    op: &'static str,
                    $variant: $Variant,
                    dtype: DType,
                    $o: &O,
                    visit: V,
                ) -> Result<V::Answer, O::Error> {
                    $($read)*
                    with_type!($group, dtype, $T => {
                        let op: $Op = $make;
                        Ok(visit.visit(op))
                    }, _ => Err(Refused::Type { op, dtype }.into()))
                }
            )+
        }
    };
}

registry! {
    rms_norm = one("rms_norm"), floats T: RmsNorm<T>,
        |o, _one: ()| { let eps = needed(o, "eps")?; } => RmsNorm::eps(eps);
    layer_norm = one("layer_norm"), floats T: LayerNorm<T>,
        |o, _one: ()| { let eps = needed(o, "eps")?; } => LayerNorm::eps(eps);
    add_rms_norm = one("add_rms_norm"), floats T: AddRmsNorm<T>,
        |o, _one: ()| { let eps = needed(o, "eps")?; } => AddRmsNorm::eps(eps);
    group_norm = one("group_norm"), floats T: GroupNorm<T>, |o, _one: ()| {
        let groups = o.count("num_groups")?.ok_or(Refused::Missing("num_groups"))?;
        let eps = needed(o, "eps")?;
    } => GroupNorm::new(groups, eps);
    softmax = [Name::of("softmax", false), Name::of("log_softmax", true)], floats T: Softmax<T>,
        |o, log: bool| { let axis = o.axis("axis")?.unwrap_or(-1); } => {
            if log { Softmax::axis(axis).log() } else { Softmax::axis(axis) }
        };
    rope = [
        Name::of("rope", RopeForm::Half),
        Name::of("rope_i", RopeForm::Interleaved),
        Name::of("rope_thd", RopeForm::HalfThd),
    ], floats T: Rope<T>,
        |o, form: RopeForm| { let start = o.count("start")?.unwrap_or(0); } => Rope::new(form).start(start);
    rope_inplace = [
        Name::of("rope_inplace", RopeForm::Half),
        Name::of("rope_i_inplace", RopeForm::Interleaved),
        Name::of("rope_thd_inplace", RopeForm::HalfThd),
    ], floats T: RopeInplace<T>,
        |o, form: RopeForm| { let start = o.count("start")?.unwrap_or(0); } => Rope::new(form).start(start).inplace();
    qk_norm_rope = one("qk_norm_rope"), floats T: QkNormRope<T>, |o, _one: ()| {
        let (eps, order) = (needed(o, "eps")?, one_of(o, "order", RopeOrder::ALL)?);
    } => QkNormRope::eps(eps).order(order);
    cache_write = one("cache_write"), floats T: CacheWrite<T>, |_o, _one: ()| {} => CacheWrite::OP;
    rope_cache_write = one("rope_cache_write"), floats T: RopeCacheWrite<T>,
        |o, _one: ()| { let order = one_of(o, "order", RopeOrder::ALL)?; } => RopeCacheWrite::order(order);
    qk_norm_rope_cache_write = one("qk_norm_rope_cache_write"), floats T: QkNormRopeCacheWrite<T>, |o, _one: ()| {
        let (eps, order) = (needed(o, "eps")?, one_of(o, "order", RopeOrder::ALL)?);
    } => QkNormRopeCacheWrite::eps(eps).order(order);
    conv1d_update = one("conv1d_update"), floats T: Conv1dUpdate<T>, |o, _one: ()| {
        let activation = one_of(o, "activation", ConvActivation::ALL)?;
    } => Conv1dUpdate::plain().activation(activation);
    gated_delta_rule = one("gated_delta_rule"), floats T: GatedDeltaRule<T>,
        |o, _one: ()| { let scale = o.number("scale")?; } => {
            let mut op = GatedDeltaRule::new();
            op.scale = scale;
            op
        };
    unary = UNARY, numbers T: Unary<T>,
        |_o, f: UnaryFn| {} => {
            Unary::of_num(f).ok_or(Refused::Type { op: f.name(), dtype: T::DTYPE })?
        };
    glu = [Name::of("swiglu", GluFn::Swiglu), Name::of("geglu", GluFn::Geglu)], floats T: Glu<T>,
        |_o, f: GluFn| {} => Glu::of(f);
    binary = BINARY, numbers T: Binary<T>, |_o, f: BinaryFn| {} => Binary::of(f);
    compare = COMPARE, scalars T: Compare<T>, |_o, f: CompareFn| {} => Compare::of(f);
    parametric = PARAMETRIC, numbers T: Parametric<T>, |o, f: ParametricFn| {
        let f = match f {
            ParametricFn::Powf { .. } => ParametricFn::Powf { exponent: needed(o, "exponent")? },
            ParametricFn::Elu { .. } => ParametricFn::Elu { alpha: needed(o, "alpha")? },
            ParametricFn::Clamp { .. } => {
                let min = o.value("min")?.ok_or(Refused::Missing("min"))?;
                let max = o.value("max")?.ok_or(Refused::Missing("max"))?;
                ParametricFn::Clamp { min, max }
            }
        };
    } => match f {
        ParametricFn::Clamp { min, max } => Parametric::clamp(T::from_wide(min), T::from_wide(max)),
        f => Parametric::on_all(f),
    };
    affine = one("affine"), numbers T: Affine<T>,
        |o, _one: ()| { let (mul, add) = (needed(o, "mul")?, needed(o, "add")?); } => Affine::new(mul, add);
    affine_inplace = one("affine_inplace"), numbers T: AffineInplace<T>,
        |o, _one: ()| { let (mul, add) = (needed(o, "mul")?, needed(o, "add")?); } => AffineInplace::new(mul, add);
    matmul = one("matmul"), floats T: MatMul<T>, |_o, _one: ()| {} => MatMul::OP;
    linear = [Name::of("linear", ()).no_blocks("weight"), Name::of("qlinear", ()).blocks("weight")], floats T: Linear<T>,
        |_o, _one: ()| {} => Linear::OP;
    linear_swiglu = one("linear_swiglu"), floats T: LinearSwiglu<T>, |_o, _one: ()| {} => LinearSwiglu::OP;
    attention = one("attention"), floats T: Attention<T>,
        |o, _one: ()| { let options = AttentionOptions::read(o)?; } => options.attention();
    attention_varlen = one("attention_varlen"), floats T: AttentionVarlen<T>,
        |o, _one: ()| { let options = AttentionOptions::read(o)?; } => AttentionVarlen::of(options.attention());
    attention_paged = one("attention_paged"), floats T: AttentionPaged<T>,
        |o, _one: ()| { let options = AttentionOptions::read(o)?; } => AttentionPaged::of(options.attention());
    cast = one("cast"), scalars T: Cast<T>, |_o, _one: ()| {} => Cast::OP;
    copy = one("copy"), any T: TensorCopy, |_o, _one: ()| {} => TensorCopy;
    fill = one("fill"), scalars T: Fill<T>,
        |o, _one: ()| { let value = o.value("value")?.ok_or(Refused::Missing("value"))?; } => Fill::new(T::from_wide(value));
    where_ = one("where"), any T: Where, |_o, _one: ()| {} => Where;
    index_select = [Name::of("index_select", ()).without("table")], any T: IndexSelect,
        |o, _one: ()| { let axis = o.axis("axis")?.unwrap_or(0); } => IndexSelect::axis(axis);
    reduce = REDUCE, numbers T: Reduce<T>, |o, f: ReduceFn| {
        let axes = o.axes("axes")?.unwrap_or(Axes::ALL);
        let axes = if o.flag("keep_dims")?.unwrap_or(false) { axes.keep_dims() } else { axes };
    } => Reduce::of_num(f, axes).ok_or(Refused::Type { op: f.name(), dtype: T::DTYPE })?;
    arg_reduce = [Name::of("argmax", false), Name::of("argmin", true)], numbers T: ArgReduce<T>, |o, smallest: bool| {
        let axis = o.axis("axis")?.ok_or(Refused::Missing("axis"))?;
    } => if smallest { ArgReduce::min(axis) } else { ArgReduce::max(axis) };
    cumsum = one("cumsum"), numbers T: CumSum<T>,
        |o, _one: ()| { let axis = o.axis("axis")?.ok_or(Refused::Missing("axis"))?; } => CumSum::axis(axis);
    sort = one("sort"), numbers T: Sort<T>, |o, _one: ()| {
        let (axis, descending) = (o.axis("axis")?.unwrap_or(-1), o.flag("descending")?.unwrap_or(false));
    } => if descending { Sort::axis(axis).descending() } else { Sort::axis(axis) };
    argsort = one("argsort"), numbers T: ArgSort<T>, |o, _one: ()| {
        let (axis, descending) = (o.axis("axis")?.unwrap_or(-1), o.flag("descending")?.unwrap_or(false));
    } => if descending { ArgSort::axis(axis).descending() } else { ArgSort::axis(axis) };
    conv = CONV, floats T: Conv<T>, |o, form: ConvForm| {
        let (axes, groups) = (conv_axes(o, form)?, o.count("groups")?.unwrap_or(1));
    } => Conv::new(form, axes, groups);
    topk = one("topk"), numbers T: TopK<T>,
        |o, _one: ()| { let k = o.count("k")?.ok_or(Refused::Missing("k"))?; } => TopK::of(k);
    batch_norm = one("batch_norm"), floats T: BatchNorm<T>,
        |o, _one: ()| { let eps = needed(o, "eps")?; } => BatchNorm::eps(eps);
    pool2d = POOL, floats T: Pool2d<T>, |o, f: PoolFn| {
        let kernel = per_axis(o, "kernel")?.ok_or(Refused::Missing("kernel"))?;
        let (stride, padding) = (per_axis(o, "stride")?.unwrap_or(kernel), per_axis(o, "padding")?.unwrap_or([0, 0]));
        let windows = Windows::of(kernel).stride(stride).padding(padding);
    } => Pool2d::of(f, windows);
    upsample = UPSAMPLE, floats T: Upsample<T>, |o, f: UpsampleFn| {
        let missing = Refused::Missing("size");
        let size = match f.axes() {
            1 => per_axis(o, "size")?.map(|[size]: [usize; 1]| [size, 1]).ok_or(missing)?,
            _ => per_axis(o, "size")?.ok_or(missing)?,
        };
        let corners = matches!(f, UpsampleFn::Bilinear2d { .. }) && o.flag("align_corners")?.unwrap_or(false);
    } => match f {
        UpsampleFn::Nearest1d => Upsample::nearest1d(size[0]),
        UpsampleFn::Nearest2d => Upsample::nearest2d(size),
        UpsampleFn::Bilinear2d { .. } => Upsample::bilinear2d(size, corners),
    };
    gather = one("gather"), any T: Gather,
        |o, _one: ()| { let axis = o.axis("axis")?.unwrap_or(0); } => Gather::axis(axis);
    scatter = one("scatter"), any T: Scatter,
        |o, _one: ()| { let axis = o.axis("axis")?.unwrap_or(0); } => Scatter::axis(axis);
    scatter_add = one("scatter_add"), numbers T: ScatterAdd<T>,
        |o, _one: ()| { let axis = o.axis("axis")?.unwrap_or(0); } => ScatterAdd::axis(axis);
    index_add = one("index_add"), numbers T: IndexAdd<T>,
        |o, _one: ()| { let axis = o.axis("axis")?.unwrap_or(0); } => IndexAdd::axis(axis);
    l2_norm = one("l2_norm"), floats T: L2Norm<T>,
        |o, _one: ()| { let eps = needed(o, "eps")?; } => L2Norm::eps(eps);
    gated_rms_norm = one("gated_rms_norm"), floats T: GatedRmsNorm<T>,
        |o, _one: ()| { let eps = needed(o, "eps")?; } => GatedRmsNorm::eps(eps);
    swiglu_clamped = one("swiglu_clamped"), floats T: SwigluClamped<T>,
        |o, _one: ()| { let (alpha, limit) = (needed(o, "alpha")?, needed(o, "limit")?); } => SwigluClamped::new(alpha, limit);
    router_topk = one("router_topk"), floats T: RouterTopK<T>, |o, _one: ()| {
        let k = o.count("k")?.ok_or(Refused::Missing("k"))?;
        let (scoring, order) = (one_of(o, "scoring", Scoring::ALL)?, one_of(o, "order", ScoringOrder::ALL)?);
        let (renormalize, scale) = (o.flag("renormalize")?.unwrap_or(false), o.number("scale")?.unwrap_or(1.0));
        let (groups, kept) = (o.count("groups")?.unwrap_or(1), o.count("groups_kept")?.unwrap_or(1));
        let group_score = one_of(o, "group_score", GroupScore::ALL)?;
    } => {
        let mut op = RouterTopK::of(k).scoring(scoring).scale(scale).groups(groups, kept).group_score(group_score);
        (op.order, op.renormalize) = (order, renormalize);
        op
    };
    linear_experts = [Name::of("linear_experts", ()).no_blocks("weight"), Name::of("qlinear_experts", ()).blocks("weight")],
        floats T: LinearExperts<T>, |_o, _one: ()| {} => LinearExperts::OP;
    combine_experts = one("combine_experts"), floats T: CombineExperts<T>, |_o, _one: ()| {} => CombineExperts::OP;
    sample = one("sample"), floats T: Sample<T>, |o, _one: ()| {
        let (temperature, seed) = (needed(o, "temperature")?, o.count("seed")?.unwrap_or(0));
        let (top_k, top_p) = (o.count("top_k")?, o.number("top_p")?);
    } => {
        let mut op = Sample::temperature(temperature).seed(seed as u64);
        (op.top_k, op.top_p) = (top_k, top_p);
        op
    };
    quantize = [Name::of("quantize", ()).blocks("y")], single T: Quantize, |_o, _one: ()| {} => Quantize;
    dequantize = [Name::of("dequantize", ()).blocks("x")], single T: Dequantize, |_o, _one: ()| {} => Dequantize;
    embedding = [Name::of("qembedding", ()).blocks("table"), Name::of("index_select", ()).no_blocks("table").unlisted()],
        floats T: Embedding<T>, |_o, _one: ()| {} => Embedding::OP;
}

/// Every name of every op, by family; in-place ops come last.
pub fn entries() -> &'static [Entry] {
    static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(list);
    &ENTRIES
}

/// Finds an op by name.
pub fn find(name: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| entry.name == name)
}

fn enter(list: &mut Vec<Entry>, entry: Entry) {
    let plain = entry.name.strip_suffix("_inplace");
    let after = plain.and_then(|plain| list.iter().position(|known| known.name == plain));
    list.insert(after.map_or(list.len(), |at| at + 1), entry);
}

/// Reads a number that has no default.
fn needed<O: Options>(options: &O, name: &'static str) -> Result<f64, O::Error> {
    options.number(name)?.ok_or_else(|| Refused::Missing(name).into())
}

/// Reads an option that is one of these words; each word stands for a value. Returns the default if it is
/// missing.
fn one_of<O: Options, V: Copy + Default, const N: usize>(
    options: &O,
    name: &'static str,
    all: [(&'static str, V); N],
) -> Result<V, O::Error> {
    let known = all.map(|(word, _)| word);
    Ok(options.word(name, &known)?.and_then(|at| all.get(at)).map_or_else(V::default, |(_, value)| *value))
}

/// Reads an option with one value for each of `N` axes.
fn per_axis<O: Options, const N: usize>(
    options: &O,
    option: &'static str,
) -> Result<Option<[usize; N]>, O::Error> {
    let Some(values) = options.counts(option)? else { return Ok(None) };
    let wrong = Refused::Counts { option, got: values.len(), want: N };
    Ok(Some(<[usize; N]>::try_from(values).map_err(|_| wrong)?))
}

/// The options of every form of attention.
#[derive(Clone, Copy)]
struct AttentionOptions {
    scale: Option<f64>,
    causal: bool,
    window: Window,
    softcap: Option<f64>,
}

impl AttentionOptions {
    fn read<O: Options>(o: &O) -> Result<Self, O::Error> {
        Ok(AttentionOptions {
            scale: o.number("scale")?,
            causal: o.flag("causal")?.unwrap_or(false),
            window: o.window("window")?.unwrap_or((None, None)),
            softcap: o.number("softcap")?,
        })
    }
    fn attention<T>(self) -> Attention<T> {
        let mut op = Attention::full();
        (op.scale, op.causal, op.window, op.softcap) = (self.scale, self.causal, self.window, self.softcap);
        op
    }
}

/// Reads the options of a convolution's axes.
fn conv_axes<O: Options>(options: &O, form: ConvForm) -> Result<[ConvAxis; 2], O::Error> {
    let mut axes = [ConvAxis::PLAIN; 2];
    let mut read = |option, set: fn(&mut ConvAxis, usize)| {
        let Some(values) = options.counts(option)? else { return Ok(()) };
        if values.len() != form.axes() {
            return Err(Refused::Counts { option, got: values.len(), want: form.axes() }.into());
        }
        axes[2 - form.axes()..].iter_mut().zip(values).for_each(|(axis, value)| set(axis, value));
        Ok::<(), O::Error>(())
    };
    read("stride", |axis, v| axis.stride = v)?;
    read("padding", |axis, v| axis.padding = v)?;
    read("dilation", |axis, v| axis.dilation = v)?;
    if form.is_transposed() {
        read("output_padding", |axis, v| axis.output_padding = v)?;
    }
    Ok(axes)
}

/// The type that an op runs in, for a call on these operands: the `dtype` with which [`by_name`] makes the op
/// again.
///
/// `slots` are the op's operands. `None` if none was given.
pub fn runs_in(name: &str, slots: &[OperandSlot], on: &dyn Operands) -> Option<DType> {
    if name == "cast" {
        return on.get("x").map(|x| x.dtype);
    }
    // The type parameter is that of the first operand with a fixed type. Ops that move elements have none, and their result
    // has the type that they move.
    let parameter = slots.iter().find_map(|slot| slot.dtype);
    parameter.or_else(|| on.iter().last().map(|operand| operand.dtype))
}

/// The type parameter of the op. It is the type that the op runs in, with two exceptions.
fn parameter<V, O: Options>(
    name: &Name<V>,
    group: Group,
    dtype: DType,
    options: &O,
) -> Result<DType, O::Error> {
    let op = name.name;
    if let Some((operand, blocks)) = name.of_blocks {
        let dtype = options.operand(operand)?;
        if dtype.is_block() != blocks {
            return Err(Refused::Operand { op, operand, dtype }.into());
        }
    }
    let dtype = match op {
        // A cast runs in its source type, but its type parameter is the target type.
        "cast" => {
            let to = options.dtype("to")?.map_or_else(|| options.operand("y"), Ok)?;
            match options.operand("x")? {
                x if x == dtype => to,
                x => return Err(Refused::Operand { op, operand: "x", dtype: x }.into()),
            }
        }
        // Suites name `dequantize` by its block format.
        "dequantize" if dtype == options.operand("x")? => DType::F32,
        _ => dtype,
    };
    let offered = name.only.unwrap_or(group).members();
    offered.contains(&dtype).then_some(dtype).ok_or_else(|| Refused::Type { op, dtype }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_op_has_operands_in_its_types_alone() {
        let mut names: Vec<_> = entries().iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), entries().len());
        for entry in entries() {
            assert!(entry.blocks.is_none_or(|blocks| {
                entry.slots(DType::F32).iter().any(|slot| slot.name == blocks && slot.dtype.is_none())
            }));
            for dtype in entry.runs_in.members() {
                assert!(!entry.slots(*dtype).is_empty(), "{} {dtype}", entry.name);
            }
        }
    }
}
