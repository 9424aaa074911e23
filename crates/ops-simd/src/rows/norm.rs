//! Norms over rows.

use super::driver::{RowMap, as_f32, map_rows, round_approx, same_element_type, same_type};
use super::fold::{Squares, total};
use super::reduce::shifted_moments;
use crate::binary::Add;
use crate::element::{Element, TypedOperands, View, ViewMut};
use crate::error::{Error, rows, same_len};
use crate::isa::{Isa, Run};
use crate::map::elementwise;
use crate::scratch::Scratch;
use crate::simd::pair::Pair;
use crate::simd::{Simd, VectorFn};
use crate::store::Store;

/// y = x / √(mean(x²) + eps) · weight, over rows as long as `weight`.
///
/// # Errors
/// [`Error::Length`] if `x` and `y` differ in length, [`Error::Multiple`] if they do not consist of whole rows.
pub fn rms_norm<X: Element, W: Element, Y: Element>(
    isa: Isa,
    x: &[X],
    weight: &[W],
    eps: f32,
    y: &mut [Y],
    store: Store,
) -> Result<(), Error> {
    same_len("y", y.len(), x.len())?;
    rows("x", x.len(), weight.len())?;
    rms_norm_views(isa, X::view(x), W::view(weight), eps, Y::view_mut(y), store);
    Ok(())
}

// 16-bit rows use 16-bit weights unconverted; an f32 copy would evict the row from the L1 cache.
fn rms_norm_views(isa: Isa, x: View<'_>, weight: View<'_>, eps: f32, y: ViewMut<'_>, store: Store) {
    let n = weight.len();
    match (x, weight, y, isa.native()) {
        (View::F16(x), View::F16(weight), ViewMut::F16(y), Some(native)) => {
            same_type(native, x, y, n, store, RmsNorm { weight, eps })
        }
        (View::Bf16(x), View::Bf16(weight), ViewMut::Bf16(y), Some(native)) => {
            same_type(native, x, y, n, store, RmsNorm { weight, eps })
        }
        (x, weight, y, _) => {
            let mut wide = Scratch::new(0);
            map_rows(isa, x, y, n, store, RmsNorm { weight: as_f32(isa, weight, &mut wide), eps })
        }
    }
}

#[derive(Clone, Copy)]
struct RmsNorm<'a, W> {
    weight: &'a [W],
    eps: f32,
}

impl<W: Element> RowMap for RmsNorm<'_, W> {
    #[inline(always)]
    fn row<S: Simd, T: Element>(self, s: S, x: &[T], y: &mut [T], _scratch: &mut [f32]) {
        scale_row(s, x, self.weight, rms_scale(total(s, x, Squares), x.len(), self.eps), y);
    }
}

/// 1 / √(squares / n + eps)
#[inline(always)]
fn rms_scale(squares: f64, n: usize, eps: f32) -> f32 {
    (1.0 / (squares / n as f64 + f64::from(eps)).sqrt()) as f32
}

/// y = x · scale · weight
#[inline(always)]
fn scale_row<S: Simd, T: Element, W: Element>(s: S, x: &[T], weight: &[W], scale: f32, y: &mut [T]) {
    write_row(s, x, [weight], y, Times(scale));
}

/// y = x / √(Σx² + eps), over rows of length `n`.
///
/// # Errors
/// [`Error::Length`] if `x` and `y` differ in length, [`Error::Multiple`] if they do not consist of whole rows.
pub fn l2_norm<X: Element, Y: Element>(
    isa: Isa,
    x: &[X],
    n: usize,
    eps: f32,
    y: &mut [Y],
    store: Store,
) -> Result<(), Error> {
    same_len("y", y.len(), x.len())?;
    rows("x", x.len(), n)?;
    map_rows(isa, X::view(x), Y::view_mut(y), n, store, L2Norm { eps });
    Ok(())
}

#[derive(Clone, Copy)]
struct L2Norm {
    eps: f32,
}

impl RowMap for L2Norm {
    #[inline(always)]
    fn row<S: Simd, T: Element>(self, s: S, x: &[T], y: &mut [T], _scratch: &mut [f32]) {
        let scale = (1.0 / (total(s, x, Squares) + f64::from(self.eps)).sqrt()) as f32;
        write_row::<S, T, T, _, 0>(s, x, [], y, Times(scale));
    }
}

