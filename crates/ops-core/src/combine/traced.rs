//! A backend that describes every call to a recorder.
use super::{Intercept, Wrapper};
use crate::named::{contents, moved};
use crate::ops::registry::{self, OptionValue};
use crate::{Backend, Call, DType, Execute, Layout, Op, Operand, OperandInfo, OperandSlot, Result, Role};
use core::fmt;
use std::sync::Arc;

/// Runs every op on `B` and passes a description of each successful call to a [`Recorder`], in call order.
///
/// Operands are copied before the call, because it may overwrite them; which ones are copied is the recorder's choice.
///
/// ```
/// # use rocm_ops::Cpu;
/// use rocm_ops::combine::{Traced, TracedCall, Recorder};
/// use rocm_ops::{Backend, Result, ops::*};
/// use rocm_ops::backend::Operand;
/// use std::sync::{Arc, Mutex};
///
/// #[derive(Default)]
/// struct Names(Mutex<Vec<String>>);
/// impl Recorder for Names {
///     fn wants(&self, _: &Operand<'_>) -> bool {
///         false
///     }
///     fn record(&self, call: TracedCall) -> Result<()> {
///         self.0.lock().unwrap().push(format!("{} {:?}", call.op, call.options));
///         Ok(())
///     }
/// }
///
/// let names = Arc::new(Names::default());
/// let recorded = Traced::new(Cpu::new(), names.clone());
/// let x = recorded.tensor(&[1, 2], &[1.0_f32, 2.0])?;
/// recorded.softmax(recorded.add(&x, &x)?, -1)?;
/// assert_eq!(*names.0.lock().unwrap(), ["add []", r#"softmax [("axis", Axis(-1))]"#]);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Clone)]
pub struct Traced<B> {
    inner: B,
    on: bool,
    recorder: Arc<dyn Recorder>,
}

/// Receives the calls of a [`Traced`] backend.
pub trait Recorder: Send + Sync + 'static {
    /// Whether to copy this operand's elements. Called only for operands that are read.
    fn wants(&self, operand: &Operand<'_>) -> bool;
    /// Receives a call that has succeeded.
    ///
    /// # Errors
    /// The call cannot be stored. The caller of the op gets this error.
    fn record(&self, call: TracedCall) -> Result<()>;
}

/// A call without its tensors.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracedCall {
    /// The op, as [`Op::name_on`] names it.
    pub op: &'static str,
    /// The type that the op runs in, see [`registry::runs_in`]; `None` if no operand was given.
    pub runs_in: Option<DType>,
    /// The options, see [`Op::options`].
    pub options: Vec<(&'static str, OptionValue)>,
    /// The operands that were given, in order of declaration.
    pub operands: Vec<TracedOperand>,
}

/// An operand of a [`TracedCall`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracedOperand {
    /// The name in the op's contract.
    pub name: &'static str,
    /// Whether it is read or written.
    pub role: Role,
    /// The element type.
    pub dtype: DType,
    /// Where its elements lie in its memory, which starts at the lowest one. A packed operand is described as
    /// if it were not packed.
    pub layout: Layout,
    /// Its memory before the call, from the lowest element to the highest, if the recorder wanted it.
    pub memory: Option<Vec<u8>>,
}

impl<B> Traced<B> {
    /// Passes the calls of `inner` to `recorder`.
    pub fn new(inner: B, recorder: Arc<dyn Recorder>) -> Self {
        Traced { inner, on: true, recorder }
    }
    /// Sets whether to record calls. When off, a call costs the same as on the wrapped backend.
    pub fn on(self, on: bool) -> Self {
        Traced { on, ..self }
    }
    /// Whether anything is recorded.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }
    /// The wrapped backend.
    pub fn inside(&self) -> &B {
        &self.inner
    }
}

impl<B: fmt::Debug> fmt::Debug for Traced<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traced { inner, on, recorder: _ } = self;
        f.debug_struct("Traced").field("inner", inner).field("on", on).finish_non_exhaustive()
    }
}

impl<B: Backend> Traced<B> {
    fn operand(&self, slot: &'static OperandSlot, info: OperandInfo<'_, B::Space>) -> Result<TracedOperand> {
        let Operand { role, dtype, layout, .. } = info.operand;
        let wanted = role != Role::Out && self.recorder.wants(&info.operand);
        let memory = wanted.then(|| contents(info, &self.inner)).transpose()?;
        let layout = moved(layout);
        Ok(TracedOperand { name: slot.name, role, dtype, layout, memory })
    }
}

impl<B: Backend> Wrapper for Traced<B> {
    type Inner = B;
    fn inner(&self) -> &B {
        &self.inner
    }
    fn around(&self, inner: B) -> Self {
        Traced { inner, ..self.clone() }
    }
}

impl<O: Op, B: Execute<O>> Intercept<O> for Traced<B> {
    fn execute(&self, call: Call<'_, '_, O, B::Space>) -> Result<()> {
        if !self.on {
            return self.inner.execute(call);
        }
        let mut operands = Vec::with_capacity(O::SLOTS.len());
        O::for_each_operand(call.args(), |_, slot, info| {
            if let Some(info) = info {
                operands.push(self.operand(slot, info)?);
            }
            Ok::<(), crate::Error>(())
        })?;
        let op = call.name();
        let runs_in = registry::runs_in(op, O::SLOTS, call.operands());
        let recorded = TracedCall { op, runs_in, options: call.op().options(), operands };
        self.inner.execute(call)?;
        self.recorder.record(recorded)
    }
}
