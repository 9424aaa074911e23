use super::calls::{Calls, calls};
use super::guarded::Guarded;
use half::{bf16, f16};
use ops_simd::rows::{self, Columns, Moments, Pairs, Running};
use ops_simd::{Element, Isa};

#[test]
fn rows_of_any_length() {
    calls(100, |calls, isa| {
        of_types::<f32, f32>(calls, isa);
        of_types::<f16, f32>(calls, isa);
        of_types::<bf16, bf16>(calls, isa);
        of_types::<bf16, f16>(calls, isa);
        online(calls, isa);
    });
}

fn of_types<T: Element, W: Element>(c: &mut Calls, isa: Isa) {
    let (count, n) = (c.pick(&[0, 1, 2, 3, 5]), c.extent());
    let (x, mut y, store) = (c.floats::<T>(count * n), c.floats::<T>(count * n), c.store());
    reductions(c, isa, &x, (count, n));
    let (weight, bias) = (c.floats::<W>(n), c.floats::<W>(n));
    let row = c.number(n);
    c.saw("softmax", rows::softmax(isa, &x, row, &mut y, store));
    c.saw("log_softmax", rows::log_softmax(isa, &x, row, &mut y, store));
    c.saw("l2_norm", rows::l2_norm(isa, &x, row, 1e-5, &mut y, store));
    c.saw("rms_norm", rows::rms_norm(isa, &x, &weight, 1e-5, &mut y, store));
    c.saw("layer_norm", rows::layer_norm(isa, &x, &weight, Some(&*bias), 1e-5, &mut y, store));
    c.saw("layer_norm", rows::layer_norm(isa, &x, &weight, None, 1e-5, &mut y, store));
    let (w, b) = (c.floats::<f32>(n), c.floats::<f32>(n));
    c.saw("group_norm", rows::group_norm(isa, &x, [&w, &b], 1e-5, &mut y, store));
    let (residual, mut sum) = (c.floats::<T>(count * n), c.floats::<T>(count * n));
    c.saw("add_rms_norm", rows::add_rms_norm(isa, &x, &residual, &weight, 1e-5, &mut y, &mut sum));
    ropes::<T, W>(c, isa);
    columns::<T>(c, isa);
}

fn reductions<T: Element>(c: &mut Calls, isa: Isa, x: &[T], (count, n): (usize, usize)) {
    let (row, mut y) = (c.number(n), c.floats::<f32>(count));
    c.saw("sum", rows::sum(isa, x, row, &mut y));
    c.saw("sum_of_squares", rows::sum_of_squares(isa, x, row, &mut y));
    c.saw("max", rows::max(isa, x, row, &mut y));
    c.saw("min", rows::min(isa, x, row, &mut y));
    let mut y = vec![Moments::default(); y.len()];
    c.saw("moments", rows::moments(isa, x, row, &mut y));
    if !x.is_empty() {
        assert!(rows::arg(isa, c.pick(&[true, false]), x) < x.len());
    }
    assert!(rows::find(isa, x, 1.0).is_none_or(|at| at < x.len()));
}

fn ropes<T: Element, C: Element>(c: &mut Calls, isa: Isa) {
    let (tables, repeat, half) = (c.pick(&[0, 1, 2, 3]), c.pick(&[1, 1, 2, 4]), c.extent());
    let (x, mut y) = (c.floats::<T>(tables * repeat * 2 * half), c.floats::<T>(tables * repeat * 2 * half));
    let (cos, sin) = (c.floats::<C>(tables * half), c.floats::<C>(tables * half));
    let (d, repeat) = (c.number(2 * half), c.number(repeat));
    for pairs in [Pairs::Halves, Pairs::Adjacent] {
        c.saw("rope", rows::rope(isa, pairs, &x, d, &cos, &sin, repeat, &mut y));
        c.saw("rope_in_place", rows::rope_in_place(isa, pairs, &mut y, d, &cos, &sin, repeat));
    }
}

fn columns<T: Element>(c: &mut Calls, isa: Isa) {
    let (count, n) = (c.pick(&[0, 1, 3, 9]), c.extent());
    let (x, starts) = (c.floats::<T>(n + 40), c.places(count, 50));
    let (mut acc, mut index) = (c.floats::<f32>(n), Guarded::new(c.near(n), || 0));
    for f in [Columns::Sum, Columns::Max, Columns::Min] {
        c.saw("fold_columns", rows::fold_columns(isa, f, &x, &starts, &mut acc));
    }
    let first = c.pick(&[0, 7, u32::MAX - 3]);
    let of = (&*starts, first);
    c.saw("arg_columns", rows::arg_columns(isa, first == 0, &x, of, &mut acc, &mut index));
}

fn online(c: &mut Calls, isa: Isa) {
    let (count, n) = (c.pick(&[0, 1, 2, 5]), c.extent());
    let (mut x, mut factors) = (c.floats::<f32>(count * n), c.floats::<f32>(count));
    let mut running = vec![Running::START; c.near(count)];
    let row = c.number(n);
    c.saw("online_softmax", rows::online_softmax(isa, &mut x, row, &mut running, &mut factors));
}
