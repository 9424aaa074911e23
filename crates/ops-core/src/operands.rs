//! The one macro of this crate that writes more than a line: an op's operands.
//!
//! Generic parameters are not hygienic, so those of the macro have long names.

/// Declares the tensors of an op.
///
/// `operands!(RmsNorm<T: Float> { x: in T, weight: in any, y: out T })` writes
///
/// * `RmsNormArgs<'a, S, T>`: the tensors of one call, a view for each operand;
/// * `RmsNormShapes<'a>`: what the rule, [`Op::infer`](crate::Op::infer), gets of those that are read;
/// * `RmsNormOwned<S, T>`: a tensor for each operand, which combinators use for copies;
/// * `impl Signature for RmsNorm<T>`, the plumbing between the three.
///
/// The modes are `in` (read), `opt` (read, may be absent), `out` (written) and `inout`. The type of an operand is a parameter
/// of the op, a fixed element type, or, for what is read, `any`: a value, which the rule checks ([`Operand::require`]). Of
/// an operand of `any` type the rule gets an [`Operand`], of others the [`Layout`](crate::Layout).
///
/// Operands stand in the order of the op's contract, and every type parameter is used by some operand. Optional operands
/// come with `Option<..>` fields.
///
/// [`Operand`]: crate::Operand
/// [`Operand::require`]: crate::Operand::require
#[macro_export]
macro_rules! operands {
    ($Op:ident<$($G:ident: $Bound:path),+> { $($name:ident: $mode:tt $e:tt),+ $(,)? }) => { $crate::__paste! {
        #[doc = concat!("The tensors of one call of [`", stringify!($Op), "`](struct@", stringify!($Op), ").")]
        #[allow(missing_docs)]
        pub struct [<$Op Args>]<'a, Here: $crate::Space, $($G: $Bound),+> {
            $(pub $name: $crate::operands!(@arg $mode, 'a, Here, $e)),+
        }

        #[doc = concat!("The layouts that the shape rule of [`", stringify!($Op), "`](struct@", stringify!($Op), ") reads.")]
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug)]
        pub struct [<$Op Shapes>]<'a> {
            $(pub $name: $crate::operands!(@shape $mode $e, 'a)),+
        }

        #[doc = concat!("A tensor for every operand of [`", stringify!($Op), "`](struct@", stringify!($Op), ").")]
        #[allow(missing_docs)]
        pub struct [<$Op Owned>]<Here: $crate::Space, $($G: $Bound),+> {
            $(pub $name: $crate::operands!(@owned $mode, Here, $e)),+
        }

        impl<Here: $crate::Space, $($G: $Bound),+> $crate::Operands for [<$Op Args>]<'_, Here, $($G),+> {
            #[inline]
            fn count(&self) -> usize {
                [$(stringify!($name)),+].len()
            }
            #[inline]
            fn operand(&self, index: usize) -> Option<$crate::Operand<'_>> {
                let (name, role, seen) = [$((
                    stringify!($name),
                    $crate::operands!(@role $mode),
                    $crate::operands!(@seen $mode $e, self.$name),
                )),+].get(index).copied()?;
                let (dtype, layout) = seen?;
                Some($crate::Operand { name, role, dtype, layout })
            }
        }

        impl<$($G: $Bound),+> $crate::Signature for $Op<$($G),+> {
            type Args<'a, Here: $crate::Space> = [<$Op Args>]<'a, Here, $($G),+>;
            type Shapes<'a> = [<$Op Shapes>]<'a>;
            type Owned<Here: $crate::Space> = [<$Op Owned>]<Here, $($G),+>;
            type Outputs = [$crate::Shape; 0 $(+ $crate::operands!(@count $mode))+];

            #[inline]
            fn shapes<'s, Here: $crate::Space>(args: &'s Self::Args<'_, Here>) -> Self::Shapes<'s> {
                [<$Op Shapes>] { $($name: $crate::operands!(@view $mode $e, $name, args.$name)),+ }
            }
            #[inline]
            #[allow(unused_variables, unused_mut)]
            fn check_views<Here: $crate::Space>(
                op: &'static str,
                args: &Self::Args<'_, Here>,
                outputs: &Self::Outputs,
            ) -> $crate::Result<()> {
                // An element that lies about its size does not compile.
                $($crate::operands!(@honest $e);)+
                let mut outputs = outputs.iter();
                $($crate::operands!(@check $mode, op, stringify!($name), args.$name, outputs);)+
                Ok(())
            }
            #[allow(unused_assignments)]
            fn views<'s, Here: $crate::Space>(
                args: &'s Self::Args<'_, Here>,
                see: &mut dyn FnMut(usize, $crate::Role, $crate::AnyRef<'s, Here>),
            ) {
                let mut place = 0;
                $(
                    $crate::operands!(@show $mode $e, args.$name, place, see);
                    place += 1;
                )+
            }
            #[inline]
            fn reborrow<'s, Here: $crate::Space>(args: &'s mut Self::Args<'_, Here>) -> Self::Args<'s, Here> {
                [<$Op Args>] { $($name: $crate::operands!(@reborrow $mode, args.$name)),+ }
            }
            #[inline]
            fn side<'s, Here: $crate::Contains<There, WhichSide>, There: $crate::Space, WhichSide>(
                args: &'s mut Self::Args<'_, Here>,
            ) -> Option<Self::Args<'s, There>> {
                Some([<$Op Args>] { $($name: $crate::operands!(@side $mode, args.$name, There, WhichSide)),+ })
            }
            fn mirror<FromBackend: $crate::Backend, ToBackend: $crate::Backend>(
                args: &Self::Args<'_, FromBackend::Space>,
                from: &FromBackend,
                to: &ToBackend,
            ) -> $crate::Result<Self::Owned<ToBackend::Space>> {
                Ok([<$Op Owned>] { $($name: $crate::operands!(@mirror $mode $e, args.$name, from, to)),+ })
            }
            fn lend<Here: $crate::Space>(owned: &mut Self::Owned<Here>) -> Self::Args<'_, Here> {
                [<$Op Args>] { $($name: $crate::operands!(@lend $mode, owned.$name)),+ }
            }
            #[allow(unused_variables)]
            fn visit_outputs<Here: $crate::Space, There: $crate::Space>(
                args: &mut Self::Args<'_, Here>,
                mirrored: &Self::Owned<There>,
                visitor: &mut impl $crate::OutputVisitor<Here, There>,
            ) -> $crate::Result<()> {
                $($crate::operands!(@visit $mode, stringify!($name), args.$name, mirrored.$name, visitor);)+
                Ok(())
            }
        }
    } };

    (@honest any) => {};
    (@honest $e:ty) => { let _ = $crate::DType::of::<$e>(); };

    (@arg in, $a:lifetime, $S:ident, any) => { $crate::AnyRef<$a, $S> };
    (@arg in, $a:lifetime, $S:ident, $e:ty) => { $crate::TensorRef<$a, $S, $e> };
    (@arg opt, $a:lifetime, $S:ident, $e:tt) => { Option<$crate::operands!(@arg in, $a, $S, $e)> };
    (@arg $written:ident, $a:lifetime, $S:ident, $e:ty) => { $crate::TensorMut<$a, $S, $e> };

    (@shape in any, $a:lifetime) => { $crate::Operand<$a> };
    (@shape opt $e:tt, $a:lifetime) => { Option<$crate::operands!(@shape in $e, $a)> };
    (@shape out $e:tt, $a:lifetime) => { $crate::Written };
    (@shape $read:tt $e:tt, $a:lifetime) => { &$a $crate::Layout };

    (@owned in, $S:ident, any) => { $crate::AnyTensor<$S> };
    (@owned opt, $S:ident, $e:tt) => { Option<$crate::operands!(@owned in, $S, $e)> };
    (@owned $given:tt, $S:ident, $e:ty) => { $crate::Tensor<$S, $e> };

    (@role out) => { $crate::Role::Out };
    (@role inout) => { $crate::Role::InOut };
    (@role $read:tt) => { $crate::Role::In };

    (@seen in any, $x:expr) => { Some(($x.dtype(), $crate::View::layout(&$x))) };
    (@seen opt any, $x:expr) => { $x.as_ref().map(|t| (t.dtype(), $crate::View::layout(t))) };
    (@seen opt $e:ty, $x:expr) => { $x.as_ref().map(|t| ($crate::DType::of::<$e>(), $crate::View::layout(t))) };
    (@seen $given:tt $e:ty, $x:expr) => { Some(($crate::DType::of::<$e>(), $crate::View::layout(&$x))) };

    (@view in any, $name:ident, $x:expr) => { $x.operand(stringify!($name)) };
    (@view opt any, $name:ident, $x:expr) => { $x.as_ref().map(|t| t.operand(stringify!($name))) };
    (@view opt $e:ty, $name:ident, $x:expr) => { $x.as_ref().map(|t| $crate::View::layout(t)) };
    (@view out $e:ty, $name:ident, $x:expr) => { $crate::Written };
    (@view $read:tt $e:ty, $name:ident, $x:expr) => { $crate::View::layout(&$x) };

    (@show in any, $x:expr, $place:ident, $see:ident) => { $see($place, $crate::Role::In, $x.shorten()) };
    (@show in $e:ty, $x:expr, $place:ident, $see:ident) => { $see($place, $crate::Role::In, $x.shorten().any()) };
    (@show opt $e:tt, $x:expr, $place:ident, $see:ident) => {
        if let Some(t) = $x { $crate::operands!(@show in $e, t, $place, $see) }
    };
    (@show $written:tt $e:ty, $x:expr, $place:ident, $see:ident) => {
        $see($place, $crate::operands!(@role $written), $x.as_ref().any())
    };

    (@count out) => { 1 };
    (@count $other:tt) => { 0 };

    (@check opt, $op:expr, $name:expr, $x:expr, $outputs:ident) => {
        if let Some(t) = &$x { $crate::op::check_read($op, $name, $crate::View::layout(t), t.data_len())? }
    };
    (@check out, $op:expr, $name:expr, $x:expr, $outputs:ident) => {
        if let Some(want) = $outputs.next() {
            $crate::op::check_output($op, $name, $crate::View::layout(&$x), $x.data_len(), want)?
        }
    };
    (@check inout, $op:expr, $name:expr, $x:expr, $outputs:ident) => {
        $crate::op::check_written($op, $name, $crate::View::layout(&$x), $x.data_len())?
    };
    (@check in, $op:expr, $name:expr, $x:expr, $outputs:ident) => {
        $crate::op::check_read($op, $name, $crate::View::layout(&$x), $x.data_len())?
    };

    (@reborrow in, $x:expr) => { $x.shorten() };
    (@reborrow opt, $x:expr) => { $x.map(|t| t.shorten()) };
    (@reborrow $written:tt, $x:expr) => { $x.reborrow() };

    (@side in, $x:expr, $A:ident, $Side:ident) => { $x.shorten().side::<$A, $Side>()? };
    (@side opt, $x:expr, $A:ident, $Side:ident) => {
        match $x { Some(t) => Some(t.shorten().side::<$A, $Side>()?), None => None }
    };
    (@side $written:tt, $x:expr, $A:ident, $Side:ident) => { $x.reborrow().side::<$A, $Side>()? };

    (@mirror in any, $x:expr, $from:ident, $to:ident) => { $crate::mirror::copy_any($x, $from, $to)? };
    (@mirror in $e:ty, $x:expr, $from:ident, $to:ident) => { $crate::mirror::copy($x, $from, $to)? };
    (@mirror opt $e:tt, $x:expr, $from:ident, $to:ident) => {
        match $x { Some(t) => Some($crate::operands!(@mirror in $e, t, $from, $to)), None => None }
    };
    (@mirror inout $e:ty, $x:expr, $from:ident, $to:ident) => { $crate::mirror::copy($x.as_ref(), $from, $to)? };
    (@mirror out $e:ty, $x:expr, $from:ident, $to:ident) => { $crate::mirror::like($x.as_ref(), $from, $to)? };

    (@lend in, $x:expr) => { $x.as_ref() };
    (@lend opt, $x:expr) => { $x.as_ref().map(|t| t.as_ref()) };
    (@lend $written:tt, $x:expr) => { $x.as_mut() };

    (@visit in, $($rest:tt)*) => {};
    (@visit opt, $($rest:tt)*) => {};
    (@visit $written:tt, $name:expr, $x:expr, $m:expr, $visitor:ident) => { $visitor.output($name, $x.reborrow(), &$m)? };
}

/// The place of an `out` operand in an op's `Shapes`: its shape is what the rule computes.
#[derive(Clone, Copy, Debug)]
pub struct Written;
