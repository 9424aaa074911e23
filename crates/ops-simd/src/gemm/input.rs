//! Element types of matrices, and the types that products accumulate in.

use half::{bf16, f16};

use super::matrix::Mat;
use super::transpose::{self, MAX_SIDE};
use crate::element::Element;
use crate::simd::Simd;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// Vectors and numbers of a type that products accumulate in: f32 or f64.
pub trait Accumulator: sealed::Sealed + bytemuck::Pod + Default + Send + Sync {
    /// A vector of it.
    type V<S: Simd>: Copy;
    /// A matrix whose element type is a value.
    type Operand<'a>: Copy;

    /// Lanes in a vector.
    fn lanes<S: Simd>() -> usize;
    /// A vector with `x` in every lane.
    fn splat<S: Simd>(s: S, x: Self) -> Self::V<S>;
    /// Loads a vector from `src`.
    ///
    /// # Safety
    /// `src` must be readable for a vector's lanes, at any alignment.
    unsafe fn load_ptr<S: Simd>(s: S, src: *const Self) -> Self::V<S>;
    /// Stores a vector to `dst`.
    ///
    /// # Safety
    /// `dst` must be writable for a vector's lanes, at any alignment.
    unsafe fn store_ptr<S: Simd>(s: S, dst: *mut Self, v: Self::V<S>);
    /// a + b
    fn add<S: Simd>(s: S, a: Self::V<S>, b: Self::V<S>) -> Self::V<S>;
    /// a · b + c
    fn mul_add<S: Simd>(s: S, a: Self::V<S>, b: Self::V<S>, c: Self::V<S>) -> Self::V<S>;
    /// `sum + a · b` of single numbers.
    fn plus_product(sum: Self, a: Self, b: Self) -> Self;
    /// Whether [`Accumulator::turn`] is implemented.
    const TURNS: bool;
    /// Transposes a square of vectors whose side is a vector's lanes.
    fn turn<S: Simd>(s: S, rows: &mut [Self::V<S>; MAX_SIDE]);
}

/// How an element type of matrices is loaded and widened: f32, f16 and bf16 to f32, and f64 to itself.
pub trait Widen: sealed::Sealed + bytemuck::Pod + Default + Send + Sync {
    /// The type that its products accumulate in.
    type Acc: Accumulator;

