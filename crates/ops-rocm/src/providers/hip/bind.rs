//! Operands as the kernels' crate expects them: addresses, strides and types.
use crate::hip::{Access, IndexCheck, Purpose};
use crate::{HipSpace, Result, Rocm};
use arrayvec::ArrayVec;
use ops_core::quant::FORMATS;
use ops_core::{DType, Layout, Op, Operand, Operands, Reason, Role};
use ops_kernels::index::Report;
use ops_kernels::{ElementType, OperandView, Refused};

/// The largest number of operands of an op.
pub(super) const MAX_OPERANDS: usize = 12;
/// The largest number of an op's operands that hold indices.
const MAX_INDICES: usize = 3;

/// An operand: the address of its first element, and its strides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) address: u64,
    pub(crate) dtype: ElementType,
    pub(crate) layout: Layout,
}

/// The address of an operand in memory without bytes, which has none. To a kernel, null means that an operand is absent.
/// Nothing is ever at this address, and it is aligned as device memory is.
const NO_BYTES: u64 = 256;

// A layout's sizes are passed on in place, as words of 64 bits.
const _: () = assert!(usize::BITS == 64, "ROCm runs on 64-bit machines only");

impl Bound {
    /// An operand whose memory begins at this address.
    #[inline(always)]
    fn of(operand: &Operand<'_>, dtype: ElementType, memory: u64) -> Self {
        let first = operand.layout.offset() as u64 * dtype.bytes() as u64;
        Bound::new(memory.wrapping_add(first), dtype, operand.layout)
    }
    #[inline(always)]
    pub(crate) fn new(address: u64, dtype: ElementType, layout: &Layout) -> Self {
        Bound { address, dtype, layout: *layout }
    }

    pub(crate) fn dims(&self) -> &[u64] {
        bytemuck::cast_slice(self.layout.dims())
    }
    pub(crate) fn view(&self) -> OperandView<'_> {
        let strides = bytemuck::cast_slice(self.layout.strides());
        OperandView { data: self.address, strides, dtype: self.dtype }
    }
    /// This and another operand with the same leading axes, each as a single matrix if the strides of both
    /// allow it.
    pub(crate) fn folded_with(&self, other: &Self) -> (Self, Self) {
        let one_matrix = |operand: &Self| {
            let (columns, leading) = operand.layout.dims().split_last()?;
            let layout = operand.layout.reshape(&[leading.iter().product(), *columns]).ok()?;
            Some(operand.relaid(&layout))
        };
        one_matrix(self).zip(one_matrix(other)).unwrap_or((*self, *other))
    }
    /// This operand with `axis` exchanged for the last one.
    pub(crate) fn along(&self, axis: isize) -> Result<Self, Refused> {
        let layout = self.layout.transpose(axis, -1);
        layout.map(|layout| self.relaid(&layout)).map_err(|_| Refused::Rank(self.layout.rank()))
    }
    /// The same memory under a layout derived from this one; offsets of both count from the same position.
    pub(crate) fn relaid(&self, layout: &Layout) -> Self {
        let moved = layout.offset() as i64 - self.layout.offset() as i64;
        let address = self.address.wrapping_add_signed(moved.wrapping_mul(self.dtype.bytes() as i64));
        Bound::new(address, self.dtype, layout)
    }
}

/// The operands of a call, filled in place: moving them would cost more than filling them.
#[derive(Debug)]
pub(crate) struct Binding<'s> {
    operands: [Option<Bound>; MAX_OPERANDS],
    /// Borrowed to the stream as long as this lives.
    lent: ArrayVec<Access<'s>, MAX_OPERANDS>,
}

/// The operands of a call, by index of their declaration, and the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem<'b> {
    operands: &'b [Option<Bound>; MAX_OPERANDS],
    device: &'b ops_kernels::Device,
    reports: [Report; MAX_INDICES],
}

impl<'s> Binding<'s> {
    pub(crate) const fn new() -> Self {
        Binding { operands: [None; MAX_OPERANDS], lent: ArrayVec::new_const() }
    }

