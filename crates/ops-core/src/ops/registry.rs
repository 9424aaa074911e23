//! The list of all ops, by name.
//!
//! A suite, command or report knows an op by its name, element type and options, all as values. [`by_name`] makes the op
//! from these and passes it to a [`Visit`]; [`entries`] lists all ops. Each op is declared here once: the names that files,
//! policies and commands use, the types that it runs in, and how to make it from options.
use super::*;
use crate::{DType, Execute, Float, Op, OperandSlot, Operands, Scalar, Signature};
use std::sync::LazyLock;

// In this module the caller chooses the error type, so the crate's `Result` does not fit.
use core::result::Result;

mod names;
#[macro_use]
mod types;

use names::{BINARY, BITWISE, COMPARE, CONV, Name, PARAMETRIC, POOL, REDUCE, SCAN, UNARY, UPSAMPLE};

pub use super::options::{Options, Refused};
pub use crate::option::{OptionValue, Window};
pub use types::{Group, dtype};

/// Ops that move elements. They take element types as values, block formats included.
pub trait OpsOnElements: CopyOps + WhereOps + IndexOps + GatherOps {}
impl<B: CopyOps + WhereOps + IndexOps + GatherOps> OpsOnElements for B {}

/// Ops on scalars.
pub trait OpsOnScalars<T: Scalar>: OpsOnElements + FillOps<T> + CastOps<T> + CompareOps<T> {}
impl<T: Scalar, B: OpsOnElements + FillOps<T> + CastOps<T> + CompareOps<T>> OpsOnScalars<T> for B {}

/// Ops on floats.
#[rustfmt::skip]
pub trait OpsOnFloats<T: Float>:
    OpsOnScalars<T> + ArangeOps<T> + ElementwiseOps<T> + ParametricOps<T> + ActivationOps<T> + NormOps<T> + SoftmaxOps<T> + RopeOps<T> + MatMulOps<T>
    + LinearOps<T> + AttentionOps<T> + RaggedAttentionOps<T> + EmbeddingOps<T>
    + ReduceOps<T> + ScanOps<T> + SortOps<T> + ScatterAddOps<T>
    + BatchNormOps<T> + PoolOps<T> + UpsampleOps<T>
    + ConvOps<T>
    + GatedOps<T> + RoutingOps<T> + ExpertOps<T> + SamplingOps<T> + RandomOps<T>
    + HeadOps<T> + LinearAttentionOps<T> + CacheOps<T> + FusedOps<T>
{
}
#[rustfmt::skip]
impl<T: Float, B> OpsOnFloats<T> for B where
    B: OpsOnScalars<T> + ArangeOps<T> + ElementwiseOps<T> + ParametricOps<T> + ActivationOps<T> + NormOps<T> + SoftmaxOps<T> + RopeOps<T> + MatMulOps<T>
        + LinearOps<T> + AttentionOps<T> + RaggedAttentionOps<T> + EmbeddingOps<T>
    + ReduceOps<T> + ScanOps<T> + SortOps<T> + ScatterAddOps<T>
    + BatchNormOps<T> + PoolOps<T> + UpsampleOps<T>
    + ConvOps<T>
    + GatedOps<T> + RoutingOps<T> + ExpertOps<T> + SamplingOps<T> + RandomOps<T>
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
            $(+ OpsOnScalars<$i> + ArangeOps<$i> + ElementwiseOps<$i> + ParametricOps<$i> + BitwiseOps<$i>)+
            $(+ ReduceOps<$i> + ScanOps<$i> + SortOps<$i> + ScatterAddOps<$i>)+
            $(+ OpsOnScalars<$s>)+
        {
        }
        impl<B> AllOps for B where
            B: QuantOps + OpsOnElements
                $(+ OpsOnFloats<$f>)+
                $(+ OpsOnScalars<$i> + ArangeOps<$i> + ElementwiseOps<$i> + ParametricOps<$i> + BitwiseOps<$i>)+
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

