//! Fused ops that a backend runs as the ops they consist of.
use crate::{Backend, DType, Layout, Op, Operand, Operands, Packing, Reason, Result, Role};

/// A fused op that can run as a sequence of other ops on backend `B`, with intermediate results in the
/// accumulator type of `T`.
///
/// A backend without kernels for fused ops lists them in [`by_parts!`](crate::by_parts). `docs/fused-ops.md`
/// lists the fused ops and their parts.
pub trait Parts<B: Backend>: Op {
    /// Whether `backend` supports the parts of a call on these operands.
    ///
    /// # Errors
    /// The reason why one of them is not supported.
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason>;
    /// Runs the parts.
    ///
    /// # Errors
    /// Those of the parts. If intermediate results cannot be allocated, no output was written.
    fn run_parts(&self, backend: &B, args: &mut Self::Args<'_, B::Space>) -> Result<()>;
    /// Whether the part that reads `operand` supports this packing.
    fn parts_read(&self, backend: &B, operand: &'static str, packing: &'static Packing) -> bool {
        let _ = (backend, operand, packing);
        false
    }
}

/// The operands of a part, some of which may be absent, to ask whether a backend supports it.
pub(crate) struct Planned<'o> {
    pub(crate) read: &'o [Option<Operand<'o>>],
    pub(crate) written: &'o [Operand<'o>],
}
impl Operands for Planned<'_> {
    fn count(&self) -> usize {
        self.read.len() + self.written.len()
    }
    fn operand(&self, index: usize) -> Option<Operand<'_>> {
        match index.checked_sub(self.read.len()) {
            Some(index) => self.written.get(index).copied(),
            None => self.read[index],
        }
    }
}

/// An operand that does not exist in memory yet.
pub(crate) fn made<'o>(name: &'static str, role: Role, dtype: DType, layout: &'o Layout) -> Operand<'o> {
    Operand { name, role, dtype, layout, packing: None }
}

/// Declares that a backend runs fused ops by their [`Parts`]: `by_parts!(<T: Float> MyGpu: LinearSwiglu<T>)`.
///
/// For ops that are not generic, or have only one type, leave the parameters out: `by_parts!(MyGpu:
/// LinearSwiglu<f32>)`.
#[macro_export]
macro_rules! by_parts {
    (<$($g:ident: $bound:path),+> $backend:ty: $($op:ty),+ $(,)?) => {
        $crate::by_parts!(@each [$($g: $bound),+] $backend: $($op),+);
    };
    (@each $generics:tt $backend:ty: $($op:ty),+) => {
        $($crate::by_parts!(@one $generics $backend, $op);)+
    };
    (@one [$($g:ident: $bound:path),*] $backend:ty, $op:ty) => {
        impl<$($g: $bound),*> $crate::Execute<$op> for $backend {
            fn support(&self, op: &$op, on: &dyn $crate::Operands) -> $crate::Result<(), $crate::Reason> {
                $crate::Parts::parts_support(op, self, on)
            }
            fn execute(&self, call: $crate::Call<'_, '_, $op, <Self as $crate::Backend>::Space>) -> $crate::Result<()> {
                let (op, args) = call.into_parts();
                $crate::Parts::run_parts(op, self, args)
            }
            fn fuses(&self, _: &$op, _: &dyn $crate::Operands) -> bool {
                false
            }
            fn reads(&self, op: &$op, operand: &'static str, packing: &'static $crate::Packing) -> bool {
                $crate::Parts::parts_read(op, self, operand, packing)
            }
        }
    };
    ($backend:ty: $($op:ty),+ $(,)?) => {
        $($crate::by_parts!(@one [] $backend, $op);)+
    };
}
