//! Element types of matrices, and the types that products accumulate in.

use half::{bf16, f16};

use super::blocked::Blocked;
use super::by_row;
use super::direct::{Direct, fits_direct};
use super::matrix::{Mat, MatMut};
use super::pack::{self, MAX_SIDE};
use super::packed::{self, Columns, PackedB, Sums};
#[cfg(target_arch = "x86_64")]
use super::row_avx512::OneRow;
use super::skinny::{self, Skinny};
#[cfg(target_arch = "x86_64")]
use super::{
    bf16_amx,
    bf16_avx512::{self, Bf16Pairs},
};
use crate::element::Element;
use crate::isa::Isa;
use crate::simd::Simd;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// A type that products accumulate in: f32 or f64.
pub trait Scalar: sealed::Sealed + bytemuck::Pod + Default + Send + Sync {
    /// A vector of this type.
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
    /// Whether [`Scalar::turn`] is implemented.
    const TURNS: bool;
    /// Transposes a square of vectors whose side is a vector's lanes.
    fn turn<S: Simd>(s: S, rows: &mut [Self::V<S>; MAX_SIDE]);

    /// C = A·B or C += A·B; the dimensions must match.
    fn product(isa: Isa, a: Self::Operand<'_>, b: Self::Operand<'_>, c: MatMut<'_, Self>, accumulate: bool);
    /// As [`product`](Self::product), summed in an order that depends on the depth and the strides of B alone.
    fn product_by_row(
        isa: Isa,
        a: Self::Operand<'_>,
        b: Self::Operand<'_>,
        c: MatMut<'_, Self>,
        accumulate: bool,
    );
}

/// An element type of matrices: f32, f16 and bf16 accumulate in f32, and f64 in f64.
pub trait Input: sealed::Sealed + bytemuck::Pod + Default + Send + Sync {
    /// The type that its products accumulate in.
    type Acc: Scalar;

