//! Which of the ways to compute a product is taken.

use half::{bf16, f16};

use super::blocked::Blocked;
use super::by_row;
use super::direct::{Direct, fits_direct};
use super::input::{Accumulator, Operand, Widen};
use super::matrix::{Mat, MatMut};
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
use crate::error::Error;
use crate::isa::Isa;
use crate::memory::packing_target;

/// A type that products accumulate in: f32 or f64.
pub trait Scalar: Accumulator {
    /// C = A·B or C += A·B. Use [`gemm`](super::gemm()), which checks the dimensions; safe code cannot call this.
    ///
    /// ```compile_fail,E0133
    /// use ops_simd::{Isa, gemm::{Mat, MatMut, Scalar}};
    ///
    /// let (a, b, mut c) = ([1.0], [2.0], [0.0]);
    /// let matrix = |x| Mat::row_major(x, 1, 1).unwrap();
    /// f64::product(Isa::best(), matrix(&a), matrix(&b), MatMut::new(&mut c, 1, 1, 1).unwrap(), false);
    /// ```
    ///
    /// # Safety
    /// A has as many columns as B rows, and C has the rows of A and the columns of B.
    unsafe fn product(
        isa: Isa,
        a: Self::Operand<'_>,
        b: Self::Operand<'_>,
        c: MatMut<'_, Self>,
        accumulate: bool,
    );
    /// As [`product`](Self::product), summed in an order that depends on the depth and the strides of B alone. Use
    /// [`gemm_by_row`](super::gemm_by_row), which checks the dimensions.
    ///
    /// # Safety
    /// As [`product`](Self::product).
    unsafe fn product_by_row(
        isa: Isa,
        a: Self::Operand<'_>,
        b: Self::Operand<'_>,
        c: MatMut<'_, Self>,
        accumulate: bool,
    );
}

/// An element type of matrices: f32, f16 and bf16 accumulate in f32, and f64 in f64.
pub trait Input: Widen<Acc: Scalar> {
    /// Packs all of `b` into panels.
    fn pack_panels(isa: Isa, b: Mat<'_, Self>, tile: usize, out: &mut [Self]);
    /// C = A·B or C += A·B; the dimensions must match.
    fn multiply_packed(
        b: &PackedB<'_, Self>,
        a: <Self::Acc as Accumulator>::Operand<'_>,
        columns: Columns,
        c: MatMut<'_, Self::Acc>,
        accumulate: bool,
        sums: Sums,
    );
}

impl Scalar for f32 {
    #[allow(unused_mut, reason = "it is computed in place on some processors")]
    unsafe fn product(isa: Isa, a: Operand<'_>, b: Operand<'_>, mut c: MatMut<'_, f32>, accumulate: bool) {
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

    unsafe fn product_by_row(isa: Isa, a: Operand<'_>, b: Operand<'_>, c: MatMut<'_, f32>, accumulate: bool) {
        match a {
            Operand::F32(a) => by_row::in_f32(isa, a, b, c, accumulate),
            Operand::F16(a) => by_row::in_f32(isa, a, b, c, accumulate),
            Operand::Bf16(a) => by_row::in_f32(isa, a, b, c, accumulate),
        }
    }
}

impl Scalar for f64 {
    unsafe fn product(isa: Isa, a: Mat<'_, f64>, b: Mat<'_, f64>, c: MatMut<'_, f64>, accumulate: bool) {
        product(isa, a, b, c, accumulate);
    }

    unsafe fn product_by_row(
        isa: Isa,
        a: Mat<'_, f64>,
        b: Mat<'_, f64>,
        c: MatMut<'_, f64>,
        accumulate: bool,
    ) {
        by_row::product(isa, a, b, c, accumulate);
    }
}

impl Input for f64 {
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
}

impl Input for f32 {
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
}

impl Input for f16 {
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
}

impl Input for bf16 {
    fn pack_panels(isa: Isa, b: Mat<'_, Self>, tile: usize, out: &mut [Self]) {
        packed::pack_all(isa, b, tile, out);
    }
    #[allow(unused_mut, reason = "it is computed in place on some processors")]
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

fn product_f32<A: Widen<Acc = f32> + Element>(
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
    A: Widen<Acc = f32> + Element,
    B: Widen<Acc = f32> + Element,
{
    let Some(order) = skinny::order(a.rows(), &b) else {
        return product(isa, a, b, c, accumulate);
    };
    let rows = skinny::widened(a);
    isa.run(Skinny { a: &rows, b, c, accumulate, order });
}

fn product<A: Widen, B: Widen<Acc = A::Acc>>(
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

fn packed_f32<B: Widen<Acc = f32>>(
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

impl<T: Input> PackedB<'static, T> {
    /// Packs `b` for `isa`.
    pub fn new(isa: Isa, b: Mat<'_, T>) -> Self {
        PackedB::filled(isa, b.rows(), b.cols(), |out| pack(isa, b, out))
    }
}

impl<T: Input> PackedB<'_, T> {
    /// Packs `b` for `isa` into the first [`PackedB::size`] bytes of `out`.
    ///
    /// # Errors
    /// [`Error::Memory`] if `out` is too small or not aligned to a cache line.
    pub fn pack_into(isa: Isa, b: Mat<'_, T>, out: &mut [u8]) -> Result<(), Error> {
        pack(isa, b, packing_target(out, Self::size(isa, b.rows(), b.cols()))?);
        Ok(())
    }
}

fn pack<T: Input>(isa: Isa, b: Mat<'_, T>, out: &mut [u8]) {
    if !out.is_empty() {
        T::pack_panels(isa, b, packed::panel_width::<T>(isa), bytemuck::cast_slice_mut(out));
    }
}
