//! The two backends in host memory, as one type.
use crate::{Cpu, Host, HostBuffer, Reference};
use ops_core::{
    AnyTensor, Backend, Call, Determinism, Element, Execute, HostMemory, Op, Operands, Packing, Reason,
    Replay, Result,
};

/// [`Cpu`] or [`Reference`], chosen at run time.
///
/// Code that is generic over backends is compiled for each of them. These two have the same memory, so a
/// program that offers both compiles such code once for this type. Unlike with [`Either`](ops_core::Either),
/// tensors do not belong to a side.
///
/// ```
/// use rocm_ops::{Backend, ops::*};
/// use rocm_ops::{Cpu, EitherHost};
///
/// for backend in [EitherHost::Cpu(Cpu::new()), EitherHost::Reference] {
///     let x = backend.tensor(&[2], &[1.0_f32, 2.0])?;
///     assert_eq!(backend.add(&x, &x)?.to_vec(&backend)?, [2.0, 4.0]);
/// }
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum EitherHost {
    /// The fast backend.
    Cpu(Cpu),
    /// The oracle.
    Reference,
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
        Ok(self.clone())
    }
    fn mark(&self) -> Result<()> {
        Cpu::new().mark()
    }
    fn wait(&self, event: &()) -> Result<()> {
        Cpu::new().wait(event)
    }
}

impl Replay for EitherHost {
    type Graph = core::convert::Infallible;
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
    fn fuses(&self, op: &O, on: &dyn Operands) -> bool {
        match self {
            EitherHost::Cpu(cpu) => cpu.fuses(op, on),
            EitherHost::Reference => Reference.fuses(op, on),
        }
    }
    fn reads(&self, op: &O, operand: &'static str, packing: &'static Packing) -> bool {
        match self {
            EitherHost::Cpu(cpu) => cpu.reads(op, operand, packing),
            EitherHost::Reference => Reference.reads(op, operand, packing),
        }
    }
    fn pack(&self, op: &O, operand: &'static str, x: AnyTensor<Host>) -> Result<AnyTensor<Host>> {
        match self {
            EitherHost::Cpu(cpu) => cpu.pack(op, operand, x),
            EitherHost::Reference => Reference.pack(op, operand, x),
        }
    }
}
