//! How to add a backend with its own memory: `cargo run --example third_backend`.
//!
//! The backend has kernels for two ops in f32, and a fallback supplies the rest. A transformer that needs fifty ops runs on it
//! and reports which ops ran elsewhere and why.
use core::marker::PhantomData;
use ops_command::stdout;
use rocm_ops::backend::{Call, Execute, Op, Operands, Space, range};
use rocm_ops::model::Transformer;
use rocm_ops::{Backend, Cpu, DType, Element, Error, Fallback, Reason, Reference, Replay, Result, ops::*};

// Step 1: where the bytes live. A real device has a pointer and a length here.
/// Memory for elements. It consists of whole words, so it is aligned for every type; tensors may be converted
/// to bytes and back.
struct Words<T> {
    words: Vec<u64>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Element> Words<T> {
    fn zeroed(len: usize) -> Result<Self> {
        let bytes = len.saturating_mul(size_of::<T>());
        let mut words = Vec::new();
        let full = |_| Error::OutOfMemory { backend: "toy", bytes, detail: String::new() };
        words.try_reserve_exact(bytes.div_ceil(8)).map_err(full)?;
        words.resize(bytes.div_ceil(8), 0);
        Ok(Words { words, len, of: PhantomData })
    }
    fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&bytemuck::cast_slice::<u64, u8>(&self.words)[..self.len * size_of::<T>()])
    }
    fn as_mut_slice(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(
            &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[..self.len * size_of::<T>()],
        )
    }
    fn into_bytes(self) -> Words<u8> {
        Words { words: self.words, len: self.len * size_of::<T>(), of: PhantomData }
    }
}

#[derive(Clone, Copy, Debug)]
struct ToyMemory;

impl Space for ToyMemory {
    type Buffer<T: Element> = Words<T>;
    type Ref<'a, T: Element> = &'a [T];
    type Mut<'a, T: Element> = &'a mut [T];

    fn len<T: Element>(view: &[T]) -> usize {
        view.len()
    }
    fn borrow<T: Element>(buffer: &Words<T>) -> &[T] {
        buffer.as_slice()
    }
    fn borrow_mut<T: Element>(buffer: &mut Words<T>) -> &mut [T] {
        buffer.as_mut_slice()
    }
    fn share<'s, T: Element>(view: &'s &mut [T]) -> &'s [T] {
        view
    }
    fn reborrow<'s, T: Element>(view: &'s mut &mut [T]) -> &'s mut [T] {
        view
    }
    fn shorten<'s, 'l: 's, T: Element>(view: &'l [T]) -> &'s [T] {
        view
    }
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>) {
        view.split_at_mut(mid)
    }
    fn bytes<'a, T: Element>(view: Self::Ref<'a, T>) -> Self::Ref<'a, u8> {
        bytemuck::cast_slice(view)
    }
    fn bytes_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Self::Mut<'a, u8> {
        bytemuck::cast_slice_mut(view)
    }
    fn typed<'a, T: Element>(bytes: Self::Ref<'a, u8>) -> Option<Self::Ref<'a, T>> {
        bytemuck::try_cast_slice(bytes).ok()
    }
    fn typed_mut<'a, T: Element>(bytes: Self::Mut<'a, u8>) -> Option<Self::Mut<'a, T>> {
        bytemuck::try_cast_slice_mut(bytes).ok()
    }
    fn into_bytes<T: Element>(buffer: Words<T>) -> Words<u8> {
        buffer.into_bytes()
    }
    fn aligned(bytes: Self::Ref<'_, u8>, align: usize) -> bool {
        bytes.as_ptr().addr().is_multiple_of(align)
    }
}

// Step 2: the handle to a queue. This one is synchronous, so there is nothing to wait for.
#[derive(Clone, Debug)]
struct Toy;

/// Recording is optional: without a graph, the provided methods refuse.
impl Replay for Toy {
    type Graph = core::convert::Infallible;
}

impl Backend for Toy {
    type Space = ToyMemory;
    type Event = ();

