//! Ops as objects: what a suite or a command needs of an op that it knows only by name.
//!
//! An op's type is static, so whatever is generic over it is compiled for every op, element type and backend.
//! This is the only such code of the suite, of replay and of the `ops` command; everything else calls these
//! objects.
use ops_core::ops::registry::{self, AllOps, Options, Visit};
use ops_core::{
    AnyTensor, Backend, DType, Element, Error, Execute, Layout, NamedTensors, Op, Operand, OperandSlot,
    Operands, Reason, Result, Shape, Space, Tolerance,
};

/// An op without its type.
pub trait ErasedOp {
    /// The operands, in order of declaration.
    fn slots(&self) -> &'static [OperandSlot];
    /// The shapes of the outputs by the op's rule. For outputs in `outline`, only the element types matter.
    ///
    /// # Errors
    /// An operand is missing or has the wrong element type, or the inputs break the rule.
    fn infer(&self, outline: &Outline) -> Result<Vec<Shape>>;
    /// How far an output may be from the exact result.
    fn tolerance(&self, output: &'static str, dtype: DType, outline: &Outline) -> Tolerance;
}

/// An op on a backend, without the op's type.
pub trait ErasedCall<B: Backend>: ErasedOp {
    /// Whether the backend would run the op on these operands, which must follow the op's rule.
    ///
    /// # Errors
    /// Why not.
    fn support(&self, backend: &B, outline: &Outline) -> Result<(), Reason>;
    /// Builds arguments from `tensors` and passes the call to `with`, which may make it any number of times.
    ///
    /// # Errors
    /// An operand is missing or has the wrong element type; errors of `with`.
    fn prepare(
        &self,
        backend: &B,
        tensors: &mut NamedTensors<B::Space>,
        with: &mut dyn FnMut(&mut Prepared<'_>) -> Result<()>,
    ) -> Result<()>;
}

/// A call with its arguments.
pub struct Prepared<'p> {
    enqueue: &'p mut dyn FnMut() -> Result<()>,
    wait: &'p dyn Fn() -> Result<()>,
}

impl Prepared<'_> {
    /// Runs the op and waits for the backend.
    ///
    /// # Errors
    /// Errors of the op or the backend.
    pub fn run(&mut self) -> Result<()> {
        self.enqueue()?;
        self.wait()
    }
    /// Calls the op, which may still run afterwards.
    ///
    /// # Errors
    /// Errors of the op.
    pub fn enqueue(&mut self) -> Result<()> {
        (self.enqueue)()
    }
    /// Waits until all calls are done.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn wait(&self) -> Result<()> {
        (self.wait)()
    }
}

/// The object for an op.
pub fn erase<B: Execute<O>, O: Op>(op: O) -> Box<dyn ErasedCall<B>> {
    Box::new(Typed(op))
}

/// The object for the op of this name that runs in `dtype`.
///
/// # Errors
/// As [`registry::by_name`].
pub fn erased<B: AllOps, O: Options>(
    name: &str,
    dtype: DType,
    options: &O,
) -> Result<Box<dyn ErasedCall<B>>, O::Error> {
    registry::by_name(name, dtype, options, Erase)
}

struct Erase;

impl<B: AllOps> Visit<B> for Erase {
    type Answer = Box<dyn ErasedCall<B>>;
    fn visit<O: Op>(self, op: O) -> Self::Answer
    where
        B: Execute<O>,
    {
        erase(op)
    }
}

struct Typed<O>(O);

impl<O: Op> ErasedOp for Typed<O> {
    fn slots(&self) -> &'static [OperandSlot] {
        O::SLOTS
    }
    fn infer(&self, outline: &Outline) -> Result<Vec<Shape>> {
        let mut tensors = outline.tensors()?;
        let args = tensors.args(&self.0)?;
        Ok(self.0.infer(&O::shapes(&args))?.as_ref().to_vec())
    }
    fn tolerance(&self, output: &'static str, dtype: DType, outline: &Outline) -> Tolerance {
        self.0.tolerance(output, dtype, &outline.operands(O::SLOTS))
    }
}

impl<O: Op, B: Execute<O>> ErasedCall<B> for Typed<O> {
    fn support(&self, backend: &B, outline: &Outline) -> Result<(), Reason> {
        backend.support(&self.0, &outline.operands(O::SLOTS))
    }
    fn prepare(
        &self,
        backend: &B,
        tensors: &mut NamedTensors<B::Space>,
        with: &mut dyn FnMut(&mut Prepared<'_>) -> Result<()>,
    ) -> Result<()> {
        let Typed(op) = self;
        let mut args = tensors.args(op)?;
        let mut enqueue = || {
            let reborrowed = O::map(&mut args, |_, lent| Some(lent));
            backend.run(op, reborrowed.ok_or_else(|| lost(op.name(), backend.name()))?)
        };
        with(&mut Prepared { enqueue: &mut enqueue, wait: &|| backend.synchronize() })
    }
}

/// An error here is a bug in the backend's [`Space`]: arguments that were built once can be reborrowed.
#[cold]
fn lost(op: &'static str, backend: &'static str) -> Error {
    Error::Unsupported { op, backend, reason: Reason::Because("its arguments are lost".to_owned()) }
}

/// The operands of a call without memory: names, element types and layouts.
#[derive(Clone, Debug, Default)]
pub struct Outline(Vec<Outlined>);

#[derive(Clone, Debug)]
struct Outlined {
    name: &'static str,
    dtype: DType,
    layout: Layout,
}

impl Outline {
    /// The operands of these tensors.
    pub fn of<S: Space>(tensors: &NamedTensors<S>) -> Self {
        let outlined =
            |(name, x): (_, &AnyTensor<S>)| Outlined { name, dtype: x.dtype(), layout: *x.layout() };
        Outline(tensors.iter().map(outlined).collect())
    }
    /// Adds an operand, replacing one of the same name.
    pub fn set(&mut self, name: &'static str, dtype: DType, layout: Layout) {
        self.0.retain(|known| known.name != name);
        self.0.push(Outlined { name, dtype, layout });
    }
    /// The given operands of an op, as a backend sees them.
    pub fn operands<'o>(&'o self, slots: &'static [OperandSlot]) -> impl Operands + 'o {
        OutlineOperands { slots, outline: self }
    }
    fn get(&self, name: &str) -> Option<&Outlined> {
        self.0.iter().find(|known| known.name == name)
    }
    fn tensors(&self) -> Result<NamedTensors<Unbacked>> {
        let mut tensors = NamedTensors::new();
        for Outlined { name, dtype, layout } in &self.0 {
            let bytes = layout.extent().end.saturating_mul(dtype.size());
            tensors.insert(name, AnyTensor::new(bytes, *dtype, *layout)?);
        }
        Ok(tensors)
    }
}

struct OutlineOperands<'o> {
    slots: &'static [OperandSlot],
    outline: &'o Outline,
}