/// A function of an element of a row and the weights at its index.
trait Weighted<const N: usize>: Copy {
    fn eval<S: Simd>(self, s: S, x: S::F, weights: [S::F; N]) -> S::F;
}

/// x · scale
#[derive(Clone, Copy)]
struct Times(f32);

impl Weighted<1> for Times {
    #[inline(always)]
    fn eval<S: Simd>(self, s: S, x: S::F, [weight]: [S::F; 1]) -> S::F {
        s.mul(s.mul(x, s.splat(self.0)), weight)
    }
}

impl Weighted<0> for Times {
    #[inline(always)]
    fn eval<S: Simd>(self, s: S, x: S::F, _: [S::F; 0]) -> S::F {
        s.mul(x, s.splat(self.0))
    }
}

/// y\[i\] = f(x\[i\], weights\[..\]\[i\]); the weights have the row's type or f32.
#[inline(always)]
fn write_row<S: Simd, T: Element, W: Element, F: Weighted<N>, const N: usize>(
    s: S,
    x: &[T],
    weights: [&[W]; N],
    y: &mut [T],
    f: F,
) {
    let same = same_element_type::<T, W>();
    let n = y.len();
    let (x, pair) = (&x[..n], Pair(s));
    let mut at = 0;
    while n - at >= 2 * S::LANES {
        let end = at + 2 * S::LANES;
        // Rows are contiguous, so prefetch the next one while this one is written.
        s.prefetch_far(x.as_ptr().wrapping_add(n + at));
        s.prefetch_far(x.as_ptr().wrapping_add(n + at + S::LANES));
        let mut w = [pair.splat(0.0); N];
        for (w, weight) in w.iter_mut().zip(weights) {
            let weight = &weight[at..end];
            *w = if same { W::load_two(s, weight) } else { W::load(pair, weight) };
        }
        let (x, y) = (&x[at..end], &mut y[at..end]);
        if same {
            T::store_two_approx(s, y, f.eval(pair, T::load_two(s, x), w));
        } else {
            T::store(pair, y, f.eval(pair, T::load(pair, x), w));
        }
        at = end;
    }
    while at < n {
        let end = n.min(at + S::LANES);
        let mut w = [s.splat(0.0); N];
        for (w, weight) in w.iter_mut().zip(weights) {
            *w = W::load_partial(s, &weight[at..end], 0.0);
        }
        let v = f.eval(s, T::load_partial(s, &x[at..end], 0.0), w);
        T::store_partial(s, &mut y[at..end], round_approx::<S, T, W>(s, v));
        at = end;
    }
}

/// sum = x + residual, rounded to `T`; y = rms_norm(sum).
///
/// # Errors
/// [`Error::Length`] if the operands differ in length, [`Error::Multiple`] if they do not consist of whole rows.
pub fn add_rms_norm<T: Element, W: Element>(
    isa: Isa,
    x: &[T],
    residual: &[T],
    weight: &[W],
    eps: f32,
    y: &mut [T],
    sum: &mut [T],
) -> Result<(), Error> {
    same_len("residual", residual.len(), x.len())?;
    same_len("y", y.len(), x.len())?;
    same_len("sum", sum.len(), x.len())?;
    rows("x", x.len(), weight.len())?;
    add_rms_norm_views(isa, W::view(weight), eps, T::typed_operands([x, residual], [y, sum]));
    Ok(())
}

fn add_rms_norm_views(isa: Isa, weight: View<'_>, eps: f32, operands: TypedOperands<'_, 2, 2>) {
    match (operands, weight, isa.native()) {
        (TypedOperands::F16([x, residual], [y, sum]), View::F16(weight), Some(native)) => {
            native.run(AddRmsNorm { x, residual, weight, eps, y, sum })
        }
        (TypedOperands::Bf16([x, residual], [y, sum]), View::Bf16(weight), Some(native)) => {
            native.run(AddRmsNorm { x, residual, weight, eps, y, sum })
        }
        (operands, weight, _) => {
            let mut wide = Scratch::new(0);
            add_rms_norm_wide(isa, as_f32(isa, weight, &mut wide), eps, operands)
        }
    }
}

