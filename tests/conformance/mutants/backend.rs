//! The reference with one kernel made wrong.
use rocm_ops::combine::Wrapper;
use rocm_ops::{
    Call, DType, Element, Error, Execute, Host, Op, Operands, OutputVisitor, Reason, Reference, Result,
    Tensor, TensorMut, View,
};
use std::any::Any;
use std::sync::Arc;

/// A kernel that is wrong in one op and type, and in one way.
#[derive(Clone)]
pub(super) struct Mutant {
    /// What is wrong.
    pub(super) name: &'static str,
    /// The op as the suite names it.
    pub(super) op: &'static str,
    /// The type that its cases run in.
    pub(super) dtype: DType,
    fault: Fault,
}

/// Sees the op and a copy of its operands without their types; answers whether they were its own.
type Twist = Arc<dyn Fn(&mut dyn Any, &mut dyn Any) -> bool + Send + Sync>;

#[derive(Clone)]
enum Fault {
    /// None.
    Sound,
    /// Changes the options and operands that the reference then gets.
    Before(Twist),
    /// Computes instead of the reference.
    Instead(Twist),
    /// Changes what the reference computed.
    After(Twist),
    /// Writes one element more than the output has.
    Overrun,
    /// Says yes and then declines.
    Declines,
    /// Declines when the output is written.
    DeclinesLate,
    /// Answers an index outside with success.
    SwallowsErrors,
}

impl Mutant {
    /// No fault, the same detour.
    pub(super) fn sound_in(op: &'static str) -> Self {
        Self::of("nothing", op, DType::F32, Fault::Sound)
    }
    fn of(name: &'static str, op: &'static str, dtype: DType, fault: Fault) -> Self {
        Mutant { name, op, dtype, fault }
    }

    fn twist<O: Op>(f: impl Fn(&mut O, &mut O::Owned<Host>) + Send + Sync + 'static) -> Twist {
        Arc::new(move |op, operands| match (op.downcast_mut(), operands.downcast_mut()) {
            (Some(op), Some(operands)) => {
                f(op, operands);
                true
            }
            _ => false,
        })
    }

    /// Changes the options of `O` or its operands.
    pub(super) fn before<O: Op>(
        name: &'static str,
        op: &'static str,
        dtype: DType,
        f: impl Fn(&mut O, &mut O::Owned<Host>) + Send + Sync + 'static,
    ) -> Self {
        Self::of(name, op, dtype, Fault::Before(Self::twist::<O>(f)))
    }
    /// Another kernel for `O`.
    pub(super) fn instead<O: Op>(
        name: &'static str,
        op: &'static str,
        dtype: DType,
        f: impl Fn(&mut O, &mut O::Owned<Host>) + Send + Sync + 'static,
    ) -> Self {
        Self::of(name, op, dtype, Fault::Instead(Self::twist::<O>(f)))
    }
    /// Changes the results of `O`.
    pub(super) fn after<O: Op>(
        name: &'static str,
        op: &'static str,
        dtype: DType,
        f: impl Fn(&mut O, &mut O::Owned<Host>) + Send + Sync + 'static,
    ) -> Self {
        Self::of(name, op, dtype, Fault::After(Self::twist::<O>(f)))
    }
    pub(super) fn overrun(op: &'static str, dtype: DType) -> Self {
        Self::of("one element written beyond the output", op, dtype, Fault::Overrun)
    }
    pub(super) fn declines(op: &'static str, dtype: DType) -> Self {
        Self::of("support promised, then declined", op, dtype, Fault::Declines)
    }
    pub(super) fn declines_late(op: &'static str, dtype: DType) -> Self {
        Self::of("declined after writing", op, dtype, Fault::DeclinesLate)
    }
    pub(super) fn swallows_errors(op: &'static str, dtype: DType) -> Self {
        Self::of("an index outside is no error", op, dtype, Fault::SwallowsErrors)
    }
}

/// A backend that is the reference but for a mutant.
#[derive(Clone)]
pub(super) struct Mutated(pub(super) Mutant);

impl Wrapper for Mutated {
    type Inner = Reference;
    fn inner(&self) -> &Reference {
        &Reference
    }
    fn around(&self, _: Reference) -> Self {
        self.clone()
    }
}

impl<O: Op> Execute<O> for Mutated
where
    Reference: Execute<O>,
{
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        match self.0.fault {
            Fault::DeclinesLate if op.name_on(on) == self.0.op => Err(Reason::Missing),
            _ => Ok(()),
        }
    }

    fn execute(&self, call: Call<'_, '_, O, Host>) -> Result<()> {
        let b = Reference::new();
        let mut op = call.op().clone();
        let name = call.name();
        if name != self.0.op {
            return b.execute(call);
        }
        let declined = || Error::Unsupported { op: name, backend: "mutant", reason: Reason::Missing };
        // Whole copies, whose types a twist can name; an output's gaps come along.
        let mut operands = O::mirror(call.args(), &b, &b)?;
        let mut overrun = false;
        match &self.0.fault {
            Fault::Sound => run(&op, &mut operands)?,
            Fault::Before(twist) => {
                twist(&mut op, &mut operands);
                run(&op, &mut operands)?;
            }
            Fault::Instead(twist) => {
                if !twist(&mut op, &mut operands) {
                    run(&op, &mut operands)?;
                }
            }
            Fault::After(twist) => {
                run(&op, &mut operands)?;
                twist(&mut op, &mut operands);
            }
            Fault::Overrun => {
                run(&op, &mut operands)?;
                overrun = true;
            }
            Fault::Declines => return Err(declined()),
            Fault::DeclinesLate => {
                run(&op, &mut operands)?;
                let error = declined();
                store(call, &operands, false)?;
                return Err(error);
            }
            Fault::SwallowsErrors => match run(&op, &mut operands) {
                Err(Error::Index { .. }) => {}
                other => other?,
            },
        }
        store(call, &operands, overrun)
    }
}

fn run<O: Op>(op: &O, operands: &mut O::Owned<Host>) -> Result<()>
where
    Reference: Execute<O>,
{
    use rocm_ops::Backend;
    Reference::new().run(op, O::lend(operands))
}

fn store<O: Op>(call: Call<'_, '_, O, Host>, operands: &O::Owned<Host>, overrun: bool) -> Result<()> {
    O::visit_outputs(call.into_parts().1, operands, &mut Store { overrun })
}

/// Copies results over the outputs' extents, gaps included.
struct Store {
    overrun: bool,
}

impl OutputVisitor<Host, Host> for Store {
    fn output<T: Element>(
        &mut self,
        _: &'static str,
        mut output: TensorMut<'_, Host, T>,
        computed: &Tensor<Host, T>,
    ) -> Result<()> {
        let extent = output.layout().extent();
        let memory = output.data_mut();
        memory[extent.clone()].copy_from_slice(&computed.buffer()[..extent.len()]);
        if self.overrun
            && let Some(beyond) = memory.get_mut(extent.end)
        {
            *beyond = T::zeroed();
        }
        Ok(())
    }
}
