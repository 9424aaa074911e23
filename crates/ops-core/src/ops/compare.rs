//! Comparisons of two tensors, element by element.
use super::broadcast;
use super::declare::family;
use super::declare::ops;
use crate::error::About;
use crate::{
    AsView, AsViewMut, Backend, DType, Execute, Op, Operands, Result, Scalar, TensorOf, Tolerance, View, Wide,
};
use core::cmp::Ordering;
use core::hash::Hash;

/// A comparison of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompareFn {
    /// `a = b`
    Eq,
    /// `a ≠ b`; true if either is NaN.
    Ne,
    /// `a < b`
    Lt,
    /// `a ≤ b`
    Le,
    /// `a > b`
    Gt,
    /// `a ≥ b`
    Ge,
}
impl CompareFn {
    /// All comparisons.
    pub const ALL: [CompareFn; 6] =
        [CompareFn::Eq, CompareFn::Ne, CompareFn::Lt, CompareFn::Le, CompareFn::Gt, CompareFn::Ge];

    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            CompareFn::Eq => "eq",
            CompareFn::Ne => "ne",
            CompareFn::Lt => "lt",
            CompareFn::Le => "le",
            CompareFn::Gt => "gt",
            CompareFn::Ge => "ge",
        }
    }

    /// The definition, for two numbers of the same type.
    pub fn holds(self, a: Wide, b: Wide) -> bool {
        let order = match (a, b) {
            (Wide::Int(a), Wide::Int(b)) => Some(a.cmp(&b)),
            (a, b) => a.to_f64().partial_cmp(&b.to_f64()),
        };
        match self {
            CompareFn::Eq => order == Some(Ordering::Equal),
            CompareFn::Ne => order != Some(Ordering::Equal),
            CompareFn::Lt => order == Some(Ordering::Less),
            CompareFn::Le => order.is_some_and(Ordering::is_le),
            CompareFn::Gt => order == Some(Ordering::Greater),
            CompareFn::Ge => order.is_some_and(Ordering::is_ge),
        }
    }
}

ops! {
    /// `y = 1` where the comparison of `a` with `b` holds, otherwise 0.
    ///
    /// Floats are compared by the rules of IEEE 754: −0 equals 0, and every comparison with NaN is 0, except `ne`, which is 1.
    ///
    /// Operands: `a` and `b` of equal extents and any scalar type (the methods of [`CompareOps`] broadcast); `y` of u8, like `a`.
    pub struct Compare<T: Scalar> {}
    variant { f: CompareFn }
    /// Compares by `f`.
    fn of;
    operands compare { a: in T [..], b: in T [..], y: out u8 [..] }
}
impl<T> Compare<T> {
    /// The comparison that this op makes.
    pub fn function(&self) -> CompareFn {
        self.f
    }
}
impl<T: Scalar> Op for Compare<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Writes the methods of comparisons: `compare_methods!(lt lt_into Lt: 1, 0, 0)`. The values are those of the doc example,
/// which compares 1, 2 and 3 with 2.
macro_rules! compare_methods {
    ($Ops:ident<$T:ident: $Bound:path>; $($name:ident $into:ident $f:ident: $y:literal),+ $(,)?) => {$(
        #[doc = concat!("[`CompareFn::", stringify!($f), "`] of two tensors that broadcast together.")]
        ///
        /// # Errors
        /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
        ///
        /// ```
        /// # use ops_core::{Backend, ops::*};
        /// # let b = ops_cpu::Cpu::new();
        /// let (x, two) = (b.tensor(&[3], &[1.0f32, 2.0, 3.0])?, b.tensor(&[1], &[2.0])?);
        #[doc = concat!("assert_eq!(b.", stringify!($name), "(&x, &two)?.to_vec(&b)?, ", $y, ");")]
        /// # Ok::<(), ops_core::Error>(())
        /// ```
        fn $name<$T: $Bound>(
            &self,
            a: impl AsView<Self::Space, $T>,
            b: impl AsView<Self::Space, $T>,
        ) -> Result<TensorOf<Self, u8>>
        where
            Self: $Ops<$T>,
        {
            self.compare(a, b, CompareFn::$f)
        }
        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") into `y`. Broadcasts both to its extents.")]
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), ").")]
        fn $into<$T: $Bound>(
            &self,
            a: impl AsView<Self::Space, $T>,
            b: impl AsView<Self::Space, $T>,
            y: impl AsViewMut<Self::Space, u8>,
        ) -> Result<()>
        where
            Self: $Ops<$T>,
        {
            self.compare_into(a, b, y, CompareFn::$f)
        }
    )+};
}

family! {
    /// Comparisons of any scalar type. The results are u8, as [`WhereOps`](super::WhereOps) takes them.
    pub trait CompareOps<T: Scalar>: Execute<Compare<T>>;
    methods CompareMethods;
}

/// The methods of [`CompareOps`].
pub trait CompareMethods: Backend {
    /// Any [`CompareFn`] on two tensors that broadcast together.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let (x, two) = (b.tensor(&[3], &[1, 2, 3])?, b.tensor(&[1], &[2])?);
    /// assert_eq!(b.compare(&x, &two, CompareFn::Ge)?.to_vec(&b)?, [0, 1, 1]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn compare<T: Scalar>(
        &self,
        a: impl AsView<Self::Space, T>,
        b: impl AsView<Self::Space, T>,
        f: CompareFn,
    ) -> Result<TensorOf<Self, u8>>
    where
        Self: CompareOps<T>,
    {
        let mut y = self.empty(broadcast(f.name(), &a.view(), &b.view())?)?;
        self.compare_into(a, b, &mut y, f)?;
        Ok(y)
    }
    /// [`compare`](Self::compare) into `y`. Both operands are broadcast to the extents of `y`.
    ///
    /// # Errors
    /// As [`compare`](Self::compare), and for an output of another shape.
    fn compare_into<T: Scalar>(
        &self,
        a: impl AsView<Self::Space, T>,
        b: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, u8>,
        f: CompareFn,
    ) -> Result<()>
    where
        Self: CompareOps<T>,
    {
        let mut y = y.view_mut();
        let a = a.view().broadcast(y.dims()).about(f.name(), "a")?;
        let b = b.view().broadcast(y.dims()).about(f.name(), "b")?;
        self.run(&Compare::of(f), args::compare::Args { a: a.shorten(), b: b.shorten(), y: y.reborrow() })
    }
    compare_methods! {
        CompareOps<T: Scalar>;
        eq eq_into Eq: "[0, 1, 0]",
        ne ne_into Ne: "[1, 0, 1]",
        lt lt_into Lt: "[1, 0, 0]",
        le le_into Le: "[1, 1, 0]",
        gt gt_into Gt: "[0, 0, 1]",
        ge ge_into Ge: "[0, 1, 1]",
    }
}
