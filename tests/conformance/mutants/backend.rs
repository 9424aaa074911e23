//! The reference backend with one wrong kernel.
use ops_test::suite::Filter;
use rocm_ops::backend::{Call, Execute, NamedTensors, Op, Operands};
use rocm_ops::combine::{Intercept, Wrapper};
use rocm_ops::{Backend, DType, Error, Host, Reason, Reference, Result};
use std::any::Any;
use std::sync::Arc;

/// A kernel with a single bug, in one op and type.
#[derive(Clone)]
pub(super) struct Mutant {
    /// Description of the bug.
    pub(super) name: &'static str,
    /// The op's name in the suite.
    pub(super) op: &'static str,
    /// The element type of its cases.
    pub(super) dtype: DType,
    /// Text that the names of its cases contain.
    pub(super) named: Option<&'static str>,
    fault: Fault,
}

/// Receives the op without its type and a copy of its operands; returns whether the op was the mutant's.
type Twist = Arc<dyn Fn(&mut dyn Any, &mut NamedTensors<Host>) -> bool + Send + Sync>;

#[derive(Clone)]
enum Fault {
    /// No bug.
    Sound,
    /// Changes the options and operands before the reference gets them.
    Before(Twist),
    /// Computes instead of the reference.
    Instead(Twist),
    /// Changes the results of the reference.
    After(Twist),
    /// Writes one element beyond the output.
    Overrun,
    /// Reports support and then declines.
    Declines,
    /// Declines after writing the output.
    DeclinesLate,
    /// Returns success for an index out of range.
    SwallowsErrors,
}

impl Mutant {
    /// No bug, through the same code path.
    pub(super) fn sound_in(op: &'static str) -> Self {
        Self::of("nothing", op, DType::F32, Fault::Sound)
    }
    fn of(name: &'static str, op: &'static str, dtype: DType, fault: Fault) -> Self {
        Mutant { name, op, dtype, named: None, fault }
    }

    /// Runs only cases whose names contain this text. Products have cases for every format.
    pub(super) fn in_cases_of(self, named: &'static str) -> Self {
        Mutant { named: Some(named), ..self }
    }

    /// The cases to run.
    pub(super) fn cases(&self) -> Filter {
        let name = self.named.map(str::to_owned);
        Filter { op: Some(self.op.into()), dtype: Some(self.dtype), name, ..Filter::all() }
    }

    fn twist<O: Op>(f: impl Fn(&mut O, &mut NamedTensors<Host>) + Send + Sync + 'static) -> Twist {
        Arc::new(move |op, operands| {
            let Some(op) = op.downcast_mut() else { return false };
            f(op, operands);
            true
        })
    }

    /// Changes the options of `O` or its operands.
    pub(super) fn before<O: Op>(
        name: &'static str,
        op: &'static str,
        dtype: DType,
        f: impl Fn(&mut O, &mut NamedTensors<Host>) + Send + Sync + 'static,
    ) -> Self {
        Self::of(name, op, dtype, Fault::Before(Self::twist::<O>(f)))
    }
    /// Replaces the kernel of `O`.
    pub(super) fn instead<O: Op>(
        name: &'static str,
        op: &'static str,
        dtype: DType,
        f: impl Fn(&mut O, &mut NamedTensors<Host>) + Send + Sync + 'static,
    ) -> Self {
        Self::of(name, op, dtype, Fault::Instead(Self::twist::<O>(f)))
    }
    /// Changes the results of `O`.
    pub(super) fn after<O: Op>(
        name: &'static str,
        op: &'static str,
        dtype: DType,
        f: impl Fn(&mut O, &mut NamedTensors<Host>) + Send + Sync + 'static,
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

/// The reference backend with a mutant.
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

impl<O: Op> Intercept<O> for Mutated
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
        // Complete copies, including an output's gaps, which a twist may change.
        let mut operands = NamedTensors::mirror(&op, call.args(), &b, &b)?;
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

fn run<O: Op>(op: &O, operands: &mut NamedTensors<Host>) -> Result<()>
where
    Reference: Execute<O>,
{
    Reference::new().run(op, operands.args(op)?)
}

/// Copies results over the outputs' extents, including gaps; `overrun` writes one more element.
fn store<O: Op>(call: Call<'_, '_, O, Host>, operands: &NamedTensors<Host>, overrun: bool) -> Result<()> {
    let (op, args) = call.into_parts();
    operands.outputs(op, args, |_, mut output, computed| {
        let (extent, size) = (output.layout().extent(), output.dtype().size());
        let (start, end) = (extent.start * size, extent.end * size);
        let memory = output.bytes_mut();
        memory[start..end].copy_from_slice(&computed.as_ref().bytes()[..end - start]);
        if overrun && let Some(beyond) = memory.get_mut(end..end + size) {
            beyond.fill(0);
        }
        Ok(())
    })
}