    /// For checking whether there is a kernel: addresses count as aligned.
    pub(crate) fn assumed<'b>(
        &'b mut self,
        on: &dyn Operands,
        device: &'b ops_kernels::Device,
    ) -> Result<Problem<'b>, Reason> {
        for (at, place) in self.operands.iter_mut().enumerate().take(on.count()) {
            *place = None;
            if let Some(operand) = on.operand(at) {
                *place = Some(Bound::of(&operand, kernel_type(&operand)?, 0));
            }
        }
        Ok(Problem { operands: &self.operands, device, reports: Default::default() })
    }

    /// For a launch: the stream may access the memory.
    pub(crate) fn bind<'b, O: Op>(
        &'b mut self,
        args: &'s O::Args<'_, HipSpace>,
        rocm: &'s Rocm,
    ) -> Result<Problem<'b>> {
        O::for_each_operand(args, |place, slot, info| {
            let Some(info) = info else { return Ok(()) };
            let purpose = if slot.role == Role::In { Purpose::Read } else { Purpose::Write };
            let access = info.memory.memory().access(rocm.stream(), purpose)?;
            let address = match access.address() as u64 {
                0 => NO_BYTES,
                address => address.wrapping_add(info.memory.offset() as u64),
            };
            let dtype =
                kernel_type(&info.operand).map_err(|why| crate::error::failed("launching a kernel", why))?;
            self.operands[place] = Some(Bound::of(&info.operand, dtype, address));
            self.lent.push(access);
            Ok::<(), crate::Error>(())
        })?;
        Ok(Problem {
            operands: &self.operands,
            device: rocm.target().launch_device(),
            reports: Default::default(),
        })
    }
}

/// The element type as the kernels' crate names it, or the reason why there is none.
fn kernel_type(operand: &Operand<'_>) -> Result<ElementType, Reason> {
    dtype_of(operand.dtype).ok_or(Reason::DType { operand: operand.name, dtype: operand.dtype })
}

impl Problem<'_> {
    pub(crate) fn device(&self) -> &ops_kernels::Device {
        self.device
    }
    /// Where the kernel reports an index out of range in the first of the operands with indices.
    pub(crate) fn report(&self) -> Report {
        self.reports[0]
    }
    /// Where the kernel reports an index out of range, for each operand with indices.
    pub(crate) fn reports(&self) -> [Report; MAX_INDICES] {
        self.reports
    }
    /// Makes the kernel report to the stream's record, under these numbers.
    pub(crate) fn report_to(&mut self, check: &IndexCheck<'_>, numbers: impl Iterator<Item = u32>) {
        for (report, op) in self.reports.iter_mut().zip(numbers) {
            *report = Report { error: check.address() as u64, op, operand: 0 };
        }
    }
    /// An operand that is always given.
    pub(crate) fn at(&self, place: usize) -> &Bound {
        self.operands[place].as_ref().expect("an operand that the op declares as given")
    }
    /// An optional operand.
    pub(crate) fn get(&self, place: usize) -> Option<&Bound> {
        self.operands.get(place)?.as_ref()
    }
}

/// The element type as the kernels' crate names it.
pub(crate) fn dtype_of(dtype: DType) -> Option<ElementType> {
    Some(match dtype {
        DType::F64 => ElementType::F64,
        DType::F32 => ElementType::F32,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::Bf16,
        DType::F8E4M3 => ElementType::F8E4M3,
        DType::I64 => ElementType::I64,
        DType::I32 => ElementType::I32,
        DType::I16 => ElementType::I16,
        DType::I8 => ElementType::I8,
        DType::U32 => ElementType::U32,
        DType::U8 => ElementType::U8,
        DType::Block(format) => return *BLOCKS.get(format.index()?)?,
        _ => return None,
    })
}

/// The kernels' type of each block format, by the format's index. Names are compared when this crate is compiled. A format without
/// kernels has none.
static BLOCKS: [Option<ElementType>; FORMATS.len()] = {
    let mut table = [None; FORMATS.len()];
    let (mut index, mut found) = (0, 0);
    while index < table.len() {
        let (format, mut at) = (FORMATS[index], 0);
        while at < ElementType::BLOCKS.len() {
            let kernels = ElementType::BLOCKS[at];
            if same(kernels.name().as_bytes(), format.name().as_bytes()) {
                let sizes = kernels.bytes() == format.bytes() && kernels.values() == format.values() as u64;
                assert!(sizes, "a block format has other sizes in kernels/src/element_type.rs");
                (table[index], found) = (Some(kernels), found + 1);
            }
            at += 1;
        }
        index += 1;
    }
    assert!(
        found == ElementType::BLOCKS.len(),
        "kernels/src/element_type.rs names a format that ops-core does not have"
    );
    table
};

/// `a == b`, for constants.
const fn same(a: &[u8], b: &[u8]) -> bool {
    match (a, b) {
        ([a, rest_a @ ..], [b, rest_b @ ..]) => *a == *b && same(rest_a, rest_b),
        _ => a.len() == b.len(),
    }
}