fn add_rms_norm_wide(isa: Isa, weight: &[f32], eps: f32, operands: TypedOperands<'_, 2, 2>) {
    match (operands, isa.native()) {
        (TypedOperands::F32([x, residual], [y, sum]), _) => {
            isa.run(AddRmsNorm { x, residual, weight, eps, y, sum })
        }
        (TypedOperands::F16([x, residual], [y, sum]), Some(native)) => {
            native.run(AddRmsNorm { x, residual, weight, eps, y, sum })
        }
        (TypedOperands::Bf16([x, residual], [y, sum]), Some(native)) => {
            native.run(AddRmsNorm { x, residual, weight, eps, y, sum })
        }
        (TypedOperands::F16(x, [y, sum]), None) => add_then_norm(isa, weight, eps, x, y, sum),
        (TypedOperands::Bf16(x, [y, sum]), None) => add_then_norm(isa, weight, eps, x, y, sum),
    }
}

/// The same in two steps.
fn add_then_norm<T: Element>(isa: Isa, weight: &[f32], eps: f32, x: [&[T]; 2], y: &mut [T], sum: &mut [T]) {
    elementwise(isa, Add, x, sum, Store::Cached);
    rms_norm_views(isa, T::view(sum), View::F32(weight), eps, T::view_mut(y), Store::Cached);
}

struct AddRmsNorm<'a, T, W> {
    x: &'a [T],
    residual: &'a [T],
    weight: &'a [W],
    eps: f32,
    y: &'a mut [T],
    sum: &'a mut [T],
}

impl<T: Element, W: Element> VectorFn for AddRmsNorm<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.weight.len();
        if n == 0 {
            return;
        }
        let inputs = self.x.chunks_exact(n).zip(self.residual.chunks_exact(n));
        let outputs = self.y.chunks_exact_mut(n).zip(self.sum.chunks_exact_mut(n));
        for ((x, residual), (y, sum)) in inputs.zip(outputs) {
            add_row(s, x, residual, sum);
            scale_row(s, sum, self.weight, rms_scale(total(s, sum, Squares), n, self.eps), y);
        }
    }
}

#[inline(always)]
fn add_row<S: Simd, T: Element>(s: S, a: &[T], b: &[T], y: &mut [T]) {
    let n = y.len();
    let (a, b) = (&a[..n], &b[..n]);
    let mut at = 0;
    while n - at >= S::LANES {
        let v = s.add(T::load(s, &a[at..at + S::LANES]), T::load(s, &b[at..at + S::LANES]));
        T::store(s, &mut y[at..at + S::LANES], v);
        at += S::LANES;
    }
    if at < n {
        let v = s.add(T::load_partial(s, &a[at..], 0.0), T::load_partial(s, &b[at..], 0.0));
        T::store_partial(s, &mut y[at..], v);
    }
}

/// y = (x − mean) / √(variance + eps) · weight + bias, over rows as long as `weight`; the variance is biased.
///
/// # Errors
/// [`Error::Length`] if `x` and `y` or `weight` and `bias` differ in length, [`Error::Multiple`] if they do not consist of
/// whole rows.
pub fn layer_norm<X: Element, W: Element, Y: Element>(
    isa: Isa,
    x: &[X],
    weight: &[W],
    bias: Option<&[W]>,
    eps: f32,
    y: &mut [Y],
    store: Store,
) -> Result<(), Error> {
    same_len("y", y.len(), x.len())?;
    rows("x", x.len(), weight.len())?;
    // Adding −0 changes nothing, not even the sign of a zero.
    let mut none = Scratch::new(if bias.is_some() { 0 } else { weight.len() });
    none.fill(W::from_f32(-0.0));
    let bias = bias.unwrap_or(&none);
    same_len("bias", bias.len(), weight.len())?;
    layer_norm_views(isa, X::view(x), [W::view(weight), W::view(bias)], eps, Y::view_mut(y), store);
    Ok(())
}

