//! The macro that declares the operands of an op.
//!
//! Generic parameters of macros are not hygienic, so those of this macro have long names.

/// Declares the tensors of an op.
///
/// `operands!(pub mod rms_norm: RmsNorm<T: Float> { x: in T, weight: in any, y: out T })` writes a module `rms_norm` with:
///
/// * `Args<'a, S, T>`: the tensors of one call, one view per operand;
/// * `Shapes<'a>`: what the shape rule, [`Op::infer`](crate::Op::infer), sees of them;
/// * `impl Signature for RmsNorm<T>`: the list of operands, and the functions that inspect and make arguments.
///
/// Extents after an operand's type, as in `x: in T [.., n], weight: in any(floats) [n], y: out T [.., n]`, give the op
/// its shape rule: then [`Op::infer`](crate::Op::infer) need not be written. An extent is a name, which stands for the same number
/// everywhere, or `..` for any number of axes. `any(floats)` and `any(indices)` accept the types of that
/// [`Group`](crate::ops::registry::Group).
///
/// The modes are `in` (read), `opt` (read, optional), `out` (written), `opt_out` (written, optional) and
/// `inout` (read and written). An operand's type is a parameter of the op, a fixed element type, or `any`,
/// which is known only at run time and checked by the shape rule ([`Operand::require`]).
///
/// | operand | in `Args` | in `Shapes` |
/// |---|---|---|
/// | `in T`, `inout T` | `TensorRef`, `TensorMut` | its [`Layout`](crate::Layout) |
/// | `in any`, `inout any` | `AnyRef`, `AnyMut` | an [`Operand`] |
/// | `out T` | `TensorMut` | [`Written`](crate::Written) |
/// | `out any` | `AnyMut` | its [`DType`](crate::DType), which the caller chose |
/// | `opt` | `Option` of the same as for `in` | `Option` of the same as for `in` |
/// | `opt_out` | `Option` of the same as for `out` | `Option` of the same as for `out` |
///
/// Views in `Args` share one lifetime. If theirs differ, as with a borrowed input beside a tensor that a function has just made, shorten the
/// longer with `shorten` (read) or `reborrow` (written): `Args { x: x.shorten(), y: y.reborrow() }`.
///
/// The modules of this crate's ops are in [`ops::args`](crate::ops::args).
///
/// Some operand must use each type parameter. The shape rule returns
/// a shape for every `out` and `opt_out`, given or not.
///
/// [`Operand`]: crate::Operand
/// [`Operand::require`]: crate::Operand::require
#[macro_export]
macro_rules! operands {
    ($vis:vis mod $module:ident: $Op:ident $(<$($G:ident: $Bound:path),+>)? {
        $($name:ident: $mode:tt $e:tt $(($types:ident))? $([$($extents:tt)*])?),+ $(,)?
    } $($more:item)*) => {
        #[doc = concat!("The operands of [`", stringify!($Op), "`](struct@super::", stringify!($Op), ").")]
        #[allow(missing_docs, unused_imports)]
        $vis mod $module {
            use super::*;

            #[doc = concat!("The tensors of one call of [`", stringify!($Op), "`](struct@super::", stringify!($Op), ").")]
            pub struct Args<'a, Here: $crate::Space $($(, $G: $Bound)+)?> {
                $(pub $name: $crate::operands!(@arg $mode $e, 'a, Here)),+
            }

            #[doc = concat!("What the rule of [`", stringify!($Op), "`](struct@super::", stringify!($Op), ") reads.")]
            #[derive(Clone, Copy, Debug)]
            pub struct Shapes<'a> {
                $(pub $name: $crate::operands!(@shape $mode $e, 'a)),+
            }

            impl<Here: $crate::Space $($(, $G: $Bound)+)?> $crate::Operands for Args<'_, Here $($(, $G)+)?> {
                #[inline]
                fn count(&self) -> usize {
                    [$(stringify!($name)),+].len()
                }
                #[inline]
                #[allow(unused_assignments)]
                fn operand(&self, index: usize) -> ::core::option::Option<$crate::Operand<'_>> {
                    let mut place = 0;
                    $(
                        if index == place {
                            return $crate::operands!(@info $mode, self.$name, stringify!($name)).map(|info| info.operand);
                        }
                        place += 1;
                    )+
                    None
                }
            }

            impl $(<$($G: $Bound),+>)? $crate::Signature for $Op $(<$($G),+>)? {
                type Args<'a, Here: $crate::Space> = Args<'a, Here $($(, $G)+)?>;
                type Shapes<'a> = Shapes<'a>;
                type Outputs = [$crate::Shape; 0 $(+ $crate::operands!(@count $mode))+];
                const SLOTS: &'static [$crate::OperandSlot] = &[$($crate::OperandSlot {
                    name: stringify!($name),
                    role: $crate::operands!(@role $mode),
                    optional: $crate::operands!(@optional $mode),
                    dtype: $crate::operands!(@dtype $e),
                    types: $crate::operands!(@types $($types)?),
                    extents: $crate::operands!(@extents $([$($extents)*])?),
                }),+];
                const NAME: &'static str = stringify!($module);
                $($more)*

                #[inline]
                fn shapes<'s, Here: $crate::Space>(args: &'s Self::Args<'_, Here>) -> Self::Shapes<'s> {
                    Shapes { $($name: $crate::operands!(@view $mode $e, args.$name, stringify!($name))),+ }
                }
                #[inline(always)]
                #[allow(unused_assignments, unused_variables, unused_mut)]
                fn for_each_shape<'s>(
                    on: &Self::Shapes<'s>,
                    mut see: impl FnMut(usize, &'s $crate::Layout, $crate::DType) -> $crate::Result<()>,
                ) -> $crate::Result<()> {
                    let mut place = 0;
                    $(
                        $crate::operands!(@seen $mode $e, on.$name, see, place);
                        place += 1;
                    )+
                    Ok(())
                }
                #[inline(always)]
                #[allow(unused_assignments)]
                fn for_each_operand<'s, Here: $crate::Space, Stop>(
                    args: &'s Self::Args<'_, Here>,
                    mut see: impl FnMut(usize, &'static $crate::OperandSlot, ::core::option::Option<$crate::OperandInfo<'s, Here>>) -> ::core::result::Result<(), Stop>,
                ) -> ::core::result::Result<(), Stop> {
                    let mut place = 0;
                    $(
                        see(place, &Self::SLOTS[place], $crate::operands!(@info $mode, args.$name, stringify!($name)))?;
                        place += 1;
                    )+
                    Ok(())
                }
                #[inline(always)]
                #[allow(unused_assignments)]
                fn map<'s, 'r, Here: $crate::Space, There: $crate::Space>(
                    args: &'s mut Self::Args<'_, Here>,
                    mut change: impl FnMut(&'static $crate::OperandSlot, $crate::Borrowed<'s, Here>) -> ::core::option::Option<$crate::Borrowed<'r, There>>,
                ) -> ::core::option::Option<Self::Args<'r, There>> {
                    // Visits all operands before failing: a `change` that only inspects them returns `None` every time.
                    let mut place = 0;
                    $(
                        let $name = $crate::operands!(@map $mode $e, args.$name, change, &Self::SLOTS[place]);
                        place += 1;
                    )+
                    Some(Args { $($name: $name?),+ })
                }
                #[allow(unused_assignments)]
                fn build<'r, There: $crate::Space>(
                    give: &mut dyn FnMut(&'static $crate::OperandSlot) -> ::core::option::Option<$crate::Borrowed<'r, There>>,
                ) -> ::core::result::Result<Self::Args<'r, There>, &'static $crate::OperandSlot> {
                    let mut place = 0;
                    $(
                        let slot = &Self::SLOTS[place];
                        let $name = $crate::operands!(@build $mode $e, give(slot)).ok_or(slot)?;
                        place += 1;
                    )+
                    Ok(Args { $($name),+ })
                }
            }
        }
    };

    (@arg in any, $a:lifetime, $S:ident) => { $crate::AnyRef<$a, $S> };
    (@arg in $e:ty, $a:lifetime, $S:ident) => { $crate::TensorRef<$a, $S, $e> };
    (@arg opt $e:tt, $a:lifetime, $S:ident) => { ::core::option::Option<$crate::operands!(@arg in $e, $a, $S)> };
    (@arg opt_out $e:tt, $a:lifetime, $S:ident) => { ::core::option::Option<$crate::operands!(@arg out $e, $a, $S)> };
    (@arg $written:tt any, $a:lifetime, $S:ident) => { $crate::AnyMut<$a, $S> };
    (@arg $written:tt $e:ty, $a:lifetime, $S:ident) => { $crate::TensorMut<$a, $S, $e> };

    (@shape opt $e:tt, $a:lifetime) => { ::core::option::Option<$crate::operands!(@shape in $e, $a)> };
    (@shape opt_out $e:tt, $a:lifetime) => { ::core::option::Option<$crate::operands!(@shape out $e, $a)> };
    (@shape out any, $a:lifetime) => { $crate::DType };
    (@shape out $e:tt, $a:lifetime) => { $crate::Written };
    (@shape $read:tt any, $a:lifetime) => { $crate::Operand<$a> };
    (@shape $read:tt $e:tt, $a:lifetime) => { &$a $crate::Layout };

    (@role out) => { $crate::Role::Out };
    (@role opt_out) => { $crate::Role::Out };
    (@role inout) => { $crate::Role::InOut };
    (@role $read:tt) => { $crate::Role::In };

    (@optional opt) => { true };
    (@optional opt_out) => { true };
    (@optional $given:tt) => { false };

    (@dtype any) => { None };
    (@dtype $e:ty) => { Some(<$e as $crate::Element>::DTYPE) };

    (@types) => { None };
    (@types floats) => { Some($crate::ops::registry::Group::Floats) };
    (@types indices) => { Some($crate::ops::registry::Group::Indices) };

    (@extents) => { None };
    (@extents [$($extents:tt)*]) => { Some(stringify!($($extents)*)) };

    (@seen out $e:tt, $x:expr, $see:ident, $place:expr) => {};
    (@seen opt_out $e:tt, $x:expr, $see:ident, $place:expr) => {};
    (@seen opt $e:tt, $x:expr, $see:ident, $place:expr) => {
        if let Some(x) = $x { $crate::operands!(@seen in $e, x, $see, $place); }
    };
    (@seen $read:tt any, $x:expr, $see:ident, $place:expr) => { $see($place, $x.layout, $x.dtype)? };
    (@seen $read:tt $e:ty, $x:expr, $see:ident, $place:expr) => {
        $see($place, $x, <$e as $crate::Element>::DTYPE)?
    };

    (@count out) => { 1 };
    (@count opt_out) => { 1 };
    (@count $other:tt) => { 0 };

    (@info opt, $x:expr, $name:expr) => { $x.as_ref().map(|x| x.info($name, $crate::Role::In)) };
    (@info opt_out, $x:expr, $name:expr) => { $x.as_ref().map(|x| x.info($name, $crate::Role::Out)) };
    (@info $mode:tt, $x:expr, $name:expr) => { Some($x.info($name, $crate::operands!(@role $mode))) };

    (@view opt $e:tt, $x:expr, $name:expr) => {
        match &$x { Some(x) => Some($crate::operands!(@view in $e, *x, $name)), None => None }
    };
    (@view opt_out $e:tt, $x:expr, $name:expr) => {
        match &$x { Some(_x) => Some($crate::operands!(@view out $e, *_x, $name)), None => None }
    };
    (@view out any, $x:expr, $name:expr) => { $x.dtype() };
    (@view out $e:ty, $x:expr, $name:expr) => { $crate::Written };
    (@view $read:tt any, $x:expr, $name:expr) => { $x.info($name, $crate::operands!(@role $read)).operand };
    (@view $read:tt $e:ty, $x:expr, $name:expr) => { $x.layout() };

    // Erases the type of an argument.
    (@borrowed in any, $x:expr) => { $crate::Borrowed::Read($x.shorten()) };
    (@borrowed in $e:ty, $x:expr) => { $crate::Borrowed::Read($x.shorten().any()) };
    (@borrowed $written:tt any, $x:expr) => { $crate::Borrowed::Write($x.reborrow()) };
    (@borrowed $written:tt $e:ty, $x:expr) => { $crate::Borrowed::Write($x.reborrow().any()) };

    // Restores the type of an argument; `None` if it is missing or has another type or role.
    (@take in any, $lent:expr) => { $lent.and_then($crate::Borrowed::read) };
    (@take in $e:ty, $lent:expr) => { $lent.and_then($crate::Borrowed::read).and_then(|x| x.typed::<$e>()) };
    (@take $written:tt any, $lent:expr) => { $lent.and_then($crate::Borrowed::write) };
    (@take $written:tt $e:ty, $lent:expr) => { $lent.and_then($crate::Borrowed::write).and_then(|x| x.typed::<$e>()) };

    (@map opt $e:tt, $x:expr, $change:ident, $slot:expr) => {
        match $x {
            Some(x) => $crate::operands!(@take in $e, $change($slot, $crate::operands!(@borrowed in $e, x))).map(Some),
            None => Some(None),
        }
    };
    (@map opt_out $e:tt, $x:expr, $change:ident, $slot:expr) => {
        match &mut $x {
            Some(x) => $crate::operands!(@take out $e, $change($slot, $crate::operands!(@borrowed out $e, x))).map(Some),
            None => Some(None),
        }
    };
    (@map $mode:tt $e:tt, $x:expr, $change:ident, $slot:expr) => {
        $crate::operands!(@take $mode $e, $change($slot, $crate::operands!(@borrowed $mode $e, $x)))
    };

    (@build opt $e:tt, $given:expr) => {
        match $given { Some(x) => $crate::operands!(@take in $e, Some(x)).map(Some), None => Some(None) }
    };
    (@build opt_out $e:tt, $given:expr) => {
        match $given { Some(x) => $crate::operands!(@take out $e, Some(x)).map(Some), None => Some(None) }
    };
    (@build $mode:tt $e:tt, $given:expr) => { $crate::operands!(@take $mode $e, $given) };
}

/// Stands for an `out` operand in an op's `Shapes`, since the shape rule computes its shape.
#[derive(Clone, Copy, Debug)]
pub struct Written;
