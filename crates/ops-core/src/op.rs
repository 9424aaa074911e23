//! Ops, their arguments, and the trait that connects them to backends.
use crate::ops::registry::OptionValue;
use crate::{
    AnyTensor, Backend, Call, DType, Determinism, Lent, Operands, Packing, Reason, Result, Seen, Shape, Slot,
    Space, Tolerance,
};
use core::fmt::Debug;
use core::hash::{Hash, Hasher};

/// The operands of an op. Only [`operands!`](crate::operands) implements it.
///
/// Checks, launches and reports [look](Signature::look) at arguments. Combinators [map](Signature::map) them
/// to other memory. Suites and commands [build](Signature::build) them from named tensors.
pub trait Signature {
    /// The tensors of one call.
    type Args<'a, S: Space>: Operands;
    /// The shapes that the shape rule reads.
    type Shapes<'a>;
    /// One [`Shape`] per operand that is only written.
    type Outputs: AsRef<[Shape]>;
    /// The operands, in order of declaration.
    const SLOTS: &'static [Slot];

    /// The shapes that the shape rule reads of these arguments.
    fn shapes<'s, S: Space>(args: &'s Self::Args<'_, S>) -> Self::Shapes<'s>;
    /// Passes every operand to `see`, in declaration order, with its index in the declaration; `None` for an optional operand
    /// that was not given. Stops at the first error.
    ///
    /// # Errors
    /// The error of `see`.
    fn look<'s, S: Space, Stop>(
        args: &'s Self::Args<'_, S>,
        see: impl FnMut(usize, &'static Slot, Option<Seen<'s, S>>) -> Result<(), Stop>,
    ) -> Result<(), Stop>;
    /// Passes every given operand to `change`, in order, and builds arguments from the results. Visits all
    /// operands even after one fails. Returns `None` if `change` returned `None` for any of them, or changed
    /// the type or role of one.
    fn map<'s, 'r, S: Space, R: Space>(
        args: &'s mut Self::Args<'_, S>,
        change: impl FnMut(&'static Slot, Lent<'s, S>) -> Option<Lent<'r, R>>,
    ) -> Option<Self::Args<'r, R>>;
    /// Makes arguments from what `give` returns for each operand.
    ///
    /// # Errors
    /// The first operand that has the wrong type or role, or that is required but missing.
    fn build<'r, R: Space>(
        give: &mut dyn FnMut(&'static Slot) -> Option<Lent<'r, R>>,
    ) -> Result<Self::Args<'r, R>, &'static Slot>;
}

/// One operation. Its options are `Self`; its tensors are [`Args`](Signature::Args).
///
/// An op is data. It knows its name, its shape rule and the accuracy that it promises. Backends know how to compute it.
pub trait Op: Signature + Clone + Debug + Send + Sync + 'static {
    /// The names other than [`name`](Op::name) that [`name_on`](Op::name_on) may return.
    const OTHER_NAMES: &'static [&'static str] = &[];

    /// The name in messages, policies and files.
    fn name(&self) -> &'static str;
    /// The shape rule: checks the operands that are read and returns the shapes of those that are written.
    /// Outputs are both allocated and checked with it.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), [`Error::Param`](crate::Error::Param) and other errors caused by the caller.
    fn infer(&self, on: &Self::Shapes<'_>) -> Result<Self::Outputs>;
    /// The name for a call on these operands. It differs from [`name`](Op::name) where files and policies distinguish several
    /// kinds of calls of one op: a product with a quantized weight is `qlinear`.
    fn name_on(&self, on: &dyn Operands) -> &'static str {
        let _ = on;
        self.name()
    }
    /// Hashes the options, so that a backend can look up decisions it made for earlier calls. Values with different `Debug`
    /// output must hash differently. The default formats the op, which takes longer than a launch: override it.
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        format!("{self:?}").hash(state);
    }
    /// The options under the names that [`registry::by_name`](crate::ops::registry::by_name) accepts. An
    /// option at its default may be left out. The default implementation lists none: an op with options must
    /// override it, or records of its calls lack them.
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        Vec::new()
    }
    /// How far the output named `output`, of type `dtype`, may differ from the exact result in a call on these operands.
    fn tolerance(&self, output: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        let _ = (output, on);
        Tolerance::rounded(dtype)
    }
}

