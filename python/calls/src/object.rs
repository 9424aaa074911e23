//! An op without its type.
use crate::options::{Fault, Given};
use rocm_ops::backend::{Borrowed, Execute, Op, OperandSlot};
use rocm_ops::ops::registry::{self, AllOps, OptionValue, Visit};
use rocm_ops::{Backend, DType, EitherHost, Error, Result, Rocm, Shape};

/// Gives an op its operands, each at most once.
pub type Give<'g, 'r, S> = &'g mut dyn FnMut(&'static OperandSlot) -> Option<Borrowed<'r, S>>;

/// An op on a backend, without the op's type.
pub trait Prepared<B: Backend>: Send + Sync {
    /// The operands, in order of declaration.
    fn slots(&self) -> &'static [OperandSlot];
    /// The options, those at their defaults too.
    fn options(&self) -> Vec<(&'static str, OptionValue)>;
    /// The shapes of the operands that are only written. Of those that `give` returns for them, only the types matter.
    ///
    /// # Errors
    /// The inputs break the op's rule.
    fn infer<'r>(&self, give: Give<'_, 'r, B::Space>) -> Result<Vec<Shape>>;
    /// Runs the op.
    ///
    /// # Errors
    /// Those of the op and of the backend.
    fn run<'r>(&self, backend: &B, give: Give<'_, 'r, B::Space>) -> Result<()>;
}

/// An op as an object.
pub(crate) type Made<B> = Box<dyn Prepared<B>>;

/// A backend whose calls this crate compiles, so that its users need not.
pub trait Makes: AllOps {
    #[doc(hidden)]
    fn make(name: &str, dtype: DType, options: &Given<'_>) -> Result<Box<dyn Prepared<Self>>, Fault>;
}

macro_rules! makes {
    ($($Backend:ty),+) => {$(
        impl Makes for $Backend {
            fn make(name: &str, dtype: DType, options: &Given<'_>) -> Result<Box<dyn Prepared<Self>>, Fault> {
                made::<Self>(name, dtype, options)
            }
        }
    )+};
}
makes!(EitherHost, Rocm);

/// The op of this name that runs in `dtype`.
///
/// # Errors
/// There is no such op, or an option cannot be read.
fn made<B: AllOps>(name: &str, dtype: DType, options: &Given<'_>) -> Result<Made<B>, Fault> {
    registry::by_name(name, dtype, options, Erase)
}

struct Erase;

impl<B: AllOps> Visit<B> for Erase {
    type Answer = Made<B>;
    fn visit<O: Op>(self, op: O) -> Made<B>
    where
        B: Execute<O>,
    {
        Box::new(Typed(op))
    }
}

struct Typed<O>(O);

impl<O: Op, B: Execute<O>> Prepared<B> for Typed<O> {
    fn slots(&self) -> &'static [OperandSlot] {
        O::SLOTS
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        self.0.options()
    }
    fn infer<'r>(&self, give: Give<'_, 'r, B::Space>) -> Result<Vec<Shape>> {
        let args = O::build(give).map_err(|slot| refused(self.0.name(), slot))?;
        Ok(self.0.infer(&O::shapes(&args))?.as_ref().to_vec())
    }
    fn run<'r>(&self, backend: &B, give: Give<'_, 'r, B::Space>) -> Result<()> {
        let args = O::build(give).map_err(|slot| refused(self.0.name(), slot))?;
        backend.run(&self.0, args)
    }
}

/// The error for an operand that is missing or of another type. `Call` says it more precisely beforehand.
#[cold]
fn refused(op: &'static str, slot: &OperandSlot) -> Error {
    let want = slot.dtype.map_or_else(|| "a tensor".to_owned(), |dtype| format!("a tensor of {dtype}"));
    Error::Operand { op, operand: slot.name, got: "missing or of another type".to_owned(), want }
}
