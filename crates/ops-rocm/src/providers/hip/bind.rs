//! Operands as the kernels' crate sees them: addresses, strides and types.
use crate::hip::{Access, DeviceMemory, IndexCheck, Purpose};
use crate::{HipSpace, Result, Rocm};
use core::convert::Infallible;
use ops_core::{DType, Layout, MAX_RANK, Op, Operands, Reason, Role};
use ops_kernels::index::Report;
use ops_kernels::{Dtype, View};

/// The most operands that an op has.
pub(super) const MOST: usize = 6;

/// The memory of an operand, and what for.
#[derive(Clone, Copy, Debug)]
struct Slot<'s> {
    memory: &'s DeviceMemory,
    offset: usize,
    purpose: Purpose,
}

/// An operand: where its first element lies, and how to walk from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) address: u64,
    pub(crate) dtype: Dtype,
    pub(crate) layout: Layout,
    dims: [u64; MAX_RANK],
    strides: [i64; MAX_RANK],
}

impl Bound {
    pub(crate) fn new(address: u64, dtype: Dtype, layout: &Layout) -> Self {
        let (mut dims, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        for (at, (d, s)) in layout.dims().iter().zip(layout.strides()).enumerate() {
            (dims[at], strides[at]) = (*d as u64, *s as i64);
        }
        Bound { address, dtype, layout: *layout, dims, strides }
    }

    pub(crate) fn dims(&self) -> &[u64] {
        &self.dims[..self.layout.rank()]
    }
    pub(crate) fn view(&self) -> View<'_> {
        View { data: self.address, strides: &self.strides[..self.layout.rank()], dtype: self.dtype }
    }
    /// This and another operand with the same leading axes, as one matrix each where the strides of both allow it.
    pub(crate) fn folded_with(&self, other: &Self) -> (Self, Self) {
        let one_matrix = |operand: &Self| {
            let (columns, leading) = operand.layout.dims().split_last()?;
            let layout = operand.layout.reshape(&[leading.iter().product(), *columns]).ok()?;
            Some(operand.relaid(&layout))
        };
        one_matrix(self).zip(one_matrix(other)).unwrap_or((*self, *other))
    }
    /// The same memory under a layout derived from this one, whose offset is counted from the same place.
    pub(crate) fn relaid(&self, layout: &Layout) -> Self {
        let moved = layout.offset() as i64 - self.layout.offset() as i64;
        let address = self.address.wrapping_add_signed(moved.wrapping_mul(self.dtype.bytes() as i64));
        Bound::new(address, self.dtype, layout)
    }
}

/// The operands of a call, by their place in the declaration, and the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    operands: [Option<Bound>; MOST],
    device: ops_kernels::Device,
    report: Report,
}

impl Problem {
    /// For the question whether there is a kernel: addresses are as well aligned as can be.
    pub(crate) fn assumed(on: &dyn Operands, device: &ops_kernels::Device) -> Result<Self, Reason> {
        Self::with(on, device, |_| 0)
    }

    /// For a launch: the memory is lent to the stream as long as the second value lives.
    pub(crate) fn bind<'s, O: Op>(
        args: &'s O::Args<'_, HipSpace>,
        rocm: &Rocm,
    ) -> Result<(Self, [Option<Access<'s>>; MOST])> {
        let (mut slots, mut lent) = ([None; MOST], [const { None }; MOST]);
        let Ok(()) = O::look(args, |place, slot, seen| {
            slots[place] = seen.map(|seen| Slot {
                memory: seen.memory.memory(),
                offset: seen.memory.offset(),
                purpose: if slot.role == Role::In { Purpose::Read } else { Purpose::Write },
            });
            Ok::<(), Infallible>(())
        });
        for (place, slot) in lent.iter_mut().zip(&slots) {
            if let Some(slot) = slot {
                *place = Some(slot.memory.access(rocm.stream(), slot.purpose)?);
            }
        }
        let address = |at: usize| match (lent.get(at), slots.get(at)) {
            (Some(Some(access)), Some(Some(slot))) => {
                (access.address() as u64).wrapping_add(slot.offset as u64)
            }
            _ => 0,
        };
        let problem = Self::with(args, rocm.target().kernels(), address)
            .map_err(|why| crate::error::failed("launching a kernel", why))?;
        Ok((problem, lent))
    }

    /// With the address of each operand's memory.
    fn with(
        on: &dyn Operands,
        device: &ops_kernels::Device,
        address: impl Fn(usize) -> u64,
    ) -> Result<Self, Reason> {
        let mut operands = [None; MOST];
        for (at, place) in operands.iter_mut().enumerate().take(on.count()) {
            let Some(operand) = on.operand(at) else { continue };
            let unknown = Reason::DType { operand: operand.name, dtype: operand.dtype };
            let dtype = dtype_of(operand.dtype).ok_or(unknown)?;
            let first = operand.layout.offset() as u64 * dtype.bytes() as u64;
            *place = Some(Bound::new(address(at).wrapping_add(first), dtype, operand.layout));
        }
        Ok(Problem { operands, device: *device, report: Report::default() })
    }

    pub(crate) fn device(&self) -> &ops_kernels::Device {
        &self.device
    }
    /// Where the kernel reports an index out of range.
    pub(crate) fn report(&self) -> Report {
        self.report
    }
    /// Lets the kernel report to the device's record, under this number.
    pub(crate) fn report_to(&mut self, check: &IndexCheck<'_>, number: u32) {
        self.report = Report { error: check.address() as u64, op: number, operand: 0 };
    }
    /// An operand that is always given.
    pub(crate) fn at(&self, place: usize) -> &Bound {
        self.operands[place].as_ref().expect("an operand that the op declares as given")
    }
    /// An operand that may not be given.
    pub(crate) fn get(&self, place: usize) -> Option<&Bound> {
        self.operands.get(place)?.as_ref()
    }
}

/// The element type as the kernels' crate names it.
pub(crate) fn dtype_of(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::Bf16,
        // Others by name.
        other => return Dtype::named(other.name()),
    })
}