fn layer_norm_views(isa: Isa, x: View<'_>, by: [View<'_>; 2], eps: f32, y: ViewMut<'_>, store: Store) {
    let n = by[0].len();
    match (x, by, y, isa.native()) {
        (View::F16(x), [View::F16(weight), View::F16(bias)], ViewMut::F16(y), Some(native)) => {
            same_type(native, x, y, n, store, LayerNorm { weight, bias, eps })
        }
        (View::Bf16(x), [View::Bf16(weight), View::Bf16(bias)], ViewMut::Bf16(y), Some(native)) => {
            same_type(native, x, y, n, store, LayerNorm { weight, bias, eps })
        }
        (x, [weight, bias], y, _) => {
            let mut wide = [Scratch::new(0), Scratch::new(0)];
            let [a, b] = &mut wide;
            let (weight, bias) = (as_f32(isa, weight, a), as_f32(isa, bias, b));
            map_rows(isa, x, y, n, store, LayerNorm { weight, bias, eps })
        }
    }
}

#[derive(Clone, Copy)]
struct LayerNorm<'a, W> {
    weight: &'a [W],
    bias: &'a [W],
    eps: f32,
}

impl<W: Element> RowMap for LayerNorm<'_, W> {
    #[inline(always)]
    fn row<S: Simd, T: Element>(self, s: S, x: &[T], y: &mut [T], _scratch: &mut [f32]) {
        write_row(s, x, [self.weight, self.bias], y, Normalise::of(s, x, self.eps));
    }
}

/// y = (x − mean) / √(variance + eps) · weight + bias for one group of channels, which follow one another and have a weight and a
/// bias each; mean and variance are the group's, and the variance is biased.
///
/// # Errors
/// [`Error::Length`] if `x` and `y` or `weight` and `bias` differ in length, [`Error::Multiple`] if `x` does not consist of as many
/// channels of one length as there are weights.
pub fn group_norm<X: Element, Y: Element>(
    isa: Isa,
    x: &[X],
    [weight, bias]: [&[f32]; 2],
    eps: f32,
    y: &mut [Y],
    store: Store,
) -> Result<(), Error> {
    same_len("y", y.len(), x.len())?;
    same_len("bias", bias.len(), weight.len())?;
    rows("x", x.len(), weight.len())?;
    map_rows(isa, X::view(x), Y::view_mut(y), x.len(), store, GroupNorm { weight, bias, eps });
    Ok(())
}

#[derive(Clone, Copy)]
struct GroupNorm<'a> {
    weight: &'a [f32],
    bias: &'a [f32],
    eps: f32,
}

impl RowMap for GroupNorm<'_> {
    #[inline(always)]
    fn row<S: Simd, T: Element>(self, s: S, x: &[T], y: &mut [T], _scratch: &mut [f32]) {
        let (normalise, inner) = (Normalise::of(s, x, self.eps), x.len() / self.weight.len());
        let channels = x.chunks_exact(inner).zip(y.chunks_exact_mut(inner));
        for ((x, y), (weight, bias)) in channels.zip(self.weight.iter().zip(self.bias)) {
            write_row::<S, T, T, _, 0>(s, x, [], y, Channel { normalise, weight: *weight, bias: *bias });
        }
    }
}

#[derive(Clone, Copy)]
struct Channel {
    normalise: Normalise,
    weight: f32,
    bias: f32,
}

impl Weighted<0> for Channel {
    #[inline(always)]
    fn eval<S: Simd>(self, s: S, x: S::F, _: [S::F; 0]) -> S::F {
        self.normalise.eval(s, x, [s.splat(self.weight), s.splat(self.bias)])
    }
}

/// (x − first) · scale + offset, where `first` is near the mean, so `offset` is small and loses no precision.
#[derive(Clone, Copy)]
struct Normalise {
    first: f32,
    scale: f32,
    offset: f32,
}

impl Normalise {
    #[inline(always)]
    fn of<S: Simd, T: Element>(s: S, row: &[T], eps: f32) -> Self {
        let moments = shifted_moments(s, row);
        let scale = (1.0 / (f64::from(moments.variance) + f64::from(eps)).sqrt()) as f32;
        Normalise { first: moments.first, scale, offset: -moments.mean * scale }
    }
}

impl Weighted<2> for Normalise {
    #[inline(always)]
    fn eval<S: Simd>(self, s: S, x: S::F, [weight, bias]: [S::F; 2]) -> S::F {
        let deviation = s.sub(x, s.splat(self.first));
        let normal = s.mul_add(deviation, s.splat(self.scale), s.splat(self.offset));
        s.mul_add(normal, weight, bias)
    }
}
