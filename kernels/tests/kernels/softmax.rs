//! softmax and log_softmax.
use crate::data::{Buffer, Element, Layout, Random, assert_close, check_untouched, pick, view};
use crate::host::{WAVES, device, run};
use half::{bf16, f16};
use ops_kernels::softmax;

fn softmax_of(row: &[f64], log: bool) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, |m, v| if v > m || v.is_nan() { v } else { m });
    let sum: f64 = row.iter().map(|v| (v - most).exp()).sum();
    row.iter().map(|v| if log { v - most - sum.ln() } else { (v - most).exp() / sum }).collect()
}

/// Applies softmax along `axis` of logically contiguous values.
fn reference(x: &[f64], dims: &[u64], axis: usize, log: bool) -> Vec<f64> {
    let n = dims[axis] as usize;
    let inner: usize = dims[axis + 1..].iter().product::<u64>() as usize;
    let mut out = vec![0.0; x.len()];
    for start in (0..x.len()).filter(|i| n > 0 && (i / inner).is_multiple_of(n)) {
        let row: Vec<f64> = (0..n).map(|k| x[start + k * inner]).collect();
        softmax_of(&row, log).into_iter().enumerate().for_each(|(k, v)| out[start + k * inner] = v);
    }
    out
}

fn cases<T: Element>() {
    let shapes: Vec<(Vec<u64>, usize)> = vec![
        (vec![3, 1], 1),
        (vec![70, 5], 1),
        (vec![6, 33], 1),
        (vec![3, 64], 1),
        (vec![3, 1000], 1),
        (vec![2, 4104], 1),
        (vec![1, 17001], 1),
        (vec![2, 7, 40], 1),
        (vec![9, 3, 5], 0),
        (vec![2, 33, 3], 1),
        (vec![4, 0], 1),
        (vec![0, 4], 1),
        (vec![13], 0),
    ];
    let mut random = Random::new(9);
    for (case, (dims, axis)) in shapes.iter().enumerate() {
        for [x_layout, y_layout] in [
            [(); 2].map(|()| Layout::contiguous(dims)),
            [Layout::padded(dims, 8), Layout::scattered(dims)],
            [Layout::scattered(dims), Layout::padded(dims, 8)],
        ] {
            let special = |r: &mut Random| match r.below(60) {
                0 => f64::NEG_INFINITY,
                1 if case % 2 == 0 => f64::NAN,
                2 if case % 3 == 0 => f64::INFINITY,
                _ => r.normal() * 10.0,
            };
            let x: Vec<T> = (0..x_layout.len).map(|_| T::from_f64(special(&mut random))).collect();
            let x = Buffer::new(&x, case % 2);
            let xs: Vec<f64> = pick(&x, &x_layout).iter().map(|v| v.to_f64()).collect();
            for wave in WAVES {
                for (op, log) in [("softmax", false), ("log_softmax", true)] {
                    let untouched = T::from_f64(77.0);
                    let y = Buffer::filled(untouched, y_layout.len, 0);
                    let views = (view(&x, &x_layout), view(&y, &y_layout));
                    let prepared = softmax::prepare(op, dims, *axis, views.0, views.1, &device(wave));
                    let (launch, args) = prepared.expect("a kernel");
                    run(wave, &launch, &args);
                    let want = reference(&xs, dims, *axis, log);
                    assert_close(
                        &format!("{op} {dims:?} axis {axis}"),
                        &pick(&y, &y_layout),
                        &want,
                        false,
                        2.0,
                    );
                    check_untouched(&y, &y_layout, untouched);
                }
            }
        }
    }
}

#[test]
fn f16_rows() {
    cases::<f16>();
}
#[test]
fn bf16_rows() {
    cases::<bf16>();
}
#[test]
fn f32_rows() {
    cases::<f32>();
}
#[test]
fn f64_rows() {
    cases::<f64>();
}

/// Rows that start with -inf, end with it, or hold nothing else, by row and by column.
#[test]
fn infinite_rows() {
    let inf = f64::NEG_INFINITY;
    let rows = [[inf, inf, 1.0, 2.0], [inf; 4], [3.0, inf, inf, inf], [inf, 0.0, inf, 1.0]];
    for columns in [false, true] {
        let x: Vec<f32> = if columns {
            (0..4).flat_map(|k| (0..40).map(move |r| rows[r % 4][k] as f32)).collect()
        } else {
            rows.iter().flatten().map(|&v| v as f32).collect()
        };
        let (dims, axis): (&[u64], usize) = if columns { (&[4, 40], 0) } else { (&[4, 4], 1) };
        let layout = Layout::contiguous(dims);
        let xs: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
        let (x, y) = (Buffer::new(&x, 0), Buffer::filled(0f32, x.len(), 0));
        let prepared =
            softmax::prepare("softmax", dims, axis, view(&x, &layout), view(&y, &layout), &device(32));
        let (launch, args) = prepared.expect("a kernel");
        assert_eq!(launch.instance.variant == "column", columns);
        run(32, &launch, &args);
        assert_close("softmax of infinities", y.slice(), &reference(&xs, dims, axis, false), false, 2.0);
    }
}