impl Operands for OutlineOperands<'_> {
    fn count(&self) -> usize {
        self.slots.len()
    }
    fn operand(&self, index: usize) -> Option<Operand<'_>> {
        let OperandSlot { name, role, .. } = self.slots.get(index)?;
        let Outlined { dtype, layout, .. } = self.outline.get(name)?;
        Some(Operand { name, role: *role, dtype: *dtype, layout, packing: None })
    }
}

/// A space without memory. Buffers and views are their number of elements.
#[derive(Clone, Copy, Debug)]
struct Unbacked;

impl Space for Unbacked {
    type Buffer<T: Element> = usize;
    type Ref<'a, T: Element> = usize;
    type Mut<'a, T: Element> = usize;

    fn len<T: Element>(view: usize) -> usize {
        view
    }
    fn borrow<T: Element>(buffer: &usize) -> usize {
        *buffer
    }
    fn borrow_mut<T: Element>(buffer: &mut usize) -> usize {
        *buffer
    }
    fn share<T: Element>(view: &usize) -> usize {
        *view
    }
    fn reborrow<T: Element>(view: &mut usize) -> usize {
        *view
    }
    fn shorten<'s, 'l: 's, T: Element>(view: usize) -> usize {
        view
    }
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>) {
        (mid, view - mid)
    }
    fn bytes<'a, T: Element>(view: Self::Ref<'a, T>) -> Self::Ref<'a, u8> {
        view.saturating_mul(size_of::<T>())
    }
    fn bytes_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Self::Mut<'a, u8> {
        Self::bytes::<T>(view)
    }
    fn typed<'a, T: Element>(bytes: Self::Ref<'a, u8>) -> Option<Self::Ref<'a, T>> {
        bytes.checked_div(size_of::<T>())
    }
    fn typed_mut<'a, T: Element>(bytes: Self::Mut<'a, u8>) -> Option<Self::Mut<'a, T>> {
        Self::typed::<T>(bytes)
    }
    fn into_bytes<T: Element>(buffer: usize) -> usize {
        Self::bytes::<T>(buffer)
    }
    fn aligned(_: usize, _: usize) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::ops::RmsNorm;
    use ops_cpu::Reference;

    fn outline(operands: &[(&'static str, &[usize])]) -> Outline {
        let mut outline = Outline::default();
        for (name, dims) in operands {
            outline.set(name, DType::F32, Layout::contiguous(*dims).unwrap());
        }
        outline
    }

    #[test]
    fn an_outline_needs_no_memory() {
        let norm: Box<dyn ErasedCall<Reference>> = erase(RmsNorm::<f32>::eps(1e-5));
        let huge = outline(&[("y", &[1 << 40, 8]), ("weight", &[8]), ("x", &[1 << 40, 8])]);
        assert_eq!(norm.infer(&huge).unwrap()[0].dims(), [1 << 40, 8]);
        assert!(norm.support(&Reference, &huge).is_ok());
        let operands = huge.operands(norm.slots());
        let names: Vec<_> = (&operands as &dyn Operands).iter().map(|o| o.name).collect();
        assert_eq!(names, ["x", "weight", "y"], "in order of declaration");
    }

    #[test]
    fn wrong_operands_are_errors() {
        let norm: Box<dyn ErasedCall<Reference>> = erase(RmsNorm::<f32>::eps(1e-5));
        let missing = norm.infer(&outline(&[("x", &[2, 8]), ("y", &[])])).unwrap_err();
        assert!(missing.to_string().contains("weight"), "{missing}");
        assert!(norm.infer(&outline(&[("x", &[2, 8]), ("weight", &[7]), ("y", &[])])).is_err());
    }

    #[test]
    fn a_call_runs_any_number_of_times() {
        let norm: Box<dyn ErasedCall<Reference>> = erase(RmsNorm::<f32>::eps(0.0));
        let mut tensors = NamedTensors::new()
            .with("x", Reference.tensor(&[1, 2], &[3.0f32, -3.0]).unwrap())
            .with("weight", Reference.tensor(&[2], &[1.0f32, 2.0]).unwrap())
            .with("y", Reference.zeros::<f32>(&[1, 2]).unwrap());
        norm.prepare(&Reference, &mut tensors, &mut |call| call.run().and_then(|()| call.run())).unwrap();
        let y = tensors["y"].as_ref().to_vec(&Reference).unwrap();
        assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&y), [1.0, -2.0]);
    }
}
