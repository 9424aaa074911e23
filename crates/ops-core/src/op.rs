//! Ops and their arguments.
use crate::option::OptionValue;
use crate::{
    Borrowed, DType, Determinism, Layout, OperandInfo, OperandSlot, Operands, Result, Role, Shape, Space,
    Tolerance,
};
use core::fmt::Debug;
use core::hash::{Hash, Hasher};

mod contract;

/// The operands of an op. Only [`operands!`](crate::operands) implements it.
///
/// Checks, launches and reports [visit](Signature::for_each_operand) arguments. Combinators [map](Signature::map) them
/// to other memory. Suites and commands [build](Signature::build) them from named tensors.
pub trait Signature {
    /// The tensors of one call.
    type Args<'a, S: Space>: Operands;
    /// The shapes that the shape rule reads.
    type Shapes<'a>;
    /// One [`Shape`] per operand that is only written.
    type Outputs: AsRef<[Shape]> + AsMut<[Shape]> + Default;
    /// The operands, in order of declaration.
    const SLOTS: &'static [OperandSlot];
    /// The name of the operands' module, which is that of the op unless [`Op::name`] says otherwise.
    const NAME: &'static str;

    /// The options that were declared with the operands: what [`Op::options`] lists by default.
    fn declared_options(&self) -> Vec<(&'static str, OptionValue)> {
        Vec::new()
    }
    /// Hashes the options that were declared with the operands. Returns false if none were.
    fn hash_declared<H: Hasher>(&self, state: &mut H) -> bool {
        let _ = state;
        false
    }
    /// Passes the layout and the type of every operand that is read to `see`, with its index in the declaration.
    ///
    /// # Errors
    /// The first error of `see`.
    fn for_each_shape<'s>(
        on: &Self::Shapes<'s>,
        see: impl FnMut(usize, &'s Layout, DType) -> Result<()>,
    ) -> Result<()>;

    /// The shapes that the shape rule reads of these arguments.
    fn shapes<'s, S: Space>(args: &'s Self::Args<'_, S>) -> Self::Shapes<'s>;
    /// Passes every operand to `see`, in declaration order, with its index in the declaration; `None` for an optional operand
    /// that was not given. Stops at the first error.
    ///
    /// # Errors
    /// The error of `see`.
    fn for_each_operand<'s, S: Space, Stop>(
        args: &'s Self::Args<'_, S>,
        see: impl FnMut(usize, &'static OperandSlot, Option<OperandInfo<'s, S>>) -> Result<(), Stop>,
    ) -> Result<(), Stop>;
    /// Passes every given operand to `change`, in order, and builds arguments from the results. Visits all
    /// operands even after one fails. Returns `None` if `change` returned `None` for any of them, or changed
    /// the type or role of one.
    fn map<'s, 'r, S: Space, R: Space>(
        args: &'s mut Self::Args<'_, S>,
        change: impl FnMut(&'static OperandSlot, Borrowed<'s, S>) -> Option<Borrowed<'r, R>>,
    ) -> Option<Self::Args<'r, R>>;
    /// Makes arguments from what `give` returns for each operand.
    ///
    /// # Errors
    /// The first operand that has the wrong type or role, or that is required but missing.
    fn build<'r, R: Space>(
        give: &mut dyn FnMut(&'static OperandSlot) -> Option<Borrowed<'r, R>>,
    ) -> Result<Self::Args<'r, R>, &'static OperandSlot>;
}

/// One operation. Its options are `Self`; its tensors are [`Args`](Signature::Args).
///
/// An op is data. It knows its name, its shape rule and the accuracy that it promises. Backends know how to compute it.
pub trait Op: Signature + Clone + Debug + Send + Sync + 'static {
    /// The names other than [`name`](Op::name) that [`name_on`](Op::name_on) may return.
    const OTHER_NAMES: &'static [&'static str] = &[];

    /// The name in messages, policies and files.
    fn name(&self) -> &'static str {
        Self::NAME
    }
    /// Checks the options by themselves. The default shape rule calls it first.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param).
    fn check_options(&self) -> Result<()> {
        Ok(())
    }
    /// The shape rule: checks the operands that are read and returns the shapes of those that are written.
    /// Outputs are both allocated and checked with it. The default is the rule by
    /// [declared extents](crate::operands).
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), [`Error::Param`](crate::Error::Param) and other errors caused by the caller.
    #[inline]
    fn infer(&self, on: &Self::Shapes<'_>) -> Result<Self::Outputs> {
        self.check_options()?;
        contract::infer::<Self>(self.name(), on)
    }
    /// The name for a call on these operands. It differs from [`name`](Op::name) where files and policies distinguish several
    /// kinds of calls of one op: a product with a quantized weight is `qlinear`.
    fn name_on(&self, on: &dyn Operands) -> &'static str {
        let _ = on;
        self.name()
    }
    /// Hashes the options, so that a backend can look up decisions it made for earlier calls. Values with different `Debug`
    /// output must hash differently. Unless the options were declared with the operands, the default formats the op, which
    /// takes longer than a launch: override it.
    #[inline]
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        if !self.hash_declared(state) {
            format!("{self:?}").hash(state);
        }
    }
    /// The options under the names that [`registry::by_name`](crate::ops::registry::by_name) accepts. An
    /// option at its default may be left out. The default lists those declared with the operands: an op with
    /// others must override it, or records of its calls lack them.
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        self.declared_options()
    }
    /// How far the output named `output`, of type `dtype`, may differ from the exact result in a call on these operands. The
    /// default, [`Tolerance::rounded`], allows for one rounding to the type of the output: an op that sums many terms needs more.
    fn tolerance(&self, output: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        let _ = (output, on);
        Tolerance::rounded(dtype)
    }
}

impl Determinism {
    /// [`Exact`](Determinism::Exact) if every output of the call has an exact [`Tolerance`], which leaves a correct kernel no
    /// choice of bits; otherwise `level`.
    pub fn of_call<O: Op>(op: &O, on: &dyn Operands, level: Determinism) -> Determinism {
        let mut written = on.iter().filter(|operand| operand.role != Role::In).peekable();
        let some = written.peek().is_some();
        let exact = written.all(|x| matches!(op.tolerance(x.name, x.dtype, on), Tolerance::Exact));
        if some && exact { Determinism::Exact } else { level }
    }
}
