//! Reductions in plain loops: integers, f64 and products.
use super::vectors::{TaskResult, unsupported_dtype};
use crate::host::raw::on_num;
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::ReduceFn;
use ops_core::{DType, Num, Scalar, Wide};

/// Number of partial results per row: they limit the rounding error of long sums, and let the compiler use
/// vectors.
const LANES: usize = 16;

/// Calls a function with each contiguous part of a row.
type RowParts<'p> = &'p mut dyn FnMut(&mut dyn FnMut(&[u8]) -> TaskResult) -> TaskResult;
/// Calls a function with the positions of rows, a few at a time, and the index of the first of these.
type Rows<'r> = &'r dyn Fn(&mut dyn FnMut(&[usize], usize) -> TaskResult) -> TaskResult;

/// The type in which elements of `T` are reduced: integers in their own type, floats in f64.
pub(super) trait Wider: Num {
    type In: Num;
    fn wider(self) -> Self::In;
    fn narrower(v: Self::In) -> Self;
}
macro_rules! wider {
    ($($t:ty: $in:ty;)+) => {$(
        impl Wider for $t {
            type In = $in;
            #[inline] fn wider(self) -> $in { <$in as Scalar>::from_wide(self.to_wide()) }
            #[inline] fn narrower(v: $in) -> Self { <$t as Scalar>::from_wide(v.to_wide()) }
        }
    )+};
}
wider! {
    u8: u8; i8: i8; i16: i16; i32: i32; u32: u32; i64: i64;
    f64: f64; f32: f64; ops_core::f16: f64; ops_core::bf16: f64;
}

/// The result for no elements, and how to combine two results. Maxima start from the first element.
fn start<A: Num>(f: ReduceFn, first: A) -> A {
    match f {
        ReduceFn::Sum | ReduceFn::Mean => A::from_wide(Wide::Int(0)),
        ReduceFn::Prod => A::from_wide(Wide::Int(1)),
        _ => first,
    }
}
fn join<A: Num>(f: ReduceFn) -> fn(A, A) -> A {
    match f {
        ReduceFn::Max => A::maximum,
        ReduceFn::Min => A::minimum,
        ReduceFn::Prod => A::mul,
        _ => A::add,
    }
}

/// A loop over a slice, with the function known to the compiler.
macro_rules! with_join {
    ($f:expr, $A:ty, $join:ident => $body:expr) => {
        match $f {
            ReduceFn::Max => {
                let $join = <$A as Num>::maximum;
                $body
            }
            ReduceFn::Min => {
                let $join = <$A as Num>::minimum;
                $body
            }
            ReduceFn::Prod => {
                let $join = <$A as Num>::mul;
                $body
            }
            _ => {
                let $join = <$A as Num>::add;
                $body
            }
        }
    };
}

fn finish<T: Wider>(f: ReduceFn, v: T::In, n: usize) -> T {
    let n = T::In::from_wide(Wide::Float(n as f64));
    T::narrower(if f == ReduceFn::Mean { v.div(n) } else { v })
}

/// One output of `n` elements.
pub(super) fn row(f: ReduceFn, dtype: DType, parts: RowParts<'_>, n: usize, y: &mut [u8]) -> TaskResult {
    on_num!(dtype, T => {
        let mut lanes: Option<[<T as Wider>::In; LANES]> = None;
        parts(&mut |x| {
            let x = cast_slice::<u8, T>(x);
            if let Some(first) = x.first() {
                fold(f, x, lanes.get_or_insert_with(|| [start(f, first.wider()); LANES]));
            }
            Ok(())
        })?;
        let zero = <T as Wider>::In::from_wide(Wide::Int(0));
        let mut lanes = lanes.unwrap_or_else(|| [start(f, zero); LANES]);
        let (join, mut width) = (join::<<T as Wider>::In>(f), LANES / 2);
        while width > 0 {
            for i in 0..width {
                lanes[i] = join(lanes[i], lanes[i + width]);
            }
            width /= 2;
        }
        // The mean of no elements is 0 / 0.
        cast_slice_mut::<u8, T>(y).fill(finish::<T>(f, lanes[0], n));
        Ok(())
    }, else Err(unsupported_dtype(dtype)))
}

fn fold<T: Wider>(f: ReduceFn, x: &[T], lanes: &mut [T::In; LANES]) {
    let (whole, rest) = x.as_chunks::<LANES>();
    with_join!(f, T::In, join => {
        for chunk in whole {
            for (lane, v) in lanes.iter_mut().zip(chunk) {
                *lane = join(*lane, v.wider());
            }
        }
        for (lane, v) in lanes.iter_mut().zip(rest) {
            *lane = join(*lane, v.wider());
        }
    });
}

/// Neighbouring outputs of `n` elements each. `rows` gives the positions in `x` of the rows to reduce.
pub(super) fn columns(
    f: ReduceFn,
    dtype: DType,
    rows: Rows<'_>,
    x: &[u8],
    n: usize,
    y: &mut [u8],
) -> TaskResult {
    on_num!(dtype, T => {
        let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
        let mut acc: Vec<<T as Wider>::In> = vec![start(f, <T as Wider>::In::from_wide(Wide::Int(0))); y.len()];
        rows(&mut |starts, done| {
            for (i, first) in starts.iter().enumerate() {
                let x = &x[*first..][..acc.len()];
                if done + i == 0 && f.selects() {
                    acc.iter_mut().zip(x).for_each(|(acc, v)| *acc = v.wider());
                }
                with_join!(f, <T as Wider>::In, join => {
                    acc.iter_mut().zip(x).for_each(|(acc, v)| *acc = join(*acc, v.wider()));
                });
            }
            Ok(())
        })?;
        y.iter_mut().zip(acc).for_each(|(y, acc)| *y = finish::<T>(f, acc, n));
        Ok(())
    }, else Err(unsupported_dtype(dtype)))
}

/// The index of the largest or smallest element: of the first NaN, otherwise of the first among equal elements.
pub(super) fn arg<T: Num + PartialOrd>(smallest: bool, x: &[T]) -> usize {
    let nan = |v: T| matches!(v.to_wide(), Wide::Float(v) if v.is_nan());
    if let (true, Some(at)) = (T::IS_FLOAT, x.iter().position(|v| nan(*v))) {
        return at;
    }
    let wins = |a: T, b: T| if smallest { a < b } else { a > b };
    (1..x.len()).fold(0, |best, i| if wins(x[i], x[best]) { i } else { best })
}
