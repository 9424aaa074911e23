//! Operands: what a declaration says of one, what a call shows of one, and one without its type.
use crate::{
    AnyMut, AnyRef, DType, Element, Error, Layout, Packing, Reason, Result, Space, TensorMut, TensorRef, View,
};

/// How an op uses an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Read.
    In,
    /// Written.
    Out,
    /// Read and written.
    InOut,
}

/// One tensor of a call, seen without its type.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The name in the op's contract.
    pub name: &'static str,
    /// Whether it is read or written.
    pub role: Role,
    /// The element type.
    pub dtype: DType,
    /// Where the elements lie.
    pub layout: &'a Layout,
    /// The order of the elements, if it is a backend's own.
    pub packing: Option<&'static Packing>,
}

impl Operand<'_> {
    /// The extents, counted in elements.
    pub fn dims(&self) -> &[usize] {
        self.layout.dims()
    }
    /// The last extent counted in values, of which a block has many.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn last_values(&self) -> Result<usize> {
        let values = self.layout.last().checked_mul(self.dtype.values());
        values.ok_or_else(|| Error::TooLarge { dims: self.dims().into() })
    }
    /// The rule "an element type that `allowed` allows", which `want` says in words.
    ///
    /// # Errors
    /// [`Error::DType`].
    #[inline]
    pub fn require(&self, op: &'static str, allowed: fn(DType) -> bool, want: &'static str) -> Result<()> {
        if allowed(self.dtype) {
            return Ok(());
        }
        Err(Error::DType { op, operand: self.name, got: self.dtype, want })
    }
}

// What the code of `operands!` calls.
#[doc(hidden)]
impl<S: Space, T: Element> TensorRef<'_, S, T> {
    #[inline(always)]
    pub fn seen(&self, name: &'static str, role: Role) -> Seen<'_, S> {
        let (dtype, layout) = (DType::of::<T>(), View::layout(self));
        Seen {
            operand: Operand { name, role, dtype, layout, packing: None },
            memory: S::bytes(S::shorten(self.data())),
        }
    }
}
#[doc(hidden)]
impl<S: Space, T: Element> TensorMut<'_, S, T> {
    #[inline(always)]
    pub fn seen(&self, name: &'static str, role: Role) -> Seen<'_, S> {
        let (dtype, layout) = (DType::of::<T>(), View::layout(self));
        Seen { operand: Operand { name, role, dtype, layout, packing: None }, memory: S::bytes(self.data()) }
    }
}
#[doc(hidden)]
impl<S: Space> AnyRef<'_, S> {
    #[inline(always)]
    pub fn seen(&self, name: &'static str, role: Role) -> Seen<'_, S> {
        let (dtype, layout, packing) = (self.dtype(), View::layout(self), self.packing());
        Seen { operand: Operand { name, role, dtype, layout, packing }, memory: S::shorten(self.bytes()) }
    }
    /// As an operand that is read.
    #[inline(always)]
    pub fn operand(&self, name: &'static str) -> Operand<'_> {
        self.seen(name, Role::In).operand
    }
}
#[doc(hidden)]
impl<S: Space> AnyMut<'_, S> {
    #[inline(always)]
    pub fn seen(&self, name: &'static str, role: Role) -> Seen<'_, S> {
        let (dtype, layout) = (self.dtype(), View::layout(self));
        Seen { operand: Operand { name, role, dtype, layout, packing: None }, memory: self.bytes() }
    }
}

/// The tensors of one call, seen without their types: enough to choose a kernel, nothing copied.
pub trait Operands {
    /// Number of declared operands, given or not.
    fn count(&self) -> usize;
    /// `None` for an optional operand that was not given.
    fn operand(&self, index: usize) -> Option<Operand<'_>>;
}

impl<'o> dyn Operands + 'o {
    /// Those that were given, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = Operand<'_>> {
        (0..self.count()).filter_map(|i| self.operand(i))
    }
    /// By name.
    pub fn get(&self, name: &str) -> Option<Operand<'_>> {
        self.iter().find(|o| o.name == name)
    }
    /// The usual refusal of a kernel for one type: the operand is given and of another.
    ///
    /// # Errors
    /// [`Reason::DType`].
    pub fn require_dtype(&self, operand: &'static str, dtype: DType) -> Result<(), Reason> {
        match self.get(operand) {
            Some(given) if given.dtype != dtype => Err(Reason::DType { operand, dtype: given.dtype }),
            _ => Ok(()),
        }
    }
    /// The usual refusal of a backend that has no orders of its own: some operand is packed.
    ///
    /// # Errors
    /// [`Reason::Packed`] with the first such operand.
    pub fn require_plain(&self) -> Result<(), Reason> {
        self.iter().try_for_each(|operand| match operand.packing {
            Some(packing) => Err(packing.declined(&operand)),
            None => Ok(()),
        })
    }
    /// The usual refusal: some operand is strided inside its rows.
    ///
    /// # Errors
    /// [`Reason::Stride`] with the first such operand.
    pub fn require_rows_contiguous(&self) -> Result<(), Reason> {
        match self.iter().find(|o| !o.layout.is_last_contiguous()) {
            Some(o) => Err(Reason::Stride(o.name)),
            None => Ok(()),
        }
    }
}

/// The same operands, as another backend would get them: not packed.
pub(crate) struct Unpacked<'o>(pub(crate) &'o dyn Operands);
impl Operands for Unpacked<'_> {
    fn count(&self) -> usize {
        self.0.count()
    }
    fn operand(&self, index: usize) -> Option<Operand<'_>> {
        self.0.operand(index).map(|operand| Operand { packing: None, ..operand })
    }
}

/// An operand in an op's declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The name in the op's contract.
    pub name: &'static str,
    /// Whether it is read or written.
    pub role: Role,
    /// Whether a call may go without it.
    pub optional: bool,
    /// The element type; `None` where it is a value, which the op's rule checks.
    pub dtype: Option<DType>,
}

/// An operand with its memory, to look at.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'s, S: Space> {
    /// Everything but the memory.
    pub operand: Operand<'s>,
    /// The memory that its layout refers to, as bytes.
    pub memory: S::Ref<'s, u8>,
}

/// An argument without its type, taken out of a call or to be put into one.
#[derive(Debug)]
pub enum Lent<'a, S: Space> {
    /// An operand that is read.
    Read(AnyRef<'a, S>),
    /// An operand that is written, or read and written.
    Write(AnyMut<'a, S>),
}
impl<'a, S: Space> Lent<'a, S> {
    /// The view, if it is one for reading.
    #[inline]
    pub fn read(self) -> Option<AnyRef<'a, S>> {
        if let Lent::Read(x) = self { Some(x) } else { None }
    }
    /// The view, if it is one for writing.
    #[inline]
    pub fn write(self) -> Option<AnyMut<'a, S>> {
        if let Lent::Write(x) = self { Some(x) } else { None }
    }
}
