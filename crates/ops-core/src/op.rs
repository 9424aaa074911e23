//! Ops, their arguments, and what joins them to backends.
use crate::{
    AnyRef, Backend, Contains, DType, Element, Error, Layout, Reason, Result, Shape, Space, Tensor,
    TensorMut, Tolerance, View,
};
use core::fmt::Debug;

/// The operands of an op: what [`operands!`](crate::operands) writes for it.
///
/// Implemented by that macro only; its functions are the plumbing that combinators use.
pub trait Signature {
    /// The tensors of one call.
    type Args<'a, S: Space>: Operands;
    /// The layouts of everything that is read, for the shape rule.
    type Shapes<'a>;
    /// Tensors of its own for every operand: a copy of a call's arguments in another space.
    type Owned<S: Space>;
    /// One [`Shape`] for each `out` operand.
    type Outputs: AsRef<[Shape]>;

    /// The layouts of everything that is read.
    fn shapes<'s, S: Space>(args: &'s Self::Args<'_, S>) -> Self::Shapes<'s>;
    /// Every view lies in its memory, and every output has its shape and does not overlap itself.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::OutOfBounds`], [`Error::Overlap`].
    fn check_views<S: Space>(
        op: &'static str,
        args: &Self::Args<'_, S>,
        outputs: &Self::Outputs,
    ) -> Result<()>;
    /// Shows every operand that was given, in order: its place in the declaration, its use, and its memory without the type.
    fn views<'s, S: Space>(args: &'s Self::Args<'_, S>, see: &mut dyn FnMut(usize, Role, AnyRef<'s, S>));
    /// The same arguments for a shorter time.
    fn reborrow<'s, S: Space>(args: &'s mut Self::Args<'_, S>) -> Self::Args<'s, S>;
    /// The arguments as living in `A`, if every tensor does.
    fn side<'s, S: Contains<A, Side>, A: Space, Side>(
        args: &'s mut Self::Args<'_, S>,
    ) -> Option<Self::Args<'s, A>>;
    /// Copies everything that is read into `to`'s space; outputs get memory of the same layout.
    ///
    /// # Errors
    /// A transfer or an allocation fails.
    fn mirror<P: Backend, Q: Backend>(
        args: &Self::Args<'_, P::Space>,
        from: &P,
        to: &Q,
    ) -> Result<Self::Owned<Q::Space>>;
    /// Owned tensors as arguments.
    fn lend<S: Space>(owned: &mut Self::Owned<S>) -> Self::Args<'_, S>;
    /// Shows `visitor` every output beside its mirror.
    ///
    /// # Errors
    /// Those of the visitor.
    fn visit_outputs<S: Space, Q: Space>(
        args: &mut Self::Args<'_, S>,
        mirrored: &Self::Owned<Q>,
        visitor: &mut impl OutputVisitor<S, Q>,
    ) -> Result<()>;
}

/// Sees the outputs of a call beside their mirrors; see [`Signature::visit_outputs`].
pub trait OutputVisitor<S: Space, Q: Space> {
    /// One output, or an operand that is read and written.
    ///
    /// # Errors
    /// Whatever ends the visit.
    fn output<T: Element>(
        &mut self,
        name: &'static str,
        output: TensorMut<'_, S, T>,
        mirrored: &Tensor<Q, T>,
    ) -> Result<()>;
}

/// One operation: its options are `Self`, its tensors are [`Args`](Signature::Args).
///
/// An op is data. It knows its name, its shape rule and the accuracy it promises; backends know how
/// to compute it.
pub trait Op: Signature + Clone + Debug + Send + Sync + 'static {
    /// The name in messages, policies and files.
    fn name(&self) -> &'static str;
    /// Checks the operands that are read and gives the shapes of those that are written: the one
    /// shape rule, used to allocate and to check.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Param`] and other mistakes of the caller.
    fn infer(&self, on: &Self::Shapes<'_>) -> Result<Self::Outputs>;
    /// The name for a call on these operands: [`name`](Op::name), except where files and policies tell kinds of call of one op
    /// apart. A product with a weight in blocks is `qlinear` there.
    fn name_on(&self, on: &dyn Operands) -> &'static str {
        let _ = on;
        self.name()
    }
    /// How far a result, the `output` of this type, may lie from the exact one, in a call on these operands.
    fn tolerance(&self, output: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        let _ = (output, on);
        Tolerance::rounded(dtype)
    }
}

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
impl<S: Space> AnyRef<'_, S> {
    #[inline]
    pub fn operand(&self, name: &'static str) -> Operand<'_> {
        Operand { name, role: Role::In, dtype: self.dtype(), layout: View::layout(self) }
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

/// A call whose arguments have passed the op's shape rule and lie inside their memory.
///
/// Only this crate makes one, and it binds the arguments to the op they were checked for: a kernel
/// cannot be reached from safe code with unchecked shapes.
pub struct Call<'c, 'a, O: Op, S: Space> {
    op: &'c O,
    args: &'c mut O::Args<'a, S>,
}

impl<'c, 'a, O: Op, S: Space> Call<'c, 'a, O, S> {
    /// The one gate between user data and kernels.
    #[inline]
    pub(crate) fn check(op: &'c O, args: &'c mut O::Args<'a, S>) -> Result<Self> {
        let outputs = op.infer(&O::shapes(args))?;
        O::check_views(op.name(), args, &outputs)?;
        Ok(Call { op, args })
    }
    /// Arguments that were made from checked ones.
    #[inline]
    pub(crate) fn assume(op: &'c O, args: &'c mut O::Args<'a, S>) -> Self {
        Call { op, args }
    }
    /// The op.
    #[inline]
    pub fn op(&self) -> &'c O {
        self.op
    }
    /// The op's name for this call.
    #[inline]
    pub fn name(&self) -> &'static str {
        self.op.name_on(self.operands())
    }
    /// The arguments, to look at.
    #[inline]
    pub fn args(&self) -> &O::Args<'a, S> {
        self.args
    }
    /// The arguments without their types.
    #[inline]
    pub fn operands(&self) -> &(dyn Operands + '_) {
        &*self.args
    }
    /// The op and the arguments, for the kernel. There is no way back to a `Call`.
    #[inline]
    pub fn into_parts(self) -> (&'c O, &'c mut O::Args<'a, S>) {
        (self.op, self.args)
    }
    /// Lends the call out and keeps it.
    #[inline]
    pub fn lend<R>(&mut self, f: impl FnOnce(Call<'_, '_, O, S>) -> R) -> R {
        // A copy of the views: whoever gets it may take it apart, but cannot change this call.
        f(Call { op: self.op, args: &mut O::reborrow(self.args) })
    }
}

