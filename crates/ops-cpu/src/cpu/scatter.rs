//! Ops that read and write elements by index.
//!
//! Indices are checked before anything is written. Work is split into lines along the axis, or into rows of the output: no two
//! write the same element, and each is processed in the order of its indices, so results do not depend on threads. The time is
//! linear in the elements that are read and written.
use super::Cpu;
use super::rows::{Line, Scratch, copy_element, for_each_line, for_each_row, row, row_position};
use super::vectors::{TaskResult, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::{Host, Kernel};
use by_row::add_rows;
use bytemuck::{cast_slice, cast_slice_mut, pod_read_unaligned};
use indices::{NONE, check_indices, each_place};
use neighbours::{COLUMNS, MAX_PLACES, SUMS, add_neighbours, each_row, neighbours};
use ops_core::ops::{Gather, IndexAdd, Scatter, ScatterAdd};
use ops_core::{Call, DType, Index, Layout, Num, Result, Scalar, with_type};

mod by_row;
mod indices;
mod neighbours;

/// The work of an indexed element, in elements of a row.
const COST: usize = 4;

pub(super) fn gather(x: Raw<'_>, ids: Raw<'_>, mut y: RawMut<'_>, axis: isize) -> Result<()> {
    let (axis, size) = (x.layout.shape().axis(axis)?, x.size);
    let (bound, along) = (x.dims()[axis], x.layout.strides()[axis]);
    check_indices("gather", ids, bound)?;
    if y.layout.is_empty() {
        return Ok(());
    }
    if bound == 0 {
        // No index refers to an element.
        y.layout.positions().for_each(|p| y.element(p).fill(0));
        return Ok(());
    }
    // The position that an index of 0 reads. Along other axes, no extent is longer than that of `x`.
    let mut strides = x.layout.strides().to_vec();
    strides[axis] = 0;
    let zeroth = Layout::strided(ids.dims(), &strides, x.layout.offset())?;
    let (n, step) = (y.layout.last(), zeroth.last_stride());
    for_each_row("gather", y, n.saturating_mul(COST), &|[gathered, ..], i, y| {
        let line = Picked { x: x.bytes, first: row_position(&zeroth, i), step, along, bound };
        let ids_here = row(&ids, i, gathered);
        match size {
            1 => line.copy::<1>(ids.dtype, ids_here, y),
            2 => line.copy::<2>(ids.dtype, ids_here, y),
            4 => line.copy::<4>(ids.dtype, ids_here, y),
            8 => line.copy::<8>(ids.dtype, ids_here, y),
            _ => {
                y.fill(0);
                each_place(ids.dtype, ids_here, bound, &mut |j, place| {
                    y[j * size..][..size].copy_from_slice(x.element(line.position(j, place)));
                });
            }
        }
        Ok(())
    })
}

/// The source positions of the elements of a `gather` row.
struct Picked<'a> {
    x: &'a [u8],
    /// The position that an index of 0 reads for the row's first element.
    first: usize,
    /// Strides along the row, and along the axis that indices refer to.
    step: isize,
    along: isize,
    /// The extent of that axis.
    bound: usize,
}

impl Picked<'_> {
    #[inline]
    fn position(&self, j: usize, place: usize) -> usize {
        self.first.wrapping_add_signed(self.step * j as isize + self.along * place as isize)
    }

    /// Copies elements of `N` bytes, and writes zeros for indices that mean "no element". The indices have
    /// been checked.
    fn copy<const N: usize>(&self, dtype: DType, ids: &[u8], y: &mut [u8]) {
        let (x, y) = (self.x.as_chunks::<N>().0, y.as_chunks_mut::<N>().0);
        with_type!(indices, dtype, I => {
            for (j, (y, id)) in y.iter_mut().zip(cast_slice::<u8, I>(ids)).enumerate() {
                *y = match id.resolve(self.bound) {
                    Ok(Some(place)) => x[self.position(j, place)],
                    _ => [0; N],
                };
            }
        }, _ => unreachable!("{dtype} is not an index type, and the op's rule requires one"))
    }
}

/// A layout cut to `dims` along all axes but `axis`, which becomes the last.
fn lines(layout: &Layout, axis: usize, dims: &[usize]) -> Result<Layout> {
    let mut cut = *layout;
    for (at, extent) in dims.iter().enumerate().filter(|(at, _)| *at != axis) {
        cut = cut.narrow(at as isize, 0, *extent)?;
    }
    let order: Vec<usize> = (0..dims.len()).filter(|at| *at != axis).chain([axis]).collect();
    cut.permute(&order)
}

/// Processes lines of the output, of which the first has this number, with the indices and the source.
type Fold<'f> = &'f (dyn Fn(&mut Line<'_>, usize, [Raw<'_>; 2], &mut [Scratch; 3]) -> TaskResult + Sync);

