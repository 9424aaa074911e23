//! Owned tensors of a call, by name.
use crate::backend::host_vec;
use crate::{
    AnyMut, AnyTensor, Backend, Borrowed, DType, Error, Layout, Op, OperandInfo, OperandSlot, Result, Role,
    Space,
};
use core::ops::{Index, IndexMut};

/// Tensors by the names of an op's operands. Suites, commands and combinators collect them before they make a
/// call.
///
/// ```
/// # use rocm_ops::{Backend, Result, ops::RmsNorm};
/// # use rocm_ops::backend::{Execute, NamedTensors};
/// fn norm<B: Execute<RmsNorm<f32>>>(b: &B) -> Result<Vec<f32>> {
///     let mut tensors = NamedTensors::new()
///         .with("x", b.tensor(&[2, 4], &[1.0f32; 8])?)
///         .with("weight", b.tensor(&[4], &[0.5f32; 4])?)
///         .with("y", b.zeros::<f32>(&[2, 4])?);
///     let op = RmsNorm::eps(1e-5);
///     b.run(&op, tensors.args(&op)?)?;
///     tensors["y"].as_ref().typed().expect("f32, as given").to_vec(b)
/// }
/// ```
#[derive(Debug)]
pub struct NamedTensors<S: Space>(Vec<(&'static str, AnyTensor<S>)>);

impl<S: Space> Default for NamedTensors<S> {
    fn default() -> Self {
        NamedTensors(Vec::new())
    }
}

impl<S: Space> NamedTensors<S> {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a tensor, replacing any with the same name.
    pub fn with(mut self, name: &'static str, tensor: impl Into<AnyTensor<S>>) -> Self {
        self.insert(name, tensor);
        self
    }
    /// Adds a tensor, replacing any with the same name.
    pub fn insert(&mut self, name: &'static str, tensor: impl Into<AnyTensor<S>>) {
        self.remove(name);
        self.0.push((name, tensor.into()));
    }
    /// The tensor with this name.
    pub fn get(&self, name: &str) -> Option<&AnyTensor<S>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, tensor)| tensor)
    }
    /// The tensor with this name, for writing.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut AnyTensor<S>> {
        self.0.iter_mut().find(|(known, _)| *known == name).map(|(_, tensor)| tensor)
    }
    /// Removes the tensor with this name and returns it.
    pub fn remove(&mut self, name: &str) -> Option<AnyTensor<S>> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.remove(at).1)
    }
    /// All tensors with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &AnyTensor<S>)> {
        self.0.iter().map(|(name, tensor)| (*name, tensor))
    }

    /// Borrows the tensors as the arguments of a call.
    ///
    /// # Errors
    /// [`Error::Operand`] if an operand is missing or of another type, or if a tensor's name is not that of an operand.
    pub fn args<O: Op>(&mut self, op: &O) -> Result<O::Args<'_, S>> {
        let mut lender = Lender::new(op.name(), O::SLOTS, self)?;
        O::build(&mut |slot| lender.lend(slot)).map_err(|slot| lender.refused(slot))
    }

    /// Copies a call's operands to `to`'s memory, with the same strides. Operands that are only written get memory but no copy.
    ///
    /// # Errors
    /// A failed transfer or allocation.
    pub fn mirror<O: Op, P: Backend, Q: Backend<Space = S>>(
        _: &O,
        args: &O::Args<'_, P::Space>,
        from: &P,
        to: &Q,
    ) -> Result<Self> {
        let mut copies = NamedTensors::new();
        O::for_each_operand(args, |_, slot, info| -> Result<()> {
            if let Some(info) = info {
                copies.0.push((slot.name, mirrored(slot, info, from, to)?));
            }
            Ok(())
        })?;
        Ok(copies)
    }

    /// Calls `each` with every operand of `args` that is written and the tensor of the same name. Stops at the first error.
    ///
    /// # Errors
    /// The error of `each`.
    pub fn outputs<O: Op, P: Space>(
        &self,
        _: &O,
        args: &mut O::Args<'_, P>,
        mut each: impl FnMut(&'static OperandSlot, AnyMut<'_, P>, &AnyTensor<S>) -> Result<()>,
    ) -> Result<()> {
        let mut result = Ok(());
        let shown = O::map::<P, P>(args, |slot, lent| {
            if let (Ok(()), Borrowed::Write(y), Some(tensor)) = (&result, lent, self.get(slot.name)) {
                result = each(slot, y, tensor);
            }
            None
        });
        drop(shown);
        result
    }
}

/// Lends out the tensors of a call, each once. Not generic over the op, so that it is compiled once per space.
struct Lender<'t, S: Space> {
    op: &'static str,
    types: Vec<(&'static str, DType)>,
    left: Vec<Option<&'t mut (&'static str, AnyTensor<S>)>>,
}

