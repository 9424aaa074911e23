//! The one macro of this crate that writes more than a line: an op's operands.
//!
//! Generic parameters are not hygienic, so those of the macro have long names.

/// Declares the tensors of an op.
///
/// `operands!(RmsNorm<T: Float, W: Float> { x: in T, weight: in W, y: out T })` writes
///
/// * `RmsNormArgs<'a, S, T, W>`: the tensors of one call, a view for each operand;
/// * `RmsNormShapes<'a>`: the layouts of what is read, which [`Op::infer`](crate::Op::infer) gets;
/// * `RmsNormOwned<S, T, W>`: a tensor for each operand, which combinators use for copies;
/// * `impl Signature for RmsNorm<T, W>`, the plumbing between the three.
///
/// The modes are `in` (read), `opt` (read, may be absent), `out` (written) and `inout`. Operands
/// stand in the order of the op's contract, and every type parameter is used by some operand.
/// Optional operands come with `Option<..>` fields.
#[macro_export]
macro_rules! operands {
    ($Op:ident<$($G:ident: $Bound:path),+> { $($name:ident: $mode:tt $e:ty),+ $(,)? }) => { $crate::__paste! {
        #[doc = concat!("The tensors of one call of [`", stringify!($Op), "`](struct@", stringify!($Op), ").")]
        #[allow(missing_docs)]
        pub struct [<$Op Args>]<'a, Here: $crate::Space, $($G: $Bound),+> {
            $(pub $name: $crate::operands!(@arg $mode, 'a, Here, $e)),+
        }

        #[doc = concat!("The layouts that the shape rule of [`", stringify!($Op), "`](struct@", stringify!($Op), ") reads.")]
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug)]
        pub struct [<$Op Shapes>]<'a> {
            $(pub $name: $crate::operands!(@shape $mode, 'a)),+
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
                let (name, role, dtype, layout) = [$((
                    stringify!($name),
                    $crate::operands!(@role $mode),
                    $crate::DType::of::<$e>(),
                    $crate::operands!(@layout $mode, self.$name),
                )),+].get(index).copied()?;
                Some($crate::Operand { name, role, dtype, layout: layout? })
            }
        }

        impl<$($G: $Bound),+> $crate::Signature for $Op<$($G),+> {
            type Args<'a, Here: $crate::Space> = [<$Op Args>]<'a, Here, $($G),+>;
            type Shapes<'a> = [<$Op Shapes>]<'a>;
            type Owned<Here: $crate::Space> = [<$Op Owned>]<Here, $($G),+>;
            type Outputs = [$crate::Shape; 0 $(+ $crate::operands!(@count $mode))+];

            #[inline]
            fn shapes<'s, Here: $crate::Space>(args: &'s Self::Args<'_, Here>) -> Self::Shapes<'s> {
                [<$Op Shapes>] { $($name: $crate::operands!(@view $mode, args.$name)),+ }
            }
            #[inline]
            #[allow(unused_variables, unused_mut)]
            fn check_views<Here: $crate::Space>(
                op: &'static str,
                args: &Self::Args<'_, Here>,
                outputs: &Self::Outputs,
            ) -> $crate::Result<()> {
                // An element that lies about its size does not compile.
                $(let _ = $crate::DType::of::<$e>();)+
                let mut outputs = outputs.iter();
                $($crate::operands!(@check $mode, op, stringify!($name), args.$name, outputs);)+
                Ok(())
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
                Ok([<$Op Owned>] { $($name: $crate::operands!(@mirror $mode, args.$name, from, to)),+ })
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

    (@arg in, $a:lifetime, $S:ident, $e:ty) => { $crate::TensorRef<$a, $S, $e> };
    (@arg opt, $a:lifetime, $S:ident, $e:ty) => { Option<$crate::TensorRef<$a, $S, $e>> };
    (@arg $written:ident, $a:lifetime, $S:ident, $e:ty) => { $crate::TensorMut<$a, $S, $e> };

    (@shape opt, $a:lifetime) => { Option<&$a $crate::Layout> };
    (@shape out, $a:lifetime) => { $crate::Written };
    (@shape $read:tt, $a:lifetime) => { &$a $crate::Layout };

    (@owned opt, $S:ident, $e:ty) => { Option<$crate::Tensor<$S, $e>> };
    (@owned $given:tt, $S:ident, $e:ty) => { $crate::Tensor<$S, $e> };

    (@role out) => { $crate::Role::Out };
    (@role inout) => { $crate::Role::InOut };
    (@role $read:tt) => { $crate::Role::In };

    (@layout opt, $x:expr) => { $x.as_ref().map(|t| $crate::View::layout(t)) };
    (@layout $given:tt, $x:expr) => { Some($crate::View::layout(&$x)) };

    (@view opt, $x:expr) => { $x.as_ref().map(|t| $crate::View::layout(t)) };
    (@view out, $x:expr) => { $crate::Written };
    (@view $read:tt, $x:expr) => { $crate::View::layout(&$x) };

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

    (@mirror in, $x:expr, $from:ident, $to:ident) => { $crate::mirror::copy($x, $from, $to)? };
    (@mirror opt, $x:expr, $from:ident, $to:ident) => {
        match $x { Some(t) => Some($crate::mirror::copy(t, $from, $to)?), None => None }
    };
    (@mirror inout, $x:expr, $from:ident, $to:ident) => { $crate::mirror::copy($x.as_ref(), $from, $to)? };
    (@mirror out, $x:expr, $from:ident, $to:ident) => { $crate::mirror::like($x.as_ref(), $from, $to)? };

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
