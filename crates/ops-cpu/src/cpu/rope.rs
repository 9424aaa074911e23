//! Rotary position embedding.
use super::Cpu;
use super::angles::Picked;
use super::rows::{RowOperand, for_each_row, row};
use super::vectors::{TaskResult, on_vector, unsupported_dtype};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{Rope, RopeForm, RopeInplace};
use ops_core::{Call, DType, Float, Layout, Op, Result};
use ops_simd::{Isa, rows as vector};

/// The table rows that a call uses, and the mapping from rows of `x` to them.
struct Angles<'a> {
    /// The cosine and sine tables.
    tables: RowOperand<'a, 2>,
    /// The same tables in f64, for f64 rows.
    wide: Option<[Vec<f64>; 2]>,
    form: RopeForm,
    /// Extents of `x`.
    dims: [usize; 4],
    /// Columns of the tables: half of the features that are rotated.
    half: usize,
    /// Whether each batch entry has its own tables.
    batched: bool,
}

impl<'a> Angles<'a> {
    fn new(
        form: RopeForm,
        start: usize,
        x: &Layout,
        dtype: DType,
        cos: Raw<'a>,
        sin: Raw<'a>,
    ) -> Result<Self> {
        let &[b, n1, n2, d] = x.dims() else {
            return Err(ops_core::Error::shape("rope", "x", x, "four axes"));
        };
        let tokens = if form == RopeForm::HalfThd { n1 } else { n2 };
        let used = |table: Raw<'a>| {
            Ok::<_, ops_core::Error>(table.with_layout(table.layout.narrow(-2, start, tokens)?))
        };
        let (cos, sin) = (used(cos)?, used(sin)?);
        let wide = (dtype == DType::F64).then(|| [cos.values(), sin.values()]);
        let (batched, half) = (cos.layout.rank() == 3, cos.layout.last());
        let tables = RowOperand::of(dtype, [Some(cos), Some(sin)])?;
        Ok(Angles { tables, wide, form, dims: [b, n1, n2, d], half, batched })
    }

    /// Index in the tables of the first angle for row `i` of `x`.
    fn index(&self, i: usize) -> usize {
        let [_, n1, n2, _] = self.dims;
        let (token, tokens) = if self.form == RopeForm::HalfThd { (i / n2 % n1, n1) } else { (i % n2, n2) };
        let batch = if self.batched { i / (n1 * n2) } else { 0 };
        (batch * tokens + token) * self.half
    }

    /// Rotates rows of `x` into `y`, or `y` in place if `x` is `None`. A row contains only the rotated
    /// features. Uses `angles` table rows starting at `at`, and rotates `repeat` rows by each.
    fn rotate(
        &self,
        dtype: DType,
        at: usize,
        (angles, repeat): (usize, usize),
        x: Option<&[u8]>,
        y: &mut [u8],
    ) -> TaskResult {
        let (isa, d) = (Isa::best(), 2 * self.half);
        let pairs =
            if self.form == RopeForm::Interleaved { vector::Pairs::Adjacent } else { vector::Pairs::Halves };
        if d == 0 {
            return Ok(());
        }
        let range = at..at + angles * self.half;
        on_vector!(dtype, T => {
            let (x, y) = (x.map(cast_slice::<u8, T>), cast_slice_mut::<u8, T>(y));
            Ok(match &self.tables {
                RowOperand::Unconverted(tables) => {
                    let tables = tables.map(|table| &cast_slice::<u8, T>(table)[range.clone()]);
                    rotate_rows(isa, pairs, x, d, tables, repeat, y)
                }
                RowOperand::Widened(tables) => {
                    let tables = tables.each_ref().map(|table| &table[range.clone()]);
                    rotate_rows(isa, pairs, x, d, tables, repeat, y)
                }
            }?)
        }, else {
            let Some([cos, sin]) = &self.wide else { return Err(unsupported_dtype(dtype)) };
            if let Some(x) = x {
                y.copy_from_slice(x);
            }
            for (r, y) in cast_slice_mut::<u8, f64>(y).chunks_exact_mut(d).enumerate() {
                let at = at + r / repeat * self.half;
                rotate_f64(self.form, y, &cos[at..], &sin[at..]);
            }
            Ok(())
        })
    }
}

/// Rotates rows of length `d` from `x` into `y`, or `y` in place if `x` is `None`.
fn rotate_rows<T: ops_simd::Element, C: ops_simd::Element>(
    isa: Isa,
    pairs: vector::Pairs,
    x: Option<&[T]>,
    d: usize,
    [cos, sin]: [&[C]; 2],
    repeat: usize,
    y: &mut [T],
) -> core::result::Result<(), ops_simd::Error> {
    match x {
        Some(x) => vector::rope(isa, pairs, x, d, cos, sin, repeat, y),
        None => vector::rope_in_place(isa, pairs, y, d, cos, sin, repeat),
    }
}