/// Calls `f` for every line along `axis` that has indices, or for up to `width` neighbouring lines.
fn fold_lines(
    op: &'static str,
    dst: RawMut<'_>,
    [ids, src]: [Raw<'_>; 2],
    axis: usize,
    width: usize,
    f: Fold<'_>,
) -> Result<()> {
    let extents = src.dims().to_vec();
    if src.layout.is_empty() || dst.layout.is_empty() {
        return Ok(());
    }
    let layout = lines(&dst.layout, axis, &extents)?;
    let ids = ids.with_layout(lines(&ids.layout, axis, &extents)?);
    let src = src.with_layout(lines(&src.layout, axis, &extents)?);
    let cost = src.layout.last().saturating_mul(COST);
    for_each_line(op, dst.with_layout(layout), width, cost, &|scratches, i, dst| {
        f(dst, i, [ids, src], scratches)
    })
}

pub(super) fn scatter(dst: RawMut<'_>, ids: Raw<'_>, src: Raw<'_>, axis: isize) -> Result<()> {
    let (axis, size) = (dst.layout.shape().axis(axis)?, dst.size);
    let bound = dst.layout.dims()[axis];
    check_indices("scatter", ids, bound)?;
    let width = neighbours(&dst.layout, src.dims(), axis, COLUMNS);
    fold_lines("scatter", dst, [ids, src], axis, width, &|dst, i, [ids, src], scratches| {
        if width == 1 {
            let [a, b, _] = scratches;
            let src = row(&src, i, b);
            each_place(ids.dtype, row(&ids, i, a), bound, &mut |j, place| {
                copy_element(dst.element(place), &src[j * size..][..size]);
            });
            return Ok(());
        }
        let width = dst.width();
        each_row([ids, src], (i, width), scratches, &mut |places, src| {
            for (c, place) in places.iter().enumerate().filter(|(_, place)| **place != NONE) {
                let part = c * size..(c + 1) * size;
                copy_element(&mut dst.element(*place)[part.clone()], &src[part]);
            }
        });
        Ok(())
    })
}

/// Adds along lines. Floats are added in f64: each element adds the sum to its old value and is rounded once.
fn add_lines(op: &'static str, dst: RawMut<'_>, ids: Raw<'_>, src: Raw<'_>, axis: usize) -> Result<()> {
    let (dtype, bound) = (dst.dtype, dst.layout.dims()[axis]);
    let width = neighbours(&dst.layout, src.dims(), axis, SUMS / size_of::<f64>() / bound.max(1));
    // Every place has a sum, so there must not be many places, and there must be at least a quarter as many indices.
    if width > 1 && bound <= MAX_PLACES && src.dims()[axis] >= bound / 4 {
        return fold_lines(op, dst, [ids, src], axis, width, &|dst, i, operands, scratches| {
            add_neighbours(dtype, dst, operands, (i, bound), scratches)
        });
    }
    fold_lines(op, dst, [ids, src], axis, 1, &|dst, i, [ids, src], [a, b, c]| {
        let (places, src) = (row(&ids, i, a), row(&src, i, b));
        let words = c.words(if dtype.is_float() { bound } else { 0 });
        let each = |f: &mut dyn FnMut(usize, usize)| each_place(ids.dtype, places, bound, f);
        on_num!(dtype, T => {
            let src = cast_slice::<u8, T>(src);
            if T::IS_FLOAT {
                let sums = cast_slice_mut::<u64, f64>(words);
                each(&mut |_, place| sums[place] = pod_read_unaligned::<T>(dst.element(place)).to_f64());
                each(&mut |j, place| sums[place] += src[j].to_f64());
                // The method of f16 itself rounds twice, to f32 first.
                each(&mut |_, place| put(dst, place, <T as Scalar>::from_f64(sums[place])));
            } else {
                each(&mut |j, place| {
                    let old = pod_read_unaligned::<T>(dst.element(place));
                    put(dst, place, old.add(src[j]));
                });
            }
            Ok(())
        }, else Err(unsupported_dtype(dtype)))
    })
}

fn put<T: Num>(line: &mut Line<'_>, place: usize, value: T) {
    line.element(place).copy_from_slice(bytemuck::bytes_of(&value));
}

pub(super) fn scatter_add(dst: RawMut<'_>, ids: Raw<'_>, src: Raw<'_>, axis: isize) -> Result<()> {
    let axis = dst.layout.shape().axis(axis)?;
    check_indices("scatter_add", ids, dst.layout.dims()[axis])?;
    add_lines("scatter_add", dst, ids, src, axis)
}

pub(super) fn index_add(dst: RawMut<'_>, ids: Raw<'_>, src: Raw<'_>, axis: isize) -> Result<()> {
    let axis = dst.layout.shape().axis(axis)?;
    check_indices("index_add", ids, dst.layout.dims()[axis])?;
    if src.layout.is_empty() || dst.layout.is_empty() {
        return Ok(());
    }
    if axis + 1 < dst.layout.rank() && dst.layout.last_stride() == 1 && src.layout.last_stride() == 1 {
        return add_rows(dst, ids, src, axis);
    }
    // The same indices for every line.
    let mut strides = vec![0; src.layout.rank()];
    strides[axis] = ids.layout.last_stride();
    let everywhere = Layout::strided(src.dims(), &strides, ids.layout.offset())?;
    add_lines("index_add", dst, ids.with_layout(everywhere), src, axis)
}

impl Kernel<Gather> for Cpu {
    fn compute(&self, call: Call<'_, '_, Gather, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        gather(Raw::any(&a.x), Raw::any(&a.ids), RawMut::any(&mut a.y), op.axis)
    }
}
impl Kernel<Scatter> for Cpu {
    fn compute(&self, call: Call<'_, '_, Scatter, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        scatter(RawMut::any(&mut a.dst), Raw::any(&a.ids), Raw::any(&a.src), op.axis)
    }
}
impl<T: Num> Kernel<ScatterAdd<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, ScatterAdd<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        scatter_add(RawMut::of(&mut a.dst), Raw::any(&a.ids), Raw::of(&a.src), op.axis)
    }
}
impl<T: Num> Kernel<IndexAdd<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, IndexAdd<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        index_add(RawMut::of(&mut a.dst), Raw::any(&a.ids), Raw::of(&a.src), op.axis)
    }
}
