//! A device for tests: it has its own memory, and can be made to decline calls or to return wrong results.
use rocm_ops::backend::{Call, Execute, NamedTensors, Op, Operands, Space, range};
use rocm_ops::{AnyMut, AnyTensor, Backend, Element, Error, Host, Reason, Reference, Replay, Result};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Memory that the host cannot read: its views have their own types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceMemory;

/// Stored as whole words, so that it is aligned for every type: a tensor may be converted to bytes and back.
pub(crate) struct Buffer<T> {
    words: Vec<u64>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    fn zeroed(len: usize) -> Self {
        Buffer { words: vec![0; (len * size_of::<T>()).div_ceil(8)], len, of: PhantomData }
    }
    fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&bytemuck::cast_slice::<u64, u8>(&self.words)[..self.len * size_of::<T>()])
    }
    fn as_mut_slice(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(
            &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[..self.len * size_of::<T>()],
        )
    }
}
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a, T>(&'a [T]);
pub(crate) struct Exclusive<'a, T>(&'a mut [T]);

impl Space for DeviceMemory {
    type Buffer<T: Element> = Buffer<T>;
    type Ref<'a, T: Element> = Shared<'a, T>;
    type Mut<'a, T: Element> = Exclusive<'a, T>;

    fn len<T: Element>(view: Shared<'_, T>) -> usize {
        view.0.len()
    }
    fn borrow<T: Element>(buffer: &Buffer<T>) -> Shared<'_, T> {
        Shared(buffer.as_slice())
    }
    fn borrow_mut<T: Element>(buffer: &mut Buffer<T>) -> Exclusive<'_, T> {
        Exclusive(buffer.as_mut_slice())
    }
    fn share<'s, T: Element>(view: &'s Exclusive<'_, T>) -> Shared<'s, T> {
        Shared(view.0)
    }
    fn reborrow<'s, T: Element>(view: &'s mut Exclusive<'_, T>) -> Exclusive<'s, T> {
        Exclusive(view.0)
    }
    fn shorten<'s, 'l: 's, T: Element>(view: Shared<'l, T>) -> Shared<'s, T> {
        view
    }
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>) {
        let (low, high) = view.0.split_at_mut(mid);
        (Exclusive(low), Exclusive(high))
    }
    fn bytes<'a, T: Element>(view: Self::Ref<'a, T>) -> Self::Ref<'a, u8> {
        Shared(bytemuck::cast_slice(view.0))
    }
    fn bytes_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Self::Mut<'a, u8> {
        Exclusive(bytemuck::cast_slice_mut(view.0))
    }
    fn typed<'a, T: Element>(bytes: Self::Ref<'a, u8>) -> Option<Self::Ref<'a, T>> {
        bytemuck::try_cast_slice(bytes.0).ok().map(Shared)
    }
    fn typed_mut<'a, T: Element>(bytes: Self::Mut<'a, u8>) -> Option<Self::Mut<'a, T>> {
        bytemuck::try_cast_slice_mut(bytes.0).ok().map(Exclusive)
    }
    fn into_bytes<T: Element>(buffer: Buffer<T>) -> Buffer<u8> {
        Buffer { words: buffer.words, len: buffer.len * size_of::<T>(), of: PhantomData }
    }
    fn aligned(bytes: Self::Ref<'_, u8>, align: usize) -> bool {
        bytes.0.as_ptr().addr().is_multiple_of(align)
    }
}

/// Decides which calls a device declines.
pub(crate) type Rule = fn(&'static str, &dyn Operands) -> Option<Reason>;

/// A copy between host and device: its direction, and the elements of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    Read(Range<usize>),
    Write(Range<usize>),
}

/// Computes like the reference, in its own memory.
#[derive(Clone)]
pub(crate) struct Device {
    rule: Rule,
    wrong: Option<&'static str>,
    transfers: Arc<Mutex<Vec<Transfer>>>,
}