    /// Converts to `Acc`, exactly.
    fn widen(self) -> Self::Acc;
    /// Loads a vector from `src`, widened.
    ///
    /// # Safety
    /// `src` must be readable for a vector's lanes, at any alignment.
    unsafe fn load_wide<S: Simd>(s: S, src: *const Self) -> <Self::Acc as Accumulator>::V<S>;
    /// Whether [`Widen::transpose`] is implemented.
    const TRANSPOSES: bool;
    /// Transposes a square whose side is a vector's lanes: element (p, j) moves from `x[j * stride + p]` to `out[p * width +
    /// j]`.
    fn transpose<S: Simd>(s: S, x: &[Self], stride: usize, out: &mut [Self], width: usize);
    /// The same matrix, if its element type is `Acc`.
    fn wide(x: Mat<'_, Self>) -> Option<Mat<'_, Self::Acc>>;
    /// The matrix with its element type as a value.
    fn operand(x: Mat<'_, Self>) -> <Self::Acc as Accumulator>::Operand<'_>;
}

/// A matrix whose type accumulates in f32.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// f32
    F32(Mat<'a, f32>),
    /// f16
    F16(Mat<'a, f16>),
    /// bf16
    Bf16(Mat<'a, bf16>),
}

impl Accumulator for f32 {
    type V<S: Simd> = S::F;
    type Operand<'a> = Operand<'a>;

    #[inline(always)]
    fn lanes<S: Simd>() -> usize {
        S::LANES
    }
    #[inline(always)]
    fn splat<S: Simd>(s: S, x: f32) -> S::F {
        s.splat(x)
    }
    #[inline(always)]
    unsafe fn load_ptr<S: Simd>(s: S, src: *const f32) -> S::F {
        // SAFETY: the caller upholds the same contract.
        unsafe { s.load_ptr(src) }
    }
    #[inline(always)]
    unsafe fn store_ptr<S: Simd>(s: S, dst: *mut f32, v: S::F) {
        // SAFETY: the caller upholds the same contract.
        unsafe { s.store_ptr(dst, v) }
    }
    #[inline(always)]
    fn add<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
    #[inline(always)]
    fn mul_add<S: Simd>(s: S, a: S::F, b: S::F, c: S::F) -> S::F {
        s.mul_add(a, b, c)
    }
    #[inline(always)]
    fn plus_product(sum: f32, a: f32, b: f32) -> f32 {
        sum + a * b
    }
    const TURNS: bool = true;
    #[inline(always)]
    fn turn<S: Simd>(s: S, rows: &mut [S::F; MAX_SIDE]) {
        transpose::turn(s, rows);
    }
}

impl Accumulator for f64 {
    type V<S: Simd> = S::D;
    type Operand<'a> = Mat<'a, f64>;

    #[inline(always)]
    fn lanes<S: Simd>() -> usize {
        S::LANES_F64
    }
    #[inline(always)]
    fn splat<S: Simd>(s: S, x: f64) -> S::D {
        s.splat_f64(x)
    }
    #[inline(always)]
    unsafe fn load_ptr<S: Simd>(s: S, src: *const f64) -> S::D {
        // SAFETY: the caller upholds the same contract.
        unsafe { s.load_f64_ptr(src) }
    }
    #[inline(always)]
    unsafe fn store_ptr<S: Simd>(s: S, dst: *mut f64, v: S::D) {
        // SAFETY: the caller upholds the same contract.
        unsafe { s.store_f64_ptr(dst, v) }
    }
    #[inline(always)]
    fn add<S: Simd>(s: S, a: S::D, b: S::D) -> S::D {
        s.add_f64(a, b)
    }
    #[inline(always)]
    fn mul_add<S: Simd>(s: S, a: S::D, b: S::D, c: S::D) -> S::D {
        s.mul_add_f64(a, b, c)
    }
    #[inline(always)]
    fn plus_product(sum: f64, a: f64, b: f64) -> f64 {
        sum + a * b
    }
    const TURNS: bool = false;
    fn turn<S: Simd>(_: S, _: &mut [S::D; MAX_SIDE]) {}
}

impl Widen for f64 {
    type Acc = f64;

    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
    #[inline(always)]
    unsafe fn load_wide<S: Simd>(s: S, src: *const f64) -> S::D {
        // SAFETY: the caller upholds the same contract.
        unsafe { s.load_f64_ptr(src) }
    }
    const TRANSPOSES: bool = false;

    #[inline(always)]
    fn transpose<S: Simd>(_: S, _: &[Self], _: usize, _: &mut [Self], _: usize) {}
    #[inline(always)]
    fn wide(x: Mat<'_, Self>) -> Option<Mat<'_, Self::Acc>> {
        Some(x)
    }
    #[inline(always)]
    fn operand(x: Mat<'_, f64>) -> Mat<'_, f64> {
        x
    }
}

impl Widen for f32 {
    type Acc = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    unsafe fn load_wide<S: Simd>(s: S, src: *const f32) -> S::F {
        // SAFETY: the caller upholds the same contract.
        unsafe { s.load_ptr(src) }
    }
    const TRANSPOSES: bool = true;

    #[inline(always)]
    fn transpose<S: Simd>(s: S, x: &[Self], stride: usize, out: &mut [Self], width: usize) {
        transpose::transpose(s, x, stride, out, width);
    }
    #[inline(always)]
    fn wide(x: Mat<'_, Self>) -> Option<Mat<'_, Self::Acc>> {
        Some(x)
    }
    #[inline(always)]
    fn operand(x: Mat<'_, f32>) -> Operand<'_> {
        Operand::F32(x)
    }
}

impl Widen for f16 {
    type Acc = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        Element::to_f32(self)
    }
    #[inline(always)]
    unsafe fn load_wide<S: Simd>(s: S, src: *const f16) -> S::F {
        // SAFETY: the caller upholds the same contract.
        unsafe { Element::load_ptr(s, src) }
    }
    const TRANSPOSES: bool = true;

    #[inline(always)]
    fn transpose<S: Simd>(s: S, x: &[Self], stride: usize, out: &mut [Self], width: usize) {
        transpose::transpose(s, x, stride, out, width);
    }
    #[inline(always)]
    fn wide(_: Mat<'_, Self>) -> Option<Mat<'_, Self::Acc>> {
        None
    }
    #[inline(always)]
    fn operand(x: Mat<'_, f16>) -> Operand<'_> {
        Operand::F16(x)
    }
}

impl Widen for bf16 {
    type Acc = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        Element::to_f32(self)
    }
    #[inline(always)]
    unsafe fn load_wide<S: Simd>(s: S, src: *const bf16) -> S::F {
        // SAFETY: the caller upholds the same contract.
        unsafe { Element::load_ptr(s, src) }
    }
    const TRANSPOSES: bool = true;

    #[inline(always)]
    fn transpose<S: Simd>(s: S, x: &[Self], stride: usize, out: &mut [Self], width: usize) {
        transpose::transpose(s, x, stride, out, width);
    }
    #[inline(always)]
    fn wide(_: Mat<'_, Self>) -> Option<Mat<'_, Self::Acc>> {
        None
    }
    #[inline(always)]
    fn operand(x: Mat<'_, bf16>) -> Operand<'_> {
        Operand::Bf16(x)
    }
}
