use super::calls::{Calls, calls};
use super::guarded::Guarded;
use half::{bf16, f16};
use ops_simd::gemm::{
    FewBf16, Gathered, Input, Mat, MatMut, PackedA, PackedB, gemm, gemm_by_row, gemm_gathered, gemm_packed,
    gemm_packed_by_row,
};
use ops_simd::{Element, Isa};

/// Memory of a matrix.
struct Memory<T> {
    data: Guarded<T>,
    rows: usize,
    cols: usize,
    strides: (usize, usize),
}

impl<T: Element> Memory<T> {
    /// About `rows` by `cols` numbers, in rows or in columns, which may be longer than needed.
    fn new(c: &mut Calls, rows: usize, cols: usize, in_columns: bool) -> Self {
        let (rows, cols, more) = (c.near(rows), c.near(cols), c.pick(&[0, 0, 3]));
        let (strides, len) = match in_columns {
            false => ((cols + more, 1), rows * (cols + more)),
            true => ((1, rows + more), cols * (rows + more)),
        };
        // Nothing follows the last element.
        let less = if rows * cols > 0 { more } else { 0 };
        let strides = (c.number(strides.0), c.number(strides.1));
        Memory { data: c.floats(len - less), rows, cols, strides }
    }
    fn mat(&self, c: &mut Calls) -> Option<Mat<'_, T>> {
        c.saw("Mat::new", Mat::new(&self.data, self.rows, self.cols, self.strides.0, self.strides.1))
    }
}

/// Memory of a result.
fn result(c: &mut Calls, rows: usize, cols: usize) -> (Guarded<f32>, [usize; 3]) {
    let (rows, cols, more) = (c.near(rows), c.near(cols), c.pick(&[0, 0, 5]));
    let len = if rows * cols > 0 { (rows - 1) * (cols + more) + cols } else { 0 };
    (c.floats(len), [rows, cols, c.number(cols + more)])
}

fn mat_mut<'a>(c: &mut Calls, of: &'a mut (Guarded<f32>, [usize; 3])) -> Option<MatMut<'a, f32>> {
    let [rows, cols, stride] = of.1;
    c.saw("MatMut::new", MatMut::new(&mut of.0, rows, cols, stride))
}

#[test]
fn products() {
    calls(200, |calls, isa| {
        of_types::<f32, f32>(calls, isa);
        of_types::<f32, f16>(calls, isa);
        of_types::<bf16, bf16>(calls, isa);
        gathered(calls, isa);
    });
}

fn of_types<A, B>(c: &mut Calls, isa: Isa)
where
    A: Element + Input<Acc = f32>,
    B: Element + Input<Acc = f32>,
{
    let (m, k, n) = (c.extent(), c.extent(), c.extent());
    let (in_columns, b_in_columns) = (c.pick(&[false, false, true]), c.pick(&[false, true]));
    let (a, b) = (Memory::<A>::new(c, m, k, in_columns), Memory::<B>::new(c, k, n, b_in_columns));
    let mut y = result(c, m, n);
    let (Some(a), Some(b)) = (a.mat(c), b.mat(c)) else { return };
    ranges(c, b);
    for by_row in [false, true] {
        let Some(y) = mat_mut(c, &mut y) else { return };
        let accumulate = c.pick(&[false, true]);
        match by_row {
            false => c.saw("gemm", gemm(isa, a, b, y, accumulate)),
            true => c.saw("gemm_by_row", gemm_by_row(isa, a, b, y, accumulate)),
        };
    }
    packed(c, isa, a, b, &mut y);
}

fn ranges<T: Copy>(c: &mut Calls, x: Mat<'_, T>) {
    let (start, end) = (c.number(0), c.number(x.rows()));
    if let Some(part) = c.saw("row_range", x.row_range(start, end)) {
        assert_eq!(part.rows(), end - start);
    }
    let (start, end) = (c.number(0), c.number(x.cols()));
    if let Some(part) = c.saw("col_range", x.col_range(start, end)) {
        let last = part.cols().wrapping_sub(1);
        assert_eq!((part.cols(), part.row(usize::MAX).is_none()), (end - start, true));
        assert!(part.transposed().row(last).is_none_or(|column| column.len() == x.rows()));
    }
}

