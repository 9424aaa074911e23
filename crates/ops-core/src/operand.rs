//! Operands: their declarations, and how a call presents them.
use crate::ops::registry::Group;
use crate::{
    AnyMut, AnyRef, DType, Element, Error, Layout, Packing, Reason, Result, Space, TensorMut, TensorRef,
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

/// One tensor of a call, without its type.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The name in the op's contract.
    pub name: &'static str,
    /// Whether it is read or written.
    pub role: Role,
    /// The element type.
    pub dtype: DType,
    /// Where the elements are.
    pub layout: &'a Layout,
    /// The packing of the elements, if they are packed.
    pub packing: Option<&'static Packing>,
}

impl Operand<'_> {
    /// The extents, counted in elements.
    pub fn dims(&self) -> &[usize] {
        self.layout.dims()
    }
    /// The last extent counted in values: a block holds several.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn last_values(&self) -> Result<usize> {
        let values = self.layout.last().checked_mul(self.dtype.values());
        values.ok_or_else(|| Error::TooLarge { dims: self.dims().into() })
    }
    /// Checks that `allowed` accepts the element type. `want` says in words which types it accepts.
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

impl Packing {
    /// The reason that a backend returns if it cannot read this packing.
    pub fn declined(&self, operand: &Operand<'_>) -> Reason {
        Reason::Packed { operand: operand.name, packing: self.name() }
    }
}

// Called by the code that `operands!` generates.
#[doc(hidden)]
impl<S: Space, T: Element> TensorRef<'_, S, T> {
    #[inline(always)]
    pub fn info(&self, name: &'static str, role: Role) -> OperandInfo<'_, S> {
        let (dtype, layout) = (DType::of::<T>(), self.layout());
        OperandInfo {
            operand: Operand { name, role, dtype, layout, packing: None },
            memory: S::bytes(S::shorten(self.data())),
        }
    }
}
#[doc(hidden)]
impl<S: Space, T: Element> TensorMut<'_, S, T> {
    #[inline(always)]
    pub fn info(&self, name: &'static str, role: Role) -> OperandInfo<'_, S> {
        let (dtype, layout) = (DType::of::<T>(), self.layout());
        OperandInfo {
            operand: Operand { name, role, dtype, layout, packing: None },
            memory: S::bytes(self.data()),
        }
    }
}
#[doc(hidden)]
impl<S: Space> AnyRef<'_, S> {
    #[inline(always)]
    pub fn info(&self, name: &'static str, role: Role) -> OperandInfo<'_, S> {
        let (dtype, layout, packing) = (self.dtype(), self.layout(), self.packing());
        OperandInfo {
            operand: Operand { name, role, dtype, layout, packing },
            memory: S::shorten(self.bytes()),
        }
    }
    /// The view as an operand that is read.
    #[inline(always)]
    pub fn operand(&self, name: &'static str) -> Operand<'_> {
        self.info(name, Role::In).operand
    }
}
#[doc(hidden)]
impl<S: Space> AnyMut<'_, S> {
    #[inline(always)]
    pub fn info(&self, name: &'static str, role: Role) -> OperandInfo<'_, S> {
        let (dtype, layout) = (self.dtype(), self.layout());
        OperandInfo { operand: Operand { name, role, dtype, layout, packing: None }, memory: self.bytes() }
    }
}

/// The tensors of one call, without their types. This is enough to choose a kernel, and nothing is copied.
pub trait Operands {
    /// Number of declared operands, given or not.
    fn count(&self) -> usize;
    /// `None` for an optional operand that was not given.
    fn operand(&self, index: usize) -> Option<Operand<'_>>;
}

impl<'o> dyn Operands + 'o {
    /// The given operands, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = Operand<'_>> {
        (0..self.count()).filter_map(|i| self.operand(i))
    }
    /// Finds an operand by name.
    pub fn get(&self, name: &str) -> Option<Operand<'_>> {
        self.iter().find(|o| o.name == name)
    }
    /// Checks that the operand, if given, has type `dtype`. For kernels of one type.
    ///
    /// # Errors
    /// [`Reason::DType`].
    pub fn require_dtype(&self, operand: &'static str, dtype: DType) -> Result<(), Reason> {
        match self.get(operand) {
            Some(given) if given.dtype != dtype => Err(Reason::DType { operand, dtype: given.dtype }),
            _ => Ok(()),
        }
    }
    /// Checks that no operand is packed. For backends without packings of their own.
    ///
    /// # Errors
    /// [`Reason::Packed`] with the first such operand.
    pub fn require_plain(&self) -> Result<(), Reason> {
        self.iter().try_for_each(|operand| match operand.packing {
            Some(packing) => Err(packing.declined(&operand)),
            None => Ok(()),
        })
    }
    /// Checks that every operand is contiguous inside its rows.
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

/// The same operands as another backend would get them: not packed.
pub(crate) struct Unpacked<'o>(pub(crate) &'o dyn Operands);
impl Operands for Unpacked<'_> {
    fn count(&self) -> usize {
        self.0.count()
    }
    fn operand(&self, index: usize) -> Option<Operand<'_>> {
        self.0.operand(index).map(|operand| Operand { packing: None, ..operand })
    }
}

/// The declaration of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandSlot {
    /// The name in the op's contract.
    pub name: &'static str,
    /// Whether it is read or written.
    pub role: Role,
    /// Whether a call may omit it.
    pub optional: bool,
    /// The element type; `None` if any type may be given, which the op's shape rule then checks.
    pub dtype: Option<DType>,
    /// The element types that may be given for `any`, if the declaration says so.
    pub types: Option<Group>,
    /// The extents as declared, such as `.., n`; `None` if the declaration has none.
    pub extents: Option<&'static str>,
}

/// An operand with its memory, for reading.
#[derive(Clone, Copy, Debug)]
pub struct OperandInfo<'s, S: Space> {
    /// Everything but the memory.
    pub operand: Operand<'s>,
    /// The memory that its layout refers to, as bytes.
    pub memory: S::Ref<'s, u8>,
}

/// An argument without its type, taken from a call or to be passed to one.
#[derive(Debug)]
pub enum Borrowed<'a, S: Space> {
    /// An operand that is read.
    Read(AnyRef<'a, S>),
    /// An operand that is written, or read and written.
    Write(AnyMut<'a, S>),
}
impl<'a, S: Space> Borrowed<'a, S> {
    /// The view, if it is for reading.
    #[inline]
    pub fn read(self) -> Option<AnyRef<'a, S>> {
        if let Borrowed::Read(x) = self { Some(x) } else { None }
    }
    /// The view, if it is for writing.
    #[inline]
    pub fn write(self) -> Option<AnyMut<'a, S>> {
        if let Borrowed::Write(x) = self { Some(x) } else { None }
    }
}