    /// Converts to `Acc`, exactly.
    fn widen(self) -> Self::Acc;
    /// Loads a vector from `src`, widened.
    ///
    /// # Safety
    /// `src` must be readable for a vector's lanes, at any alignment.
    unsafe fn load_wide<S: Simd>(s: S, src: *const Self) -> <Self::Acc as Scalar>::V<S>;
    /// Whether [`Input::transpose`] is implemented.
    const TRANSPOSES: bool;
    /// Transposes a square whose side is a vector's lanes: element (p, j) moves from `x[j * stride + p]` to `out[p * width +
    /// j]`.
    fn transpose<S: Simd>(s: S, x: &[Self], stride: usize, out: &mut [Self], width: usize);
    /// The same matrix, if its element type is `Acc`.
    fn wide(x: Mat<'_, Self>) -> Option<Mat<'_, Self::Acc>>;
    /// Columns per panel of B.
    fn panel_width(isa: Isa) -> usize;
    /// Packs all of `b` into panels.
    fn pack_panels(isa: Isa, b: Mat<'_, Self>, tile: usize, out: &mut [Self]);
    /// C = A·B or C += A·B; the dimensions must match.
    fn multiply_packed(
        b: &PackedB<'_, Self>,
        a: <Self::Acc as Scalar>::Operand<'_>,
        columns: Columns,
        c: MatMut<'_, Self::Acc>,
        accumulate: bool,
        sums: Sums,
    );
    /// The matrix with its element type as a value.
    fn operand(x: Mat<'_, Self>) -> <Self::Acc as Scalar>::Operand<'_>;
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

impl Scalar for f32 {
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
        pack::turn(s, rows);
    }

    #[allow(unused_mut, reason = "computed in place on some processors")]
    fn product(isa: Isa, a: Operand<'_>, b: Operand<'_>, mut c: MatMut<'_, f32>, accumulate: bool) {
        #[cfg(target_arch = "x86_64")]
        if let (Operand::Bf16(a), Operand::Bf16(b), false) = (a, b, accumulate)
            && product_bf16(isa, &a, &b, &mut c)
        {
            return recompute_imprecise(a, c, |a, c| product_or_skinny(isa, a, b, c, false));
        }
        match a {
            Operand::F32(a) => product_f32(isa, a, b, c, accumulate),
            Operand::F16(a) => product_f32(isa, a, b, c, accumulate),
            Operand::Bf16(a) => product_f32(isa, a, b, c, accumulate),
        }
    }

    fn product_by_row(isa: Isa, a: Operand<'_>, b: Operand<'_>, c: MatMut<'_, f32>, accumulate: bool) {
        match a {
            Operand::F32(a) => by_row::in_f32(isa, a, b, c, accumulate),
            Operand::F16(a) => by_row::in_f32(isa, a, b, c, accumulate),
            Operand::Bf16(a) => by_row::in_f32(isa, a, b, c, accumulate),
        }
    }
}

/// Computes with bf16 pairs, if the processor is fast at that. Some rows may be imprecise.
#[cfg(target_arch = "x86_64")]
fn product_bf16(isa: Isa, a: &Mat<'_, bf16>, b: &Mat<'_, bf16>, c: &mut MatMut<'_, f32>) -> bool {
    if bf16_amx::product(isa, a, b, c) {
        return true;
    }
    let pairs = Bf16Pairs::for_product(isa, a, b);
    pairs.map(|pairs| pairs.product(*a, *b, c)).is_some()
}

/// Like [`product_bf16`], for a packed B.
#[cfg(target_arch = "x86_64")]
fn packed_bf16(b: &PackedB<'_, bf16>, a: &Mat<'_, bf16>, columns: Columns, c: &mut MatMut<'_, f32>) -> bool {
    if bf16_amx::product_packed(a, b, columns, c) {
        return true;
    }
    let pairs = Bf16Pairs::for_packed(b.isa(), a);
    pairs.map(|pairs| pairs.product_packed(*a, b, columns, c)).is_some()
}

/// Recomputes with `product` the rows whose bf16-pair result may be imprecise.
#[cfg(target_arch = "x86_64")]
fn recompute_imprecise(
    a: Mat<'_, bf16>,
    mut c: MatMut<'_, f32>,
    product: impl Fn(Mat<'_, bf16>, MatMut<'_, f32>),
) {
    let mut from = 0;
    while let Some(rows) = bf16_avx512::imprecise_rows(&a, &mut c, from) {
        let part = c.reborrow().split_at_row(rows.start).1.split_at_row(rows.len()).0;
        product(a.block(rows.start, rows.len(), 0, a.cols()), part);
        from = rows.end;
    }
}

fn product_f32<A: Input<Acc = f32> + Element>(
    isa: Isa,
    a: Mat<'_, A>,
    b: Operand<'_>,
    c: MatMut<'_, f32>,
    accumulate: bool,
) {
    match b {
        Operand::F32(b) => product_or_skinny(isa, a, b, c, accumulate),
        Operand::F16(b) => product_or_skinny(isa, a, b, c, accumulate),
        Operand::Bf16(b) => product_or_skinny(isa, a, b, c, accumulate),
    }
}

fn product_or_skinny<A, B>(isa: Isa, a: Mat<'_, A>, b: Mat<'_, B>, c: MatMut<'_, f32>, accumulate: bool)
where
    A: Input<Acc = f32> + Element,
    B: Input<Acc = f32> + Element,
{
    let Some(order) = skinny::order(a.rows(), &b) else {
        return product(isa, a, b, c, accumulate);
    };
    let rows = skinny::widened(a);
    isa.run(Skinny { a: &rows, b, c, accumulate, order });
}

fn product<A: Input, B: Input<Acc = A::Acc>>(
    isa: Isa,
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, A::Acc>,
    accumulate: bool,
) {
    match A::wide(a) {
        Some(a) if fits_direct(isa, &a, &b) => isa.run(Direct { a, b, c, accumulate }),
        _ => isa.run(Blocked { a, b, c, accumulate }),
    }
}

fn packed_f32<B: Input<Acc = f32>>(
    b: &PackedB<'_, B>,
    a: Operand<'_>,
    columns: Columns,
    c: MatMut<'_, f32>,
    accumulate: bool,
    sums: Sums,
) {
    match a {
        Operand::F32(a) => packed::product(b, a, columns, c, accumulate, sums),
        Operand::F16(a) => packed::product(b, a, columns, c, accumulate, sums),
        Operand::Bf16(a) => packed::product(b, a, columns, c, accumulate, sums),
    }
}

impl Scalar for f64 {
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

    fn product(isa: Isa, a: Mat<'_, f64>, b: Mat<'_, f64>, c: MatMut<'_, f64>, accumulate: bool) {
        product(isa, a, b, c, accumulate);
    }

    fn product_by_row(isa: Isa, a: Mat<'_, f64>, b: Mat<'_, f64>, c: MatMut<'_, f64>, accumulate: bool) {
        by_row::product(isa, a, b, c, accumulate);
    }
}

impl Input for f64 {
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
    fn panel_width(isa: Isa) -> usize {
        packed::panel_width::<Self>(isa)
    }
    fn pack_panels(isa: Isa, b: Mat<'_, Self>, tile: usize, out: &mut [Self]) {
        packed::pack_all(isa, b, tile, out);
    }
    fn multiply_packed(
        b: &PackedB<'_, Self>,
        a: Mat<'_, f64>,
        columns: Columns,
        c: MatMut<'_, f64>,
        accumulate: bool,
        sums: Sums,
    ) {
        packed::product(b, a, columns, c, accumulate, sums);
    }
    #[inline(always)]
    fn operand(x: Mat<'_, f64>) -> Mat<'_, f64> {
        x
    }
}

impl Input for f32 {
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
        pack::transpose(s, x, stride, out, width);
    }
    #[inline(always)]
    fn wide(x: Mat<'_, Self>) -> Option<Mat<'_, Self::Acc>> {
        Some(x)
    }
    fn panel_width(isa: Isa) -> usize {
        packed::panel_width::<Self>(isa)
    }
    fn pack_panels(isa: Isa, b: Mat<'_, Self>, tile: usize, out: &mut [Self]) {
        packed::pack_all(isa, b, tile, out);
    }
    fn multiply_packed(
        b: &PackedB<'_, Self>,
        a: Operand<'_>,
        columns: Columns,
        c: MatMut<'_, f32>,
        accumulate: bool,
        sums: Sums,
    ) {
        packed_f32(b, a, columns, c, accumulate, sums);
    }
    #[inline(always)]
    fn operand(x: Mat<'_, f32>) -> Operand<'_> {
        Operand::F32(x)
    }
}

impl Input for f16 {
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
        pack::transpose(s, x, stride, out, width);
    }
    #[inline(always)]
    fn wide(_: Mat<'_, Self>) -> Option<Mat<'_, Self::Acc>> {
        None
    }
    fn panel_width(isa: Isa) -> usize {
        packed::panel_width::<Self>(isa)
    }
    fn pack_panels(isa: Isa, b: Mat<'_, Self>, tile: usize, out: &mut [Self]) {
        packed::pack_all(isa, b, tile, out);
    }
    fn multiply_packed(
        b: &PackedB<'_, Self>,
        a: Operand<'_>,
        columns: Columns,
        c: MatMut<'_, f32>,
        accumulate: bool,
        sums: Sums,
    ) {
        packed_f32(b, a, columns, c, accumulate, sums);
    }
    #[inline(always)]
    fn operand(x: Mat<'_, f16>) -> Operand<'_> {
        Operand::F16(x)
    }
}

impl Input for bf16 {
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
        pack::transpose(s, x, stride, out, width);
    }
    #[inline(always)]
    fn wide(_: Mat<'_, Self>) -> Option<Mat<'_, Self::Acc>> {
        None
    }
    fn panel_width(isa: Isa) -> usize {
        packed::panel_width::<Self>(isa)
    }
    fn pack_panels(isa: Isa, b: Mat<'_, Self>, tile: usize, out: &mut [Self]) {
        packed::pack_all(isa, b, tile, out);
    }
    #[allow(unused_mut, reason = "computed in place on some processors")]
    fn multiply_packed(
        b: &PackedB<'_, Self>,
        a: Operand<'_>,
        columns: Columns,
        mut c: MatMut<'_, f32>,
        accumulate: bool,
        sums: Sums,
    ) {
        #[cfg(target_arch = "x86_64")]
        if let (Operand::Bf16(a), false, Sums::Fastest) = (a, accumulate, sums)
            && packed_bf16(b, &a, columns, &mut c)
        {
            return recompute_imprecise(a, c, |a, c| {
                packed::product(b, a, columns, c, false, Sums::Fastest);
            });
        }
        #[cfg(target_arch = "x86_64")]
        if let (1, Sums::Fastest, Some(row)) = (c.rows(), sums, OneRow::detect(b.isa())) {
            return row.product(a, b, columns, c, accumulate);
        }
        packed_f32(b, a, columns, c, accumulate, sums);
    }
    #[inline(always)]
    fn operand(x: Mat<'_, bf16>) -> Operand<'_> {
        Operand::Bf16(x)
    }
}