    fn name(&self) -> &'static str {
        "toy"
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<Words<T>> {
        Words::zeroed(len)
    }
    fn read<T: Element>(&self, src: &[T], start: usize, dst: &mut [T]) -> Result<()> {
        range("read", start, dst.len(), src.len())?;
        dst.copy_from_slice(&src[start..][..dst.len()]);
        Ok(())
    }
    fn write<T: Element>(&self, src: &[T], dst: &mut [T], start: usize) -> Result<()> {
        range("write", start, src.len(), dst.len())?;
        dst[start..][..src.len()].copy_from_slice(src);
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
}

// Step 3: a kernel for each supported op. Shapes are checked before `execute` is called.
impl Execute<RmsNorm<f32>> for Toy {
    fn support(&self, _: &RmsNorm<f32>, on: &dyn Operands) -> Result<(), Reason> {
        // The op accepts weights of any float type, but this kernel supports only f32.
        on.require_dtype("weight", DType::F32)?;
        on.require_rows_contiguous()
    }
    fn execute(&self, call: Call<'_, '_, RmsNorm<f32>, ToyMemory>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (n, y_layout) = (a.x.layout().last(), *a.y.layout());
        let weight = a.weight.typed::<f32>().ok_or_else(|| Error::Unsupported {
            op: op.name(),
            backend: self.name(),
            reason: Reason::DType { operand: "weight", dtype: a.weight.dtype() },
        })?;
        let w0 = weight.layout().offset();
        let (x, weight, y) = (a.x.data(), weight.data(), a.y.data_mut());
        for (from, to) in a.x.layout().rows().zip(y_layout.rows()) {
            let row = &x[from..from + n];
            let scale = (row.iter().map(|v| v * v).sum::<f32>() / n as f32 + op.eps as f32).sqrt().recip();
            for (i, v) in row.iter().enumerate() {
                y[to + i] = v * scale * weight[w0 + i];
            }
        }
        Ok(())
    }
}

impl Execute<Binary<f32>> for Toy {
    fn support(&self, op: &Binary<f32>, _: &dyn Operands) -> Result<(), Reason> {
        match op.function() {
            BinaryFn::Add => Ok(()),
            other => Err(Reason::Because(format!("the toy can only add, not {}", other.name()))),
        }
    }
    fn execute(&self, call: Call<'_, '_, Binary<f32>, ToyMemory>) -> Result<()> {
        let (_, args) = call.into_parts();
        let (la, lb, ly) = (*args.a.layout(), *args.b.layout(), *args.y.layout());
        let (a, b, y) = (args.a.data(), args.b.data(), args.y.data_mut());
        for ((p, q), r) in la.positions().zip(lb.positions()).zip(ly.positions()) {
            y[r] = a[p] + b[q];
        }
        Ok(())
    }
}

// Step 4: the ops that it leaves to a fallback.
rocm_ops::backend::unsupported!(Toy: LayerNorm<f32>, AddRmsNorm<f32>, GroupNorm<f32>, Rope<f32>, RopeInplace<f32>,
    Softmax<f32>, Attention<f32>, AttentionVarlen<f32>, AttentionPaged<f32>, Unary<f32>, Glu<f32>, Reduce<f32>, ArgReduce<f32>, Affine<f32>, AffineInplace<f32>, MatMul<f32>, Linear<f32>,
    RouterTopK<f32>, LinearExperts<f32>, LinearExpertsSwiglu<f32>, LinearExpertsCombine<f32>, CombineExperts<f32>, SwigluClamped<f32>, L2Norm<f32>, GatedRmsNorm<f32>,
    LinearSwiglu<f32>, LinearAdd<f32>, RmsNormLinear<f32>, RmsNormLinearSwiglu<f32>, QkNormRope<f32>, CacheWrite<f32>,
    RopeCacheWrite<f32>, QkNormRopeCacheWrite<f32>, RopeQkCacheWrite<f32>, RmsNormLinearRopeCacheWrite<f32>,
    Sample<f32>, Conv1dUpdate<f32>, GatedDeltaRule<f32>, IndexSelect, Embedding<f32>, Cast<f32>, TensorCopy, Fill<f32>,
    Sort<f32>, ArgSort<f32>, TopK<f32>);

/// A function that works on any backend.
fn block<B: Transformer<f32>>(b: &B) -> Result<Vec<f32>> {
    let x = b.tensor(&[2, 4], &[1.0, -2.0, 3.0, -4.0, 0.5, 0.25, -0.125, 2.0])?;
    let weight = b.tensor(&[4], &[1.0f32; 4])?;
    let h = b.rms_norm(x.as_ref(), weight.as_ref(), 1e-5)?;
    let h = b.silu(h.as_ref())?;
    b.add(x.as_ref(), h.as_ref())?.as_ref().to_vec(b)
}

// Step 5: compose and check.
fn main() -> Result<()> {
    let toy = Fallback::new(Toy, Cpu::new());
    let got = block(&toy)?;
    for event in toy.events() {
        writeln!(stdout(), "{} ran on {} ({} times): {}", event.op, event.on, event.count, event.reason);
    }
    block(&rocm_ops::Checked::new(toy, Reference::new()))?;
    writeln!(stdout(), "every op agrees with the reference: {got:?}");
    Ok(())
}