impl<'t, S: Space> Lender<'t, S> {
    fn new(op: &'static str, slots: &[OperandSlot], tensors: &'t mut NamedTensors<S>) -> Result<Self> {
        let unknown = |name: &str| slots.iter().all(|slot| slot.name != name);
        if let Some((name, _)) = tensors.0.iter().find(|(name, _)| unknown(name)) {
            let known: Vec<_> = slots.iter().map(|slot| slot.name).collect();
            let (got, want) =
                ("not an operand of this op".to_owned(), format!("one of {}", known.join(", ")));
            return Err(Error::Operand { op, operand: name, got, want });
        }
        let types = tensors.0.iter().map(|(name, tensor)| (*name, tensor.dtype())).collect();
        Ok(Lender { op, types, left: tensors.0.iter_mut().map(Some).collect() })
    }

    fn lend(&mut self, slot: &'static OperandSlot) -> Option<Borrowed<'t, S>> {
        let of_slot = |entry: &&mut Option<&mut (&'static str, AnyTensor<S>)>| {
            entry.as_ref().is_some_and(|(name, _)| *name == slot.name)
        };
        let (_, tensor) = self.left.iter_mut().find(of_slot)?.take()?;
        Some(if slot.role == Role::In {
            Borrowed::Read(tensor.as_ref())
        } else {
            Borrowed::Write(tensor.as_mut()?)
        })
    }

    /// The error for an operand that is missing or has the wrong type.
    fn refused(&self, slot: &OperandSlot) -> Error {
        let given = self.types.iter().find(|(name, _)| *name == slot.name);
        let got = given.map_or_else(|| "missing".to_owned(), |(_, dtype)| format!("of {dtype}"));
        let want = slot.dtype.map_or_else(|| "a tensor".to_owned(), |dtype| format!("a tensor of {dtype}"));
        Error::Operand { op: self.op, operand: slot.name, got, want }
    }
}

impl<S: Space> Index<&str> for NamedTensors<S> {
    type Output = AnyTensor<S>;
    /// # Panics
    /// Panics if there is no tensor with this name; see [`get`](NamedTensors::get).
    fn index(&self, name: &str) -> &AnyTensor<S> {
        self.get(name).unwrap_or_else(|| panic!("there is no tensor named `{name}`"))
    }
}
impl<S: Space> IndexMut<&str> for NamedTensors<S> {
    fn index_mut(&mut self, name: &str) -> &mut AnyTensor<S> {
        self.get_mut(name).unwrap_or_else(|| panic!("there is no tensor named `{name}`"))
    }
}

/// Copies an operand to `to`'s memory. For an output with gaps, the gaps are copied too: [`write_back`] copies the whole extent.
#[inline(never)]
fn mirrored<P: Backend, Q: Backend>(
    slot: &OperandSlot,
    info: OperandInfo<'_, P::Space>,
    from: &P,
    to: &Q,
) -> Result<AnyTensor<Q::Space>> {
    let (dtype, layout) = (info.operand.dtype, info.operand.layout);
    let gapless = layout.extent().len() == layout.len();
    let buffer = if slot.role == Role::Out && gapless {
        to.alloc(layout.len() * dtype.size())?
    } else {
        to.upload(&contents(info, from)?)?
    };
    AnyTensor::new(buffer, dtype, moved(layout))
}

/// The bytes of an operand's memory from its first element to its last; of a packed operand, the elements in row-major order.
///
/// # Errors
/// A failed transfer or allocation.
#[inline(never)]
pub(crate) fn contents<B: Backend>(info: OperandInfo<'_, B::Space>, backend: &B) -> Result<Vec<u8>> {
    let (dtype, layout) = (info.operand.dtype, info.operand.layout);
    let (extent, size) = (layout.extent(), dtype.size());
    let Some(packing) = info.operand.packing else {
        return backend.read_vec(info.memory, extent.start * size, extent.len() * size);
    };
    let packed = backend.read_vec(info.memory, 0, <B::Space as Space>::len(info.memory))?;
    let mut plain = host_vec(layout.len().saturating_mul(size))?;
    packing.unpack(dtype, layout.dims(), &packed, &mut plain)?;
    Ok(plain)
}

/// The layout relative to memory that starts at the view's lowest element.
pub(crate) fn moved(layout: &Layout) -> Layout {
    layout.rebase(layout.extent().start)
}

/// Copies a mirrored output back over the extent that it was copied from.
///
/// # Errors
/// A failed transfer.
#[inline(never)]
pub(crate) fn write_back<P: Backend, Q: Backend>(
    mirrored: &AnyTensor<Q::Space>,
    mut y: AnyMut<'_, P::Space>,
    from: &Q,
    to: &P,
) -> Result<()> {
    let (extent, size) = (y.layout().extent(), y.dtype().size());
    let host = from.read_vec(mirrored.as_ref().bytes(), 0, extent.len() * size)?;
    to.write(&host, y.bytes_mut(), extent.start * size)
}
