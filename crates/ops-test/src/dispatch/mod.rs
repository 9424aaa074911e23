//! Running a case on a backend: from names and types as values to typed calls.
use crate::{CallError, Case, Ran};
use ops_core::ops::{
    ActivationOps, AttentionOps, BinaryFn, CastOps, CopyOps, ElementwiseOps, EmbeddingOps, IndexOps,
    LinearOps, MatMulOps, NormOps, QuantOps, RopeOps, SoftmaxOps, UnaryFn, WhereOps,
};
use ops_core::quant::{BlockQ4_0, BlockQ8_0};
use ops_core::{Backend, Element, F8E4M3, Float, Scalar, bf16, f16};

mod caller;
mod calls;

/// What a backend must implement to run the suite: every op of core, in every type.
///
/// A backend without some kernel says so by [`Reason`](ops_core::Reason); what it need have is the
/// `impl`, which may be generic over the types.
pub trait SuiteBackend:
    FloatSuite<f16>
    + FloatSuite<bf16>
    + FloatSuite<f32>
    + FloatSuite<f64>
    + ElementwiseOps<u8>
    + ElementwiseOps<i8>
    + ElementwiseOps<i16>
    + ElementwiseOps<i32>
    + ElementwiseOps<i64>
    + ElementwiseOps<u32>
    + ScalarSuite<u8>
    + ScalarSuite<i8>
    + ScalarSuite<i16>
    + ScalarSuite<i32>
    + ScalarSuite<i64>
    + ScalarSuite<u32>
    + ScalarSuite<f16>
    + ScalarSuite<bf16>
    + ScalarSuite<f32>
    + ScalarSuite<f64>
    + ScalarSuite<F8E4M3>
    + ElementSuite<BlockQ4_0>
    + ElementSuite<BlockQ8_0>
    + QuantOps<BlockQ4_0>
    + QuantOps<BlockQ8_0>
{
}
impl<B> SuiteBackend for B where
    B: FloatSuite<f16>
        + FloatSuite<bf16>
        + FloatSuite<f32>
        + FloatSuite<f64>
        + ElementwiseOps<u8>
        + ElementwiseOps<i8>
        + ElementwiseOps<i16>
        + ElementwiseOps<i32>
        + ElementwiseOps<i64>
        + ElementwiseOps<u32>
        + ScalarSuite<u8>
        + ScalarSuite<i8>
        + ScalarSuite<i16>
        + ScalarSuite<i32>
        + ScalarSuite<i64>
        + ScalarSuite<u32>
        + ScalarSuite<f16>
        + ScalarSuite<bf16>
        + ScalarSuite<f32>
        + ScalarSuite<f64>
        + ScalarSuite<F8E4M3>
        + ElementSuite<BlockQ4_0>
        + ElementSuite<BlockQ8_0>
        + QuantOps<BlockQ4_0>
        + QuantOps<BlockQ8_0>
{
}

/// The ops that move elements of any type, blocks included.
pub trait ElementSuite<T: Element>: CopyOps<T> + WhereOps<T> + IndexOps<T> {}
impl<T: Element, B> ElementSuite<T> for B where B: CopyOps<T> + WhereOps<T> + IndexOps<T> {}

/// [`ElementSuite`] and casts.
pub trait ScalarSuite<T: Scalar>: ElementSuite<T> + CastOps<T> {}
impl<T: Scalar, B> ScalarSuite<T> for B where B: ElementSuite<T> + CastOps<T> {}

/// The ops on floats.
pub trait FloatSuite<T: Float>:
    NormOps<T>
    + RopeOps<T>
    + LinearOps<T>
    + MatMulOps<T>
    + SoftmaxOps<T>
    + ActivationOps<T>
    + ElementwiseOps<T>
    + AttentionOps<T>
    + EmbeddingOps<T>
{
}
impl<T: Float, B> FloatSuite<T> for B where
    B: NormOps<T>
        + RopeOps<T>
        + LinearOps<T>
        + MatMulOps<T>
        + SoftmaxOps<T>
        + ActivationOps<T>
        + ElementwiseOps<T>
        + AttentionOps<T>
        + EmbeddingOps<T>
{
}

/// A backend as seen by everything here that need not know its type, which keeps that compiled once.
pub(crate) trait Runner {
    /// The backend's name.
    fn name(&self) -> &'static str;
    /// Uploads the operands, asks for support, runs, waits, and reads every buffer back.
    fn call(&self, case: &Case) -> Result<Ran, CallError>;
}

impl<B: SuiteBackend> Runner for B {
    fn name(&self) -> &'static str {
        Backend::name(self)
    }
    fn call(&self, case: &Case) -> Result<Ran, CallError> {
        let mut caller = caller::Caller::new(case);
        calls::dispatch(self, &mut caller)?;
        caller.finish()
    }
}

/// Runs one case on a backend.
///
/// # Errors
/// The case is malformed or names an op or types that core lacks, or memory around the op failed.
/// How the op itself ended is in the answer.
pub fn call<B: SuiteBackend>(backend: &B, case: &Case) -> Result<Ran, CallError> {
    Runner::call(backend, case)
}

/// The ops that a case may name, in-place forms left out.
pub fn op_names() -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 22] = [
        "rms_norm",
        "layer_norm",
        "add_rms_norm",
        "group_norm",
        "rope",
        "rope_i",
        "rope_thd",
        "softmax",
        "log_softmax",
        "swiglu",
        "geglu",
        "affine",
        "where",
        "cast",
        "copy",
        "fill",
        "matmul",
        "linear",
        "attention",
        "index_select",
        "quantize",
        "dequantize",
    ];
    let named = OTHERS.into_iter().chain(["qlinear", "qembedding"]);
    named.chain(UnaryFn::ALL.map(UnaryFn::name)).chain(BinaryFn::ALL.map(BinaryFn::name))
}