fn rotate_f64(form: RopeForm, y: &mut [f64], cos: &[f64], sin: &[f64]) {
    let half = y.len() / 2;
    for j in 0..half {
        let (p, q) = if form == RopeForm::Interleaved { (2 * j, 2 * j + 1) } else { (j, j + half) };
        (y[p], y[q]) = (y[p] * cos[j] - y[q] * sin[j], y[p] * sin[j] + y[q] * cos[j]);
    }
}

/// The operands of a call besides `x` and `y`.
pub(super) struct Tables<'a> {
    pub(super) start: usize,
    pub(super) cos: Raw<'a>,
    pub(super) sin: Raw<'a>,
    pub(super) positions: Option<Raw<'a>>,
}

/// Rotates `x` into `y`, or `y` in place if `x` is `None`.
pub(super) fn rope(
    op: &'static str,
    form: RopeForm,
    tables: &Tables<'_>,
    x: Option<Raw<'_>>,
    y: RawMut<'_>,
) -> Result<()> {
    let &[b, n1, n2, _] = y.layout.dims() else {
        return Err(ops_core::Error::shape(op, "x", &y.layout, "four axes"));
    };
    let Some(positions) = tables.positions else {
        return rotate_all(form, tables.start, x, [tables.cos, tables.sin], y);
    };
    let tokens = [b, if form == RopeForm::HalfThd { n1 } else { n2 }];
    let picked = Picked::new(op, [tables.cos, tables.sin], positions, tokens)?;
    rotate_all(form, 0, x, picked.tables(), y)
}

/// Rotates all heads, with table rows in token order.
fn rotate_all(
    form: RopeForm,
    start: usize,
    x: Option<Raw<'_>>,
    [cos, sin]: [Raw<'_>; 2],
    y: RawMut<'_>,
) -> Result<()> {
    let (layout, dtype) = (y.layout, y.dtype);
    let angles = Angles::new(form, start, &layout, dtype, cos, sin)?;
    let [b, n1, n2, d] = angles.dims;
    if layout.is_empty() {
        return Ok(());
    }
    if 2 * angles.half < d {
        return for_each_row("rope", y, 2 * d, &|[scratch, ..], i, y| {
            if let Some(x) = &x {
                y.copy_from_slice(row(x, i, scratch));
            }
            let rotated = 2 * angles.half * dtype.size();
            angles.rotate(dtype, angles.index(i), (1, 1), None, &mut y[..rotated])
        });
    }
    // If the two inner axes are contiguous, treat them as one row: one call then handles all its table rows.
    let block = [b, n1, n2 * d];
    let blocks = |l: &Layout| l.reshape(&block).ok().filter(Layout::is_last_contiguous);
    let by_block = match (x.map(|x| blocks(&x.layout)), blocks(&layout)) {
        (Some(None), _) | (_, None) => None,
        (Some(Some(lx)), Some(ly)) => Some((x.map(|x| x.with_layout(lx)), ly)),
        (None, Some(ly)) => Some((None, ly)),
    };
    if let Some((x, ly)) = by_block {
        let (count, repeat) = if form == RopeForm::HalfThd { (1, n2) } else { (n2, 1) };
        return for_each_row("rope", y.with_layout(ly), 2 * n2 * d, &|[scratch, ..], i, y| {
            let x = x.as_ref().map(|x| row(x, i, scratch));
            angles.rotate(dtype, angles.index(i * n2), (count, repeat), x, y)
        });
    }
    for_each_row("rope", y, 2 * d, &|[scratch, ..], i, y| {
        let x = x.as_ref().map(|x| row(x, i, scratch));
        angles.rotate(dtype, angles.index(i), (1, 1), x, y)
    })
}

impl<T: Float> Kernel<Rope<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Rope<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, cos, sin) = (Raw::of(&a.x), Raw::any(&a.cos), Raw::any(&a.sin));
        let tables = Tables { start: op.start, cos, sin, positions: Raw::any_if(&a.positions) };
        rope(op.name(), op.form, &tables, Some(x), RawMut::of(&mut a.y))
    }
}
impl<T: Float> Kernel<RopeInplace<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, RopeInplace<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (cos, sin) = (Raw::any(&a.cos), Raw::any(&a.sin));
        let tables = Tables { start: op.start, cos, sin, positions: Raw::any_if(&a.positions) };
        rope(op.name(), op.form, &tables, None, RawMut::of(&mut a.x))
    }
}