/// A backend's kernel for one operation.
#[diagnostic::on_unimplemented(
    message = "backend `{Self}` has no kernel for `{O}`",
    label = "no kernel for `{O}` on this backend",
    note = "wrap the backend as `Fallback::new(backend, Cpu::new())`, or write `impl Execute<{O}> for {Self}`",
    note = "in a function generic over the backend, ask for the op family instead, such as `B: NormOps<T>` or `B: Transformer<T>`"
)]
pub trait Execute<O: Op>: Backend {
    /// Whether `execute` would run; must not allocate or enqueue. If it says yes, `execute` must
    /// not answer [`Error::Unsupported`].
    ///
    /// # Errors
    /// Why not.
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason>;

    /// Enqueues the operation; the arguments are checked already.
    ///
    /// # Errors
    /// On [`Error::Unsupported`] no output was touched.
    fn execute(&self, call: Call<'_, '_, O, Self::Space>) -> Result<()>;
}

/// Declares that a backend leaves ops to a fallback: `unsupported!(MyGpu: RmsNorm<f64>, Rope<f64>)`.
///
/// Generic ops take their parameters in front: `unsupported!(<T: Float> MyGpu: RmsNorm<T>, Rope<T>)`.
#[macro_export]
macro_rules! unsupported {
    (<$($g:ident: $bound:path),+> $backend:ty: $($op:ty),+ $(,)?) => {
        $crate::unsupported!(@each [$($g: $bound),+] $backend: $($op),+);
    };
    (@each $generics:tt $backend:ty: $($op:ty),+) => {
        $($crate::unsupported!(@one $generics $backend, $op);)+
    };
    (@one [$($g:ident: $bound:path),*] $backend:ty, $op:ty) => {
        impl<$($g: $bound),*> $crate::Execute<$op> for $backend {
            fn support(&self, _: &$op, _: &dyn $crate::Operands) -> $crate::Result<(), $crate::Reason> {
                Err($crate::Reason::Missing)
            }
            fn execute(&self, call: $crate::Call<'_, '_, $op, <Self as $crate::Backend>::Space>) -> $crate::Result<()> {
                Err($crate::Error::Unsupported {
                    op: call.name(),
                    backend: $crate::Backend::name(self),
                    reason: $crate::Reason::Missing,
                })
            }
        }
    };
    ($backend:ty: $($op:ty),+ $(,)?) => {
        $($crate::unsupported!(@one [] $backend, $op);)+
    };
}

/// One output against its rule: shape, bounds, no overlap. Called by the code of [`operands!`](crate::operands).
///
/// # Errors
/// As [`Signature::check_views`].
#[doc(hidden)]
#[inline]
pub fn check_output(
    op: &'static str,
    operand: &'static str,
    layout: &Layout,
    len: usize,
    want: &Shape,
) -> Result<()> {
    if layout.shape() != *want {
        return Err(Error::shape(op, operand, layout, want.to_string()));
    }
    check_written(op, operand, layout, len)
}

#[doc(hidden)]
#[inline]
pub fn check_written(op: &'static str, operand: &'static str, layout: &Layout, len: usize) -> Result<()> {
    check_read(op, operand, layout, len)?;
    if !layout.is_injective() {
        return Err(Error::Overlap { op, operand, layout: Box::new(*layout) });
    }
    Ok(())
}

#[doc(hidden)]
#[inline]
pub fn check_read(op: &'static str, operand: &'static str, layout: &Layout, len: usize) -> Result<()> {
    if layout.fits(len) {
        return Ok(());
    }
    Err(Error::OutOfBounds { op, operand, layout: Box::new(*layout), len })
}
