//! The two backends in host memory, as one type.
//!
//! Code that is generic over ops is compiled for each backend type, op and element type. [`Cpu`] and
//! [`Reference`] have the same memory, so one type can be either at run time, which halves that code.
use super::observed::Candidates;
use crate::args::Choice;
use crate::problem::Candidate;
use ops_core::{Backend, Call, Determinism, Element, Execute, HostMemory, Op, Operands, Reason, Result};
use ops_cpu::{Cpu, Host, HostBuffer, Reference};

/// [`Cpu`] or [`Reference`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum EitherHost {
    Cpu(Cpu),
    Reference,
}

impl EitherHost {
    /// [`Reference`] if it was chosen, else a [`Cpu`] that promises this much about bits. [`Reference`] computes each row by itself.
    ///
    /// # Errors
    /// Those of [`CpuBuilder::build`](ops_cpu::CpuBuilder::build).
    pub(crate) fn of(choice: Choice, determinism: Determinism) -> Result<Self> {
        match choice {
            Choice::Reference => Ok(EitherHost::Reference),
            _ => Cpu::builder().determinism(determinism).build().map(EitherHost::Cpu),
        }
    }
}

/// Both have the same memory, so [`Cpu`] manages it for either.
impl Backend for EitherHost {
    type Space = Host;
    type Event = ();

    fn name(&self) -> &'static str {
        match self {
            EitherHost::Cpu(cpu) => cpu.name(),
            EitherHost::Reference => Reference.name(),
        }
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        Cpu::new().alloc(len)
    }
    fn read<T: Element>(&self, src: &[T], start: usize, dst: &mut [T]) -> Result<()> {
        Cpu::new().read(src, start, dst)
    }
    fn write<T: Element>(&self, src: &[T], dst: &mut [T], start: usize) -> Result<()> {
        Cpu::new().write(src, dst, start)
    }
    fn adopt<T: Element>(&self, memory: HostMemory<T>) -> Result<HostBuffer<T>> {
        Cpu::new().adopt(memory)
    }
    fn synchronize(&self) -> Result<()> {
        Cpu::new().synchronize()
    }
    fn fork(&self) -> Result<Self> {
        Ok(*self)
    }
    fn record(&self) -> Result<()> {
        Cpu::new().record()
    }
    fn wait(&self, event: &()) -> Result<()> {
        Cpu::new().wait(event)
    }
}

impl<O: Op> Execute<O> for EitherHost
where
    Cpu: Execute<O>,
    Reference: Execute<O>,
{
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        match self {
            EitherHost::Cpu(cpu) => cpu.support(op, on),
            EitherHost::Reference => Reference.support(op, on),
        }
    }
    fn determinism(&self, op: &O, on: &dyn Operands) -> Determinism {
        match self {
            EitherHost::Cpu(cpu) => cpu.determinism(op, on),
            EitherHost::Reference => Reference.determinism(op, on),
        }
    }
    fn execute(&self, call: Call<'_, '_, O, Host>) -> Result<()> {
        match self {
            EitherHost::Cpu(cpu) => cpu.execute(call),
            EitherHost::Reference => Reference.execute(call),
        }
    }
}

impl<O: Op> Candidates<O> for EitherHost
where
    EitherHost: Execute<O>,
{
    fn candidates(&self, op: &O, on: &dyn Operands) -> Vec<Candidate> {
        let reason = match self {
            EitherHost::Cpu(_) => "the only candidate: a kernel for every layout",
            EitherHost::Reference => "the only candidate: plain loops in f64",
        };
        vec![Candidate::only(self.name(), self.support(op, on), self.determinism(op, on), reason)]
    }
}
