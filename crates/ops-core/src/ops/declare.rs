//! The macros with which this crate declares its ops and their methods.
//!
//! [`ops!`] writes what follows from an op's options and operands, [`family!`] the bound of a family, and [`methods!`] the
//! method that allocates its outputs together with the one that writes into given views. Shape rules beyond the declared
//! extents, tolerances and names of variants are plain `impl Op` blocks.
use crate::{Call, Execute, Op, Result};

/// Declares the ops of a family.
///
/// ```text
/// ops! {
///     /// What the op computes.
///     pub struct RmsNorm<T: Float> {
///         /// Added to the mean square, inside the root.
///         pub eps: f64,
///     }
///     /// Normalises with this `eps`.
///     fn eps;
///     operands rms_norm { x: in T [.., n], weight: in any(floats) [n], y: out T [.., n] }
/// }
/// ```
///
/// writes the struct, its constructor `RmsNorm::eps(eps)`, and its operands as [`operands!`](crate::operands) does, in
/// the module `args::rms_norm`. The fields are the op's options, under their names: they are listed, hashed and read
/// from [`Options`](super::registry::Options). The name of the operands' module is the op's name.
///
/// The constructor takes the fields without a value; if there is one such field, `From` makes the op of its value, and
/// methods that take `impl Into<RmsNorm<T>>` take the number. `order: RopeOrder = RopeOrder::Half` starts with this value, which
/// is also that of an option that is not given. `axis: isize [or -1]` is taken by the constructor, and -1 only if the
/// option is not given. `const OP;` in place of `fn` makes a constant. The field in `variant { .. }` selects one of the
/// op's names, so it is not an option: it is hashed, and the [registry](super::registry) passes it to `read`.
macro_rules! ops {
    ($(
        $(#[$about:meta])*
        pub struct $Op:ident $(<$T:ident: $Bound:path>)? {
            $($(#[$what:meta])* $vis:vis $field:ident: $Type:ty $([or $absent:expr])? $(= $value:expr)?),* $(,)?
        }
        $(variant { $(#[$which:meta])* $vvis:vis $variant:ident: $Variant:ty $(= $plain:expr)? })?
        $($(#[$how:meta])* fn $new:ident;)?
        $(const $OP:ident;)?
        operands $module:ident { $($operands:tt)+ }
    )+) => {
        $(
            $(#[$about])*
            ///
            #[doc = concat!("Operands as declared: `", stringify!($($operands)+), "`.")]
            #[derive(Clone, Copy, Debug, PartialEq)]
            #[non_exhaustive]
            pub struct $Op $(<$T>)? {
                $($(#[$what])* $vis $field: $Type,)*
                $($(#[$which])* $vvis $variant: $Variant,)?
                $(types: core::marker::PhantomData<$T>,)?
            }
            $crate::ops::declare::ops! {
                @new [$($(#[$how])* fn $new)?] [$Op $(<$T>)?] [] []
                $($field: $Type [$($value)?],)* $($variant: $Variant [$($plain)?],)?
            }
            $crate::ops::declare::ops! { @const [$($OP)?] [$Op $(<$T>)?] }
            $crate::ops::declare::ops! { @typed [$Op $(<$T>)?] $($field)* $($variant)? }
            impl $Op $(<$crate::ops::declare::ops!(@unit $T)>)? {
                /// Makes the op from options by name.
                #[allow(unused_variables)]
                pub(in crate::ops) fn read<Given: $crate::ops::options::Options>(
                    options: &Given,
                    variant: $crate::ops::declare::ops!(@either [$($Variant)?] [()]),
                ) -> core::result::Result<Self, Given::Error> {
                    $(let $field = $crate::ops::declare::ops!(@read options $field $Type [$($absent)? $($value)?]);)*
                    Ok($Op {
                        $($field,)*
                        $($variant: variant,)?
                        $(types: core::marker::PhantomData::<$crate::ops::declare::ops!(@unit $T)>,)?
                    })
                }
            }
        )+
        pub(in crate::ops) mod args {
            use super::*;
            $($crate::operands! {
                pub mod $module: $Op $(<$T: $Bound>)? { $($operands)+ }
                #[allow(unused_mut)]
                fn declared_options(&self) -> Vec<(&'static str, $crate::option::OptionValue)> {
                    let mut list = Vec::new();
                    $($crate::ops::options::OptionField::list_as(self.$field, stringify!($field), &mut list);)*
                    list
                }
                #[inline]
                #[allow(unused_variables)]
                fn hash_declared<State: core::hash::Hasher>(&self, state: &mut State) -> bool {
                    $($crate::ops::options::OptionField::hash_bits(self.$field, state);)*
                    $(core::hash::Hash::hash(&self.$variant, state);)?
                    true
                }
            })+
        }
    };

    (@unit $T:ident) => { () };
    (@either [$given:ty] $otherwise:tt) => { $given };
    (@either [] [$otherwise:ty]) => { $otherwise };
    (@read $options:ident $field:ident $Type:ty []) => {
        <$Type as $crate::ops::options::OptionField>::needed($options, stringify!($field))?
    };
    (@read $options:ident $field:ident $Type:ty [$absent:expr]) => {
        <$Type as $crate::ops::options::OptionField>::read($options, stringify!($field))?.unwrap_or($absent)
    };

    // Sorts the fields into parameters of the constructor and values.
    (@new [] $($rest:tt)*) => {};
    (@new $how:tt $op:tt [$($params:tt)*] [$($values:tt)*] $field:ident: $Type:ty [], $($rest:tt)*) => {
        $crate::ops::declare::ops! {
            @new $how $op [$($params)* $field: $Type,] [$($values)* $field,] $($rest)*
        }
    };
    (@new $how:tt $op:tt $params:tt [$($values:tt)*] $field:ident: $Type:ty [$value:expr], $($rest:tt)*) => {
        $crate::ops::declare::ops! { @new $how $op $params [$($values)* $field: $value,] $($rest)* }
    };
    (@new [$(#[$how:meta])* fn $new:ident] [$Op:ident $(<$T:ident>)?] [$($params:tt)*] [$($values:tt)*]) => {
        impl $(<$T>)? $Op $(<$T>)? {
            $(#[$how])*
            pub fn $new($($params)*) -> Self {
                $Op { $($values)* $(types: core::marker::PhantomData::<$T>)? }
            }
        }
        $crate::ops::declare::ops! { @from $new [$Op $(<$T>)?] [$($params)*] }
    };

    // An op that one value makes is made from it, so that methods take the value.
    (@from $new:ident [$Op:ident $(<$T:ident>)?] [$field:ident: $Type:ty,]) => {
        impl $(<$T>)? From<$Type> for $Op $(<$T>)? {
            fn from($field: $Type) -> Self {
                $Op::$new($field)
            }
        }
    };
    (@from $new:ident $op:tt $params:tt) => {};

    (@const [] $op:tt) => {};
    (@const [$OP:ident] [$Op:ident $(<$T:ident>)?]) => {
        impl $(<$T>)? $Op $(<$T>)? {
            /// The op; it has no options.
            pub const $OP: Self = $Op { $(types: core::marker::PhantomData::<$T>)? };
        }
    };

    (@typed [$Op:ident] $($field:ident)*) => {};
    (@typed [$Op:ident<$T:ident>] $($field:ident)*) => {
        impl<$T> $Op<$T> {
            /// The same op in another type.
            pub(in crate::ops) fn typed<Other>(self) -> $Op<Other> {
                $Op { $($field: self.$field,)* types: core::marker::PhantomData }
            }
        }
    };
}
pub(super) use ops;

/// Declares a family of ops: the trait that a function generic over backends requires, which every backend has that has
/// the kernels, and whose methods every backend gets:
///
/// ```text
/// family! {
///     /// Normalisation of `T`.
///     pub trait NormOps<T: Float>: Execute<RmsNorm<T>>, Execute<LayerNorm<T>>;
///     methods NormMethods;
/// }
/// ```
///
/// The methods have the type parameter, and require the family for it. So a call infers `T` from its arguments, and a
/// call without the kernels names the bound that is missing.
macro_rules! family {
    (
        $(#[$about:meta])*
        pub trait $Ops:ident $(<$T:ident: $Bound:path>)?: $($needs:path),+;
        methods $Methods:ident;
    ) => {
        $(#[$about])*
        ///
        #[doc = concat!("This is a bound. The methods are those of [`", stringify!($Methods), "`].")]
        #[diagnostic::on_unimplemented(
            note = "in a function generic over the backend, add the bound",
            note = "a backend has the family if it implements each `Execute` that the trait requires; `unsupported!` writes those that it lacks"
        )]
        pub trait $Ops $(<$T: $Bound>)?: $($needs +)+ {}
        // So that the compiler names the family, not the first op of it.
        #[diagnostic::do_not_recommend]
        impl<$($T: $Bound,)? B: $($needs +)+> $Ops $(<$T>)? for B {}
        impl<B: $crate::Backend> $Methods for B {}
    };
}
pub(super) use family;

/// Writes pairs of methods in the trait of a family's methods: one that allocates the outputs, and one that writes into views.
///
/// ```text
/// NormOps<T: Float>;
/// /// [`RmsNorm`] of every row of `x`.
/// example
/// /// let y = b.rms_norm(&x, &weight, 0.0)?;
/// fn rms_norm, rms_norm_into(x: in T, weight: in any; y: T; op: impl Into<RmsNorm<T>>) = rms_norm(op.into());
/// ```
///
/// First comes the family, whose type parameter the methods have. After the two names come inputs (the modes of
/// [`operands!`](crate::operands)), outputs, and options; then the module of the operands, and the op made of the options.
/// `lse: None` after the op leaves out an optional operand, and the mode `some` gives one. The example's first and last lines
/// are added.
macro_rules! methods {
    ($Ops:ident<$T:ident: $Bound:path>; $(
        $(#[$about:meta])*
        example $(#[$example:meta])*
        fn $name:ident, $into:ident(
            $($x:ident: $mode:tt $e:tt),+; $($y:ident: $o:tt),+ $(; $($given:ident: $Given:ty),+)?
        ) = $module:ident($op:expr $(, $none:ident: None)*);
    )+) => {$(
        $(#[$about])*
        ///
        /// # Errors
        /// Operands or options that break the op's rule, and any error that the backend reports.
        ///
        /// ```
        /// use rocm_ops::prelude::*;
        /// let b = Cpu::new();
        $(#[$example])*
        /// # Ok::<(), rocm_ops::Error>(())
        /// ```
        #[allow(unused_mut, clippy::too_many_arguments)]
        fn $name<$T: $Bound>(
            &self,
            $($x: $crate::ops::declare::methods!(@param $mode $e),)+
            $($($given: $Given),+)?
        ) -> $crate::Result<$crate::ops::declare::methods!(@owned $($o),+)>
        where
            Self: $Ops<$T>,
        {
            use $crate::AsViewMut as _;
            let op = $op;
            $(let mut $x = $x;)+
            $(let mut $x = $crate::ops::declare::methods!(@view $mode $e, $x);)+
            let on = $crate::ops::args::$module::Shapes {
                $($x: $crate::ops::declare::methods!(@shape $mode $e, $x),)+
                $($y: $crate::Written,)+
                $($none: None,)*
            };
            let outputs = $crate::Op::infer(&op, &on)?;
            let [$($y,)+ ..] = outputs;
            $(let mut $y = self.empty($y)?;)+
            let args = $crate::ops::args::$module::Args {
                $($x: $crate::ops::declare::methods!(@lend $mode $x),)+
                $($y: $y.view_mut(),)+
                $($none: None,)*
            };
            $crate::ops::declare::run_inferred(self, &op, args, &outputs)?;
            Ok(($($y),+))
        }
        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") into `", stringify!($($y),+), "`.")]
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "), and for an output of another shape.")]
        #[allow(unused_mut, clippy::too_many_arguments)]
        fn $into<$T: $Bound>(
            &self,
            $($x: $crate::ops::declare::methods!(@param $mode $e),)+
            $(mut $y: impl $crate::AsViewMut<Self::Space, $o>,)+
            $($($given: $Given),+)?
        ) -> $crate::Result<()>
        where
            Self: $Ops<$T>,
        {
            $(let mut $x = $x;)+
            let args = $crate::ops::args::$module::Args {
                $($x: $crate::ops::declare::methods!(@view $mode $e, $x),)+
                $($y: $y.view_mut(),)+
                $($none: None,)*
            };
            self.run(&$op, args)
        }
    )+};

    (@param in any) => { impl $crate::AsAny<Self::Space> };
    (@param in $e:ty) => { impl $crate::AsView<Self::Space, $e> };
    (@param some any) => { impl $crate::AsAny<Self::Space> };
    (@param opt any) => { impl $crate::AsOptional<Self::Space> };
    (@param inout $e:ty) => { impl $crate::AsViewMut<Self::Space, $e> };

    (@shape some any, $x:expr) => { $crate::operands!(@view opt any, $x, stringify!($x)) };
    (@shape $mode:tt $e:tt, $x:expr) => { $crate::operands!(@view $mode $e, $x, stringify!($x)) };

    (@view in any, $x:expr) => { $x.any_view() };
    (@view in $e:ty, $x:expr) => { $x.view() };
    (@view some any, $x:expr) => { Some($x.any_view()) };
    (@view opt any, $x:expr) => { $x.optional_view() };
    (@view inout $e:ty, $x:expr) => { $x.view_mut() };

    (@lend inout $x:expr) => { $x.reborrow() };
    (@lend $mode:tt $x:expr) => { $x };

    (@owned $o:ty) => { $crate::TensorOf<Self, $o> };
    (@owned $o:ty, $p:ty) => { ($crate::TensorOf<Self, $o>, $crate::TensorOf<Self, $p>) };
}
pub(super) use methods;

/// Writes the methods of functions of two tensors that broadcast together: a pair that takes any of them, and a pair for each:
///
/// ```text
/// ElementwiseOps<T: Num>, BinaryFn -> T;
/// example
/// /// let y = b.binary(&x, &z, BinaryFn::Div)?;
/// fn binary, binary_into = binary(Binary::of);
/// of [2]:
/// add add_into Add: [6, 8], [2] => [8, 10],
/// ```
///
/// After the family come the type of the functions and that of the results, then the module of the operands and the constructor of
/// the op. The values of a row appear in its example: a tensor of the extents after `of`, another one, and the result.
macro_rules! methods_of_two {
    (
        $Ops:ident<$T:ident: $Bound:path>, $Fn:ident -> $Y:ty;
        example $(#[$example:meta])*
        fn $call:ident, $call_into:ident = $module:ident($new:expr);
        of $dims:tt:
        $($name:ident $into:ident $f:ident: $a:tt, $b:tt => $y:tt),+ $(,)?
    ) => {
        #[doc = concat!("Any [`", stringify!($Fn), "`] of two tensors that broadcast together.")]
        ///
        /// # Errors
        /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
        ///
        /// ```
        /// use rocm_ops::prelude::*;
        /// let b = Cpu::new();
        $(#[$example])*
        /// # Ok::<(), rocm_ops::Error>(())
        /// ```
        fn $call<$T: $Bound>(
            &self,
            a: impl $crate::AsView<Self::Space, $T>,
            b: impl $crate::AsView<Self::Space, $T>,
            f: $Fn,
        ) -> $crate::Result<$crate::TensorOf<Self, $Y>>
        where
            Self: $Ops<$T>,
        {
            let mut y = self.empty($crate::ops::broadcast(f.name(), a.view().layout(), b.view().layout())?)?;
            self.$call_into(a, b, &mut y, f)?;
            Ok(y)
        }
        #[doc = concat!("[`", stringify!($call), "`](Self::", stringify!($call), ") into `y`. Broadcasts both operands to its extents.")]
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($call), "`](Self::", stringify!($call), "), and for an output of another shape.")]
        fn $call_into<$T: $Bound>(
            &self,
            a: impl $crate::AsView<Self::Space, $T>,
            b: impl $crate::AsView<Self::Space, $T>,
            mut y: impl $crate::AsViewMut<Self::Space, $Y>,
            f: $Fn,
        ) -> $crate::Result<()>
        where
            Self: $Ops<$T>,
        {
            use $crate::error::About as _;
            let mut y = y.view_mut();
            let a = a.view().broadcast(y.dims()).about(f.name(), "a")?;
            let b = b.view().broadcast(y.dims()).about(f.name(), "b")?;
            let args = $crate::ops::args::$module::Args { a: a.shorten(), b: b.shorten(), y: y.reborrow() };
            self.run(&$new(f), args)
        }
    $(
        #[doc = concat!("[`", stringify!($Fn), "::", stringify!($f), "`] of two tensors that broadcast together.")]
        ///
        /// # Errors
        /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
        ///
        /// ```
        /// use rocm_ops::prelude::*;
        /// let b = Cpu::new();
        #[doc = concat!("let x = b.tensor(&", stringify!($dims), ", &", stringify!($a), ")?;")]
        #[doc = concat!("let z = b.tensor(&[1], &", stringify!($b), ")?;")]
        #[doc = concat!("assert_eq!(b.", stringify!($name), "(&x, &z)?.to_vec(&b)?, ", stringify!($y), ");")]
        /// # Ok::<(), rocm_ops::Error>(())
        /// ```
        fn $name<$T: $Bound>(
            &self,
            a: impl $crate::AsView<Self::Space, $T>,
            b: impl $crate::AsView<Self::Space, $T>,
        ) -> $crate::Result<$crate::TensorOf<Self, $Y>>
        where
            Self: $Ops<$T>,
        {
            self.$call(a, b, $Fn::$f)
        }
        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") into `y`. Broadcasts both to its extents.")]
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), ").")]
        fn $into<$T: $Bound>(
            &self,
            a: impl $crate::AsView<Self::Space, $T>,
            b: impl $crate::AsView<Self::Space, $T>,
            y: impl $crate::AsViewMut<Self::Space, $Y>,
        ) -> $crate::Result<()>
        where
            Self: $Ops<$T>,
        {
            self.$call_into(a, b, y, $Fn::$f)
        }
    )+};
}
pub(super) use methods_of_two;

/// Runs a call to whose inputs the shape rule has been applied: `outputs` is its result. All other checks of a call are
/// made here, also those of the memory that the backend itself allocated.
#[inline(always)]
pub(super) fn run_inferred<O: Op, B: Execute<O>>(
    backend: &B,
    op: &O,
    mut args: O::Args<'_, B::Space>,
    outputs: &O::Outputs,
) -> Result<()> {
    let reads = |operand, packing| backend.reads(op, operand, packing);
    backend.execute(Call::check_inferred(op, &mut args, outputs, backend.name(), reads)?)
}