impl Device {
    /// A device that supports every op.
    pub(crate) fn new() -> Self {
        Self::declining(|_, _| None)
    }
    pub(crate) fn declining(rule: Rule) -> Self {
        Device { rule, wrong: None, transfers: Arc::default() }
    }
    /// Supports heads of up to 64 features, and no ops on quantized tensors.
    pub(crate) fn limited() -> Self {
        Self::declining(|op, on| match on.operand(0).map(|x| x.layout.last()) {
            Some(got) if op == "attention" && got > 64 => {
                Some(Reason::Limit { what: "head_dim", got, max: 64 })
            }
            _ if op.starts_with('q') => Some(Reason::Missing),
            _ => None,
        })
    }
    /// Returns zero for the first element of every output of an op.
    pub(crate) fn wrong(self, op: &'static str) -> Self {
        Device { wrong: Some(op), ..self }
    }
    /// The transfers since the last call of this method.
    pub(crate) fn transfers(&self) -> Vec<Transfer> {
        std::mem::take(&mut self.transfers.lock().unwrap())
    }
    fn note(&self, transfer: Transfer) {
        self.transfers.lock().unwrap().push(transfer);
    }
}

impl Replay for Device {
    type Graph = std::convert::Infallible;
}
impl Backend for Device {
    type Space = DeviceMemory;
    type Event = ();

    fn name(&self) -> &'static str {
        "device"
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        Ok(Buffer::zeroed(len))
    }
    fn read<T: Element>(&self, src: Shared<'_, T>, start: usize, dst: &mut [T]) -> Result<()> {
        range("read", start, dst.len(), src.0.len())?;
        self.note(Transfer::Read(start..start + dst.len()));
        dst.copy_from_slice(&src.0[start..][..dst.len()]);
        Ok(())
    }
    fn write<T: Element>(&self, src: &[T], dst: Exclusive<'_, T>, start: usize) -> Result<()> {
        range("write", start, src.len(), dst.0.len())?;
        self.note(Transfer::Write(start..start + src.len()));
        dst.0[start..][..src.len()].copy_from_slice(src);
        Ok(())
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }
    fn mark(&self) -> Result<()> {
        Ok(())
    }
    fn wait(&self, (): &()) -> Result<()> {
        Ok(())
    }
    /// Without a transfer, as on a device that can fill memory.
    fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.alloc(len)
    }
}

impl<O: Op> Execute<O> for Device
where
    Reference: Execute<O>,
{
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        (self.rule)(op.name_on(on), on).map_or(Ok(()), Err)
    }

    fn execute(&self, call: Call<'_, '_, O, DeviceMemory>) -> Result<()> {
        let op = call.op();
        if let Err(reason) = self.support(op, call.operands()) {
            return Err(Error::Unsupported { op: call.name(), backend: self.name(), reason });
        }
        // A device's own work is not a transfer.
        let quiet = Device { transfers: Arc::default(), ..self.clone() };
        let mut computed = NamedTensors::mirror(op, call.args(), &quiet, &Reference::new())?;
        Reference::new().run(op, computed.args(op)?)?;
        let corrupt = self.wrong == Some(call.name());
        computed.outputs(op, call.into_parts().1, |_, y, computed| store(y, computed, corrupt))
    }
}

/// Copies computed elements to the elements of the view, with a wrong first element if `corrupt` is set.
fn store(mut y: AnyMut<'_, DeviceMemory>, computed: &AnyTensor<Host>, corrupt: bool) -> Result<()> {
    let (layout, size) = (*y.layout(), y.dtype().size());
    let values = computed.as_ref().to_vec(&Reference::new())?;
    let memory = y.bytes_mut().0;
    for (n, (at, value)) in layout.positions().zip(values.chunks_exact(size)).enumerate() {
        let element = &mut memory[at * size..][..size];
        if corrupt && n == 0 { element.fill(0) } else { element.copy_from_slice(value) }
    }
    Ok(())
}