impl<V: Copy> Name<V> {
    fn entry(&self, group: Group, slots: fn(DType) -> &'static [OperandSlot]) -> Entry {
        let blocks = self.of_blocks.filter(|(_, blocks)| *blocks).map(|(operand, _)| operand);
        Entry { name: self.name, runs_in: self.only.unwrap_or(group), blocks, slots }
    }
}

/// Maps a keyword of [`with_type!`] to its [`Group`].
#[rustfmt::skip]
macro_rules! group {
    (floats) => { Group::Floats };
    (integers) => { Group::Integers };
    (numbers) => { Group::Numbers };
    (scalars) => { Group::Scalars };
    (any) => { Group::Elements };
    (single) => { Group::Single };
}

/// Declares all ops: the family's name, its type of options, the types that it runs in, and its names if there are
/// others. `read`, which [`ops!`](super::declare) writes, makes the op from options; that is compiled once, and only the
/// step to the op in a type `T` is compiled for each of them.
macro_rules! registry {
    ($($family:ident: $Op:ident $(<$T:ident>)?, $group:ident $(, $names:expr)?;)+) => {
        fn list() -> Vec<Entry> {
            let mut list = Vec::new();
            $(for name in registry!(@names $family $($names)?).iter().filter(|name| name.listed) {
                let slots = |dtype| registry!(@slots $group dtype $Op [$($T)?]);
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
            $({
                let names = registry!(@names $family $($names)?);
                if let Some(at) = names.iter().position(|known| known.is_of(name, options)) {
                    let dtype = parameter(&names[at], group!($group), dtype, options)?;
                    return families::$family(at, dtype, options, visit);
                }
            })+
            Err(Refused::Name(name.to_owned()).into())
        }

        // One function per family, so that no function contains all ops in all types.
        mod families {
            use super::*;
            $(
                #[inline(never)]
                pub(super) fn $family<B: AllOps, O: Options, V: Visit<B>>(
                    at: usize,
                    dtype: DType,
                    options: &O,
                    visit: V,
                ) -> Result<V::Answer, O::Error> {
                    let Name { name, variant, .. } = registry!(@names $family $($names)?)[at];
                    let op = $Op $(::<registry!(@unit $T)>)? ::read(options, variant)?;
                    registry!(@visit $group dtype op visit name [$($T)?])
                }
            )+
        }
    };

    (@names $family:ident) => { [Name::of(stringify!($family), ())] };
    (@names $family:ident $names:expr) => { $names };
    (@unit $T:ident) => { () };
    (@slots $group:ident $dtype:ident $Op:ident [$T:ident]) => {
        with_type!($group, $dtype, $T => <$Op<$T> as Signature>::SLOTS, _ => &[])
    };
    (@slots $group:ident $dtype:ident $Op:ident []) => {
        with_type!($group, $dtype, T => <$Op as Signature>::SLOTS, _ => &[])
    };
    (@visit $group:ident $dtype:ident $op:ident $visit:ident $name:ident [$T:ident]) => {
        with_type!($group, $dtype, $T => Ok($visit.visit($op.typed::<$T>())), _ => Err(Refused::Type { op: $name, dtype: $dtype }.into()))
    };
    (@visit $group:ident $dtype:ident $op:ident $visit:ident $name:ident []) => {
        with_type!($group, $dtype, T => Ok($visit.visit($op)), _ => Err(Refused::Type { op: $name, dtype: $dtype }.into()))
    };
}

registry! {
    rms_norm: RmsNorm<T>, floats;
    layer_norm: LayerNorm<T>, floats;
    add_rms_norm: AddRmsNorm<T>, floats;
    group_norm: GroupNorm<T>, floats;
    softmax: Softmax<T>, floats, [Name::of("softmax", false), Name::of("log_softmax", true)];
    rope: Rope<T>, floats, [
        Name::of("rope", RopeForm::Half),
        Name::of("rope_i", RopeForm::Interleaved),
        Name::of("rope_thd", RopeForm::HalfThd),
    ];
    rope_inplace: RopeInplace<T>, floats, [
        Name::of("rope_inplace", RopeForm::Half),
        Name::of("rope_i_inplace", RopeForm::Interleaved),
        Name::of("rope_thd_inplace", RopeForm::HalfThd),
    ];
    qk_norm_rope: QkNormRope<T>, floats;
    cache_write: CacheWrite<T>, floats;
    rope_cache_write: RopeCacheWrite<T>, floats;
    qk_norm_rope_cache_write: QkNormRopeCacheWrite<T>, floats;
    rope_qk_cache_write: RopeQkCacheWrite<T>, floats;
    rms_norm_linear_rope_cache_write: RmsNormLinearRopeCacheWrite<T>, floats;
    conv1d_update: Conv1dUpdate<T>, floats;
    gated_delta_rule: GatedDeltaRule<T>, floats;
    unary: Unary<T>, numbers, UNARY;
    glu: Glu<T>, floats, [Name::of("swiglu", GluFn::Swiglu), Name::of("geglu", GluFn::Geglu)];
    binary: Binary<T>, numbers, BINARY;
    bitwise: Bitwise<T>, integers, BITWISE;
    bitwise_not: BitwiseNot<T>, integers;
    compare: Compare<T>, scalars, COMPARE;
    logical_not: LogicalNot<T>, scalars;
    parametric: Parametric<T>, numbers, PARAMETRIC;
    affine: Affine<T>, numbers;
    affine_inplace: AffineInplace<T>, numbers;
    matmul: MatMul<T>, floats;
    linear: Linear<T>, floats, [Name::of("linear", ()).no_blocks("weight"), Name::of("qlinear", ()).blocks("weight")];
    linear_swiglu: LinearSwiglu<T>, floats;
    linear_add: LinearAdd<T>, floats;
    rms_norm_linear: RmsNormLinear<T>, floats;
    rms_norm_linear_swiglu: RmsNormLinearSwiglu<T>, floats;
    attention: Attention<T>, floats;
    attention_varlen: AttentionVarlen<T>, floats;
    attention_paged: AttentionPaged<T>, floats;
    cast: Cast<T>, scalars;
    copy: TensorCopy, any;
    fill: Fill<T>, scalars;
    arange: Arange<T>, numbers;
    where_: Where, any, [Name::of("where", ())];
    index_select: IndexSelect, any, [Name::of("index_select", ()).without("table")];
    reduce: Reduce<T>, numbers, REDUCE;
    arg_reduce: ArgReduce<T>, numbers, [Name::of("argmax", false), Name::of("argmin", true)];
    scan: Scan<T>, numbers, SCAN;
    sort: Sort<T>, numbers;
    argsort: ArgSort<T>, numbers;
    conv: Conv<T>, floats, CONV;
    topk: TopK<T>, numbers;
    batch_norm: BatchNorm<T>, floats;
    pool2d: Pool2d<T>, floats, POOL;
    upsample: Upsample<T>, floats, UPSAMPLE;
    gather: Gather, any;
    scatter: Scatter, any;
    scatter_add: ScatterAdd<T>, numbers;
    index_add: IndexAdd<T>, numbers;
    l2_norm: L2Norm<T>, floats;
    gated_rms_norm: GatedRmsNorm<T>, floats;
    swiglu_clamped: SwigluClamped<T>, floats;
    router_topk: RouterTopK<T>, floats;
    linear_experts: LinearExperts<T>, floats,
        [Name::of("linear_experts", ()).no_blocks("weight"), Name::of("qlinear_experts", ()).blocks("weight")];
    linear_experts_swiglu: LinearExpertsSwiglu<T>, floats;
    linear_experts_combine: LinearExpertsCombine<T>, floats;
    combine_experts: CombineExperts<T>, floats;
    sample: Sample<T>, floats;
    random: Random<T>, floats,
        [Name::of("random_uniform", Distribution::Uniform), Name::of("random_normal", Distribution::Normal)];
    quantize: Quantize, single, [Name::of("quantize", ()).blocks("y")];
    dequantize: Dequantize, single, [Name::of("dequantize", ()).blocks("x")];
    embedding: Embedding<T>, floats,
        [Name::of("qembedding", ()).blocks("table"), Name::of("index_select", ()).no_blocks("table").unlisted()];
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