/// A backend's kernel for one operation.
#[diagnostic::on_unimplemented(
    message = "backend `{Self}` has no kernel for `{O}`",
    label = "no kernel for `{O}` on this backend",
    note = "wrap the backend as `Fallback::new(backend, Cpu::new())`, or write `impl Execute<{O}> for {Self}`",
    note = "in a function generic over the backend, require the op family instead, such as `B: NormOps<T>` or `B: Transformer<T>`"
)]
pub trait Execute<O: Op>: Backend {
    /// Checks whether `execute` would run. Must not allocate or enqueue. If this returns `Ok`, `execute` must not return
    /// [`Error::Unsupported`](crate::Error::Unsupported).
    ///
    /// # Errors
    /// The reason why it would not run.
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason>;

    /// Enqueues the operation. The arguments have already been checked.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) guarantees that no output was written.
    fn execute(&self, call: Call<'_, '_, O, Self::Space>) -> Result<()>;

    /// Whether a single kernel computes a fused op for these operands, so that calling it pays off. Otherwise
    /// the call runs as its [`Parts`](crate::Parts), or not at all.
    fn fuses(&self, op: &O, on: &dyn Operands) -> bool {
        self.support(op, on).is_ok()
    }

    /// Whether this backend's kernels can read `operand` in this packing. If not, the call is refused before `execute`.
    fn reads(&self, op: &O, operand: &'static str, packing: &'static Packing) -> bool {
        let _ = (op, operand, packing);
        false
    }
    /// The determinism that this backend guarantees for this call. The default is [`Determinism::Run`].
    fn determinism(&self, op: &O, on: &dyn Operands) -> Determinism {
        let _ = (op, on);
        Determinism::Run
    }
    /// Repacks `x` into the layout in which this backend reads `operand` of this op fastest. Returns `x`
    /// unchanged if there is no such layout, if it would not be faster, or if there is no memory for it.
    /// Meant for weights: pack once, when a model is loaded.
    ///
    /// The result is used like any other tensor: it goes through the same methods, checks and combinators.
    ///
    /// # Errors
    /// A failed transfer.
    fn pack(
        &self,
        op: &O,
        operand: &'static str,
        x: AnyTensor<Self::Space>,
    ) -> Result<AnyTensor<Self::Space>> {
        let _ = (op, operand);
        Ok(x)
    }
}

/// Declares that a backend leaves ops to a fallback: `unsupported!(MyGpu: RmsNorm<f64>, Rope<f64>)`.
///
/// For generic ops, put the parameters first: `unsupported!(<T: Float> MyGpu: RmsNorm<T>, Rope<T>)`.
#[macro_export]
macro_rules! unsupported {
    (<$($g:ident: $bound:path),+> $backend:ty: $($op:ty),+ $(,)?) => {
        $crate::unsupported!(@each [$($g: $bound),+] $backend: $($op),+);
    };
    (@each $generics:tt $backend:ty: $($op:ty),+) => {
        $($crate::unsupported!(@one $generics $backend, $op);)+
    };
    (@one [$($g:ident: $bound:path),*] $backend:ty, $op:ty) => {
        impl<$($g: $bound),*> $crate::Execute<$op> for $backend {
            fn support(&self, _: &$op, _: &dyn $crate::Operands) -> $crate::Result<(), $crate::Reason> {
                Err($crate::Reason::Missing)
            }
            fn execute(&self, call: $crate::Call<'_, '_, $op, <Self as $crate::Backend>::Space>) -> $crate::Result<()> {
                Err($crate::Error::Unsupported {
                    op: call.name(),
                    backend: $crate::Backend::name(self),
                    reason: $crate::Reason::Missing,
                })
            }
        }
    };
    ($backend:ty: $($op:ty),+ $(,)?) => {
        $($crate::unsupported!(@one [] $backend, $op);)+
    };
}
