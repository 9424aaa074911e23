//! Ops, their arguments, and what joins them to backends.
use crate::{
    AnyTensor, Backend, Call, DType, Lent, Operands, Packing, Reason, Result, Seen, Shape, Slot, Space,
    Tolerance,
};
use core::fmt::Debug;
use core::hash::{Hash, Hasher};

/// The operands of an op: what [`operands!`](crate::operands) writes for it, and nobody else.
///
/// The gate, launches and reports [look](Signature::look) at arguments; combinators [map](Signature::map) them to other memory;
/// whoever has tensors by name, a suite or a command, [builds](Signature::build) them.
pub trait Signature {
    /// The tensors of one call.
    type Args<'a, S: Space>: Operands;
    /// What the rule reads.
    type Shapes<'a>;
    /// One [`Shape`] for each operand that is written only.
    type Outputs: AsRef<[Shape]>;
    /// The operands, in order of declaration.
    const SLOTS: &'static [Slot];

    /// What the rule reads, of these arguments.
    fn shapes<'s, S: Space>(args: &'s Self::Args<'_, S>) -> Self::Shapes<'s>;
    /// Shows every operand in order, with its place in the declaration, until `see` stops it; `None` is one that was not given.
    ///
    /// # Errors
    /// What `see` answers.
    fn look<'s, S: Space, Stop>(
        args: &'s Self::Args<'_, S>,
        see: impl FnMut(usize, &'static Slot, Option<Seen<'s, S>>) -> Result<(), Stop>,
    ) -> Result<(), Stop>;
    /// Hands every operand that was given to `change`, all of them and in order, and makes arguments of what it answers: `None`
    /// if it withheld one, or one came back with another type or use.
    fn map<'s, 'r, S: Space, R: Space>(
        args: &'s mut Self::Args<'_, S>,
        change: impl FnMut(&'static Slot, Lent<'s, S>) -> Option<Lent<'r, R>>,
    ) -> Option<Self::Args<'r, R>>;
    /// Makes arguments of what `give` has for each operand.
    ///
    /// # Errors
    /// The first operand that is missing and not optional, or of another type or use.
    fn build<'r, R: Space>(
        give: &mut dyn FnMut(&'static Slot) -> Option<Lent<'r, R>>,
    ) -> Result<Self::Args<'r, R>, &'static Slot>;
}

/// One operation: its options are `Self`, its tensors are [`Args`](Signature::Args).
///
/// An op is data. It knows its name, its shape rule and the accuracy it promises; backends know how
/// to compute it.
pub trait Op: Signature + Clone + Debug + Send + Sync + 'static {
    /// The names besides [`name`](Op::name) that [`name_on`](Op::name_on) gives.
    const OTHER_NAMES: &'static [&'static str] = &[];

    /// The name in messages, policies and files.
    fn name(&self) -> &'static str;
    /// Checks the operands that are read and gives the shapes of those that are written: the one
    /// shape rule, used to allocate and to check.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), [`Error::Param`](crate::Error::Param) and other mistakes of the caller.
    fn infer(&self, on: &Self::Shapes<'_>) -> Result<Self::Outputs>;
    /// The name for a call on these operands: [`name`](Op::name), except where files and policies tell kinds of call of one op
    /// apart. A product with a weight in blocks is `qlinear` there.
    fn name_on(&self, on: &dyn Operands) -> &'static str {
        let _ = on;
        self.name()
    }
    /// Hashes the options, so that a backend finds what it decided for an earlier call: two values that print differently are to
    /// hash differently. The default formats the op, which takes longer than a launch.
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        format!("{self:?}").hash(state);
    }
    /// How far a result, the `output` of this type, may lie from the exact one, in a call on these operands.
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
    note = "in a function generic over the backend, ask for the op family instead, such as `B: NormOps<T>` or `B: Transformer<T>`"
)]
pub trait Execute<O: Op>: Backend {
    /// Whether `execute` would run; must not allocate or enqueue. If it says yes, `execute` must
    /// not answer [`Error::Unsupported`](crate::Error::Unsupported).
    ///
    /// # Errors
    /// Why not.
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason>;

    /// Enqueues the operation; the arguments are checked already.
    ///
    /// # Errors
    /// On [`Error::Unsupported`](crate::Error::Unsupported) no output was touched.
    fn execute(&self, call: Call<'_, '_, O, Self::Space>) -> Result<()>;

    /// Whether this backend's kernels read `operand` in that order. Others are refused before `execute`.
    fn reads(&self, op: &O, operand: &'static str, packing: &'static Packing) -> bool {
        let _ = (op, operand, packing);
        false
    }
    /// The tensor in the order in which this backend reads that operand of this op fastest; as it is where there is none, or
    /// nothing to gain, or no memory. For weights, once, when a model is loaded.
    ///
    /// What comes back is a tensor as before: it goes through the same methods, the same gate and the same combinators.
    ///
    /// # Errors
    /// A transfer fails.
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
/// Generic ops take their parameters in front: `unsupported!(<T: Float> MyGpu: RmsNorm<T>, Rope<T>)`.
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