fn packed<A, B>(c: &mut Calls, isa: Isa, a: Mat<'_, A>, b: Mat<'_, B>, y: &mut (Guarded<f32>, [usize; 3]))
where
    A: Input<Acc = f32>,
    B: Element + Input<Acc = f32>,
{
    let ours = PackedB::new(isa, b);
    let mut memory = c.bytes(PackedB::<B>::size(isa, b.rows(), b.cols()).next_multiple_of(64));
    c.saw("PackedB::pack_into", PackedB::pack_into(isa, b, &mut memory));
    let (k, n) = (c.number(b.rows()), c.number(b.cols()));
    // One that is too large for its memory is refused, whatever its size.
    let borrowed = c.saw("PackedB::from_bytes", PackedB::<B>::from_bytes(isa, k, n, &memory));
    let mut rows = c.floats::<B>(b.rows() * b.cols());
    c.saw("PackedB::unpack_transposed", ours.unpack_transposed(&mut rows));
    for b in [Some(ours), borrowed].into_iter().flatten().filter(|b| b.rows() < 1000 && b.cols() < 1000) {
        let (start, end) = (c.pick(&[0, 0, b.tile(), 5]), c.number(b.cols()));
        for by_row in [false, true] {
            let Some(y) = mat_mut(c, y) else { return };
            // A part of the columns.
            let y = if start == b.tile() { y.split_at_col(start).1 } else { y };
            match by_row {
                false => c.saw("gemm_packed", gemm_packed(a, &b, start..end, y, false)),
                true => c.saw("gemm_packed_by_row", gemm_packed_by_row(a, &b, start..end, y, true)),
            };
        }
    }
}

fn gathered(c: &mut Calls, isa: Isa) {
    let (m, k) = (c.extent(), c.pick(&[0, 1, 9, 27]));
    let (count, width) = (c.pick(&[0, 1, 2, 7]), c.extent());
    let a = Memory::<f32>::new(c, m, k, false);
    let Some(a) = a.mat(c) else { return };
    let a = PackedA::new(isa, a);
    let (places, data) = (c.places(k, 30), c.floats::<f32>(count * (width + 2) + 30));
    let (runs, run, step) = (c.number(count), c.number(width), c.number(width + 2));
    let Some(b) = c.saw("Gathered::new", Gathered::new(&data, &places, runs, run, step)) else { return };
    let (start, end) = (c.number(0), c.number(count * width));
    let starts = c.floats::<f32>(m);
    for starts in [None, Some(&*starts)] {
        let mut y = result(c, m, count * width);
        let Some(y) = mat_mut(c, &mut y) else { return };
        c.saw("gemm_gathered", gemm_gathered(&a, b, start..end, starts, y));
    }
}

#[test]
fn parts_of_results() {
    calls(200, |c, _| {
        let (rows, cols) = (c.extent(), c.extent());
        let mut y = result(c, rows, cols);
        let [rows, cols, _] = y.1;
        let (row, col, columns_first) = (c.number(rows / 2), c.number(cols / 2), c.pick(&[false, true]));
        let Some(mut y) = mat_mut(c, &mut y) else { return };
        assert_eq!(y.row_mut(rows), [0.0; 0]);
        let parts = match columns_first {
            false => {
                let (a, b) = y.split_at_row(row);
                [a.split_at_col(col), b.split_at_col(col)]
            }
            true => {
                let (a, b) = y.split_at_col(col);
                [a.split_at_row(row), b.split_at_row(row)]
            }
        };
        let mut count = 0;
        for mut part in parts.into_iter().flat_map(|(a, b)| [a, b]) {
            for i in 0..part.rows() {
                part.row_mut(i).fill(1.0);
            }
            let mut again = part.reborrow();
            count += (0..again.rows()).map(|i| again.row_mut(i).len()).sum::<usize>();
        }
        assert_eq!(count, rows * cols);
    });
}

#[test]
fn few_rows() {
    calls(200, |c, isa| {
        let Some(few) = FewBf16::detect(isa) else { return };
        let (m, k, n) = (c.pick(&[0, 1, 2, 3, 4, 5, 8, 9]), c.extent(), c.extent());
        let in_columns = c.pick(&[false, false, false, true]);
        let (a, b) = (Memory::<bf16>::new(c, m, k, false), Memory::<bf16>::new(c, n, k, in_columns));
        let mut y = result(c, m, n);
        let (Some(a), Some(b)) = (a.mat(c), b.mat(c)) else { return };
        if let Some(y) = mat_mut(c, &mut y) {
            c.saw("dots", few.dots(a, b, y));
        }
        let mut y = result(c, m, k);
        let weights = Memory::<bf16>::new(c, m, n, false);
        if let (Some(weights), Some(y)) = (weights.mat(c), mat_mut(c, &mut y)) {
            c.saw("sums", few.sums(weights, b, y));
        }
    });
}
