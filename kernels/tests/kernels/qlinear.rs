//! Products with a quantized weight: by lanes, by tiles, by products of bytes, on matrix units.
use crate::data::{Buffer, Element, Layout, Random, assert_close, check_untouched, pick, view};
use crate::host::{WAVES, run_plan};
use crate::matrix::device as matrix_device;
use crate::quant::{FORMATS, blocks_view, bytes_of, decode, random_blocks};
use half::{bf16, f16};
use ops_kernels::{
    BlockFormat, Device, Dot4, ElementType, Instance, Matrix, OperandView, Plan, Tuning, find, qlinear,
};

struct Case {
    rows: u64,
    n: u64,
    k: u64,
    variant: &'static str,
    compute_units: u32,
}

/// Plans a product and runs its launches; the kernel that multiplies.
fn multiply(device: &Device, dims: &[u64], n: u64, views: [OperandView<'_>; 3]) -> &'static Instance {
    let mut plan = Plan::default();
    qlinear::prepare(dims, n, views, device, &mut plan).expect("a kernel");
    let planes = Buffer::filled(0x5au8, plan.workspace as usize, 0);
    run_plan(device, &mut plan, [planes.address(), 0]);
    planes.check_guards();
    plan.main().expect("a launch").instance
}

/// A device of either wave size that multiplies bytes from one row on.
fn dot_devices(compute_units: u32) -> Vec<Device> {
    let mut tuning = Tuning::default();
    assert!(tuning.set("qlinear_dot_rows", 1) && tuning.set("qlinear_rows", 12));
    WAVES.map(|wave| Device { compute_units, wave, matrix: None, dot4: Some(Dot4::Signed), tuning }).to_vec()
}

fn devices(case: &Case) -> Vec<Device> {
    let &Case { variant, compute_units, .. } = case;
    if variant.starts_with("mma") {
        return Matrix::ALL.map(|matrix| matrix_device(matrix, compute_units)).to_vec();
    }
    if variant.starts_with("dot") {
        return dot_devices(compute_units);
    }
    let plain = |wave| Device { compute_units, wave, matrix: None, dot4: None, tuning: Tuning::default() };
    WAVES.map(plain).to_vec()
}

/// The variant that a format has for a size: most formats have fewer than q4_0.
fn variant_of(format: BlockFormat, t: ElementType, variant: &'static str) -> &'static str {
    let types = [ElementType::Block(format), t];
    // Products of bytes are the same for all types.
    let has = |variant: &str| {
        find("qlinear", variant, if variant.starts_with("dot") { &types[..1] } else { &types }).is_some()
    };
    let smaller = match variant {
        "rows4" => "rows1",
        "rows8" => "rows4",
        "dot2" => "dot4",
        "tile128" => "tile64",
        "mma128" => "mma64",
        "tile64" => "rows1",
        other => other,
    };
    if has(variant) { variant } else { smaller }
}

/// What products of bytes make of a row: each block of 32 in steps of its largest magnitude over 127.
fn in_steps(row: &[f32]) -> Vec<f64> {
    let block = |x: &[f32]| -> Vec<f64> {
        let most = x.iter().fold(0f32, |most, x| most.max(x.abs()));
        let to_middle = match most {
            most if most < 2f32.powi(-100) => 2f32.powi(64),
            most if most > 2f32.powi(100) => 2f32.powi(-64),
            _ => 1.0,
        };
        let inverse = if most == 0.0 { 0.0 } else { 127.0 * (1.0 / (most * to_middle)) };
        let steps = |x: &f32| f64::from(x * to_middle) * f64::from(inverse);
        x.iter().map(|x| steps(x).round_ties_even() * f64::from(most) / 127.0).collect()
    };
    row.chunks(32).flat_map(block).collect()
}

fn product<T: Element>(format: BlockFormat, case: &Case) {
    let &Case { rows, n, k, variant, .. } = case;
    let (k, variant) = (k.next_multiple_of(format.values()), variant_of(format, T::DTYPE, variant));
    let blocks = k / format.values();
    let bytes = random_blocks(format, (n * blocks) as usize, 6);
    let weights: Vec<f64> =
        bytes.chunks(bytes_of(format)).flat_map(|b| decode(format, b)).map(f64::from).collect();
    let mut random = Random::new(7);
    let strides = [blocks as i64, 1];
    let weight = Buffer::new(&bytes, 2);
    for (x_layout, y_layout) in [
        (Layout::contiguous(&[rows, k]), Layout::contiguous(&[rows, n])),
        (Layout::padded(&[rows, k], 1), Layout::scattered(&[rows, n])),
        (Layout::scattered(&[rows, k]), Layout::contiguous(&[rows, n])),
    ] {
        let x: Vec<T> = (0..x_layout.len).map(|_| T::from_f64(random.normal())).collect();
        let x = Buffer::new(&x, 0);
        let mut xs: Vec<f64> = pick(&x, &x_layout).iter().map(|v| v.to_f64()).collect();
        if variant.starts_with("dot") {
            xs = in_steps(&xs.iter().map(|x| *x as f32).collect::<Vec<_>>());
        }
        let want: Vec<f64> = (0..rows as usize)
            .flat_map(|m| {
                let row = &xs[m * k as usize..][..k as usize];
                weights.chunks(k.max(1) as usize).map(move |w| w.iter().zip(row).map(|(w, x)| w * x).sum())
            })
            .collect();
        for device in devices(case) {
            let y = Buffer::filled(T::from_f64(77.0), y_layout.len, 0);
            let views = [view(&x, &x_layout), blocks_view(&weight, &strides, format), view(&y, &y_layout)];
            let main = multiply(&device, &[rows, k], n, views);
            assert_eq!(main.variant, variant, "{rows} {n} {k}");
            let what = format!("{} {rows} {n} {k} {device:?}", main.symbol);
            assert_close(&what, &pick(&y, &y_layout), &want, true, 2.0);
            check_untouched(&y, &y_layout, T::from_f64(77.0));
        }
    }
}

fn products<T: Element>() {
    let double = T::DTYPE == ElementType::F64;
    for format in FORMATS {
        for (rows, n, k) in
            [(1, 9, 32), (1, 37, 1120), (1, 6, 8480), (2, 5, 64), (4, 11, 2080), (7, 6, 352), (8, 9, 96)]
        {
            let (variant, dot) = match rows {
                1 => ("rows1", "dot1"),
                2 => ("rows4", "dot2"),
                ..=4 => ("rows4", "dot4"),
                _ if double => ("rows4", ""),
                _ => ("rows8", "dot8"),
            };
            product::<T>(format, &Case { rows, n, k, variant, compute_units: 1 });
            if !double {
                // With fewer outputs, no product is of bytes.
                product::<T>(format, &Case { rows, n: n + 64 / rows, k, variant: dot, compute_units: 1 });
            }
        }
        for (rows, n, k) in [(9, 5, 32), (66, 70, 96)] {
            product::<T>(format, &Case { rows, n, k, variant: "tile64", compute_units: 1000 });
            if !double {
                product::<T>(format, &Case { rows, n, k, variant: "mma64", compute_units: 1000 });
            }
        }
        if !double {
            product::<T>(format, &Case { rows: 12, n: 9, k: 64, variant: "dot8", compute_units: 1 });
            // All waves of a block compute the same columns.
            product::<T>(format, &Case { rows: 12, n: 9, k: 4160, variant: "dot8", compute_units: 1 });
            product::<T>(format, &Case { rows: 130, n: 135, k: 96, variant: "tile128", compute_units: 1 });
            product::<T>(format, &Case { rows: 130, n: 135, k: 96, variant: "mma128", compute_units: 1 });
        }
    }
}

#[test]
fn qlinear_f16() {
    products::<f16>();
}
#[test]
fn qlinear_bf16() {
    products::<bf16>();
}
#[test]
fn qlinear_f32() {
    products::<f32>();
}
#[test]
fn qlinear_f64() {
    products::<f64>();
}

/// A product of two rows by products of bytes, in f32 of f32, and of each row alone, which another kernel computes.
fn by_bytes(format: BlockFormat, x: &[f32], weight: &[u8], n: usize) -> [Vec<f32>; 2] {
    let alone = x.chunks(x.len() / 2).flat_map(|row| rows_by_bytes(format, 1, row, weight, n));
    [rows_by_bytes(format, 2, x, weight, n), alone.collect()]
}

fn rows_by_bytes(format: BlockFormat, rows: usize, x: &[f32], weight: &[u8], n: usize) -> Vec<f32> {
    let (k, m) = ((x.len() / rows) as u64, rows as u64);
    let (x_layout, y_layout) = (Layout::contiguous(&[m, k]), Layout::contiguous(&[m, n as u64]));
    let (x, weight, y) = (Buffer::new(x, 0), Buffer::new(weight, 0), Buffer::filled(0f32, rows * n, 0));
    let strides = [(k / format.values()) as i64, 1];
    let views = [view(&x, &x_layout), blocks_view(&weight, &strides, format), view(&y, &y_layout)];
    let device = &dot_devices(1)[0];
    assert!(multiply(device, &[m, k], n as u64, views).variant.starts_with("dot"));
    y.slice().to_vec()
}

/// What is not finite in x is not lost in its integers: it comes out as the sum of products has it, and rows
/// without it stay as they are.
#[test]
fn what_is_not_finite_reaches_the_sum() {
    for format in FORMATS {
        let (n, k) = (66, 3 * format.values() as usize);
        let weight = random_blocks(format, 3 * n, 3);
        let weights: Vec<f32> = weight.chunks(bytes_of(format)).flat_map(|b| decode(format, b)).collect();
        for (at, bad) in [(0, f32::INFINITY), (37, f32::NEG_INFINITY), (k - 1, f32::NAN), (64, f32::INFINITY)]
        {
            let mut x: Vec<f32> = (0..2 * k).map(|i| (i % 13) as f32 - 6.0).collect();
            x[at] = bad;
            for (i, y) in by_bytes(format, &x, &weight, n).into_iter().flat_map(|y| y.into_iter().enumerate())
            {
                let (row, column) = (&x[i / n * k..][..k], &weights[i % n * k..][..k]);
                let mut want: f32 = row.iter().zip(column).map(|(x, w)| x * w).sum();
                if want.is_finite() {
                    want = in_steps(row).iter().zip(column).map(|(x, w)| *x as f32 * w).sum();
                }
                let same =
                    if want.is_finite() { (y - want).abs() <= 1e-4 } else { y.total_cmp(&want).is_eq() };
                assert!(
                    same || (y.is_nan() && want.is_nan()),
                    "{format:?} {bad} at {at}: {i} is {y}, not {want}"
                );
            }
        }
        let mut x = vec![1.0f32; 2 * k];
        (x[3], x[5], x[k + 1], x[k + 2]) = (f32::NAN, f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY);
        for y in by_bytes(format, &x, &weight, n) {
            assert!(
                y[..n].iter().all(|y| y.is_nan()) && y[n..].iter().all(|y| !y.is_finite()),
                "{format:?}: {y:?}"
            );
        }
    }
}

/// Blocks of the smallest and the largest numbers have as many steps as others.
#[test]
fn blocks_of_any_magnitude_have_as_many_steps() {
    const N: usize = 66;
    for format in FORMATS {
        let (weight, values) = (random_blocks(format, N, 9), format.values() as usize);
        let weights: Vec<f32> = weight.chunks(bytes_of(format)).flat_map(|b| decode(format, b)).collect();
        for scale in [1e-38f32, 3e-36, 1e-20, 1.0, 1.999_999_9, 255.0 / 128.0, 1e20, 1e35] {
            let mut random = Random::new(11);
            let mut x: Vec<f32> = (0..2 * values).map(|_| random.unit() as f32 * scale).collect();
            x[7] = scale;
            let steps = in_steps(&x);
            for (i, y) in by_bytes(format, &x, &weight, N).into_iter().flat_map(|y| y.into_iter().enumerate())
            {
                let (row, column) =
                    (&steps[i / N * values..][..values], &weights[i % N * values..][..values]);
                let want: f64 = row.iter().zip(column).map(|(x, w)| x * f64::from(*w)).sum();
                let error = (f64::from(y) - want).abs() / f64::from(scale);
                // A step is 8e-3. A scale of 1e-38 / 127 is subnormal, so its own rounding is up to 9e-6 of it.
                let limit = 9e-6 * want.abs() / f64::from(scale);
                assert!(error < limit.max(8e-5), "{format:?} {scale}: {y}, not {want}");
            }
        }
    }
}
