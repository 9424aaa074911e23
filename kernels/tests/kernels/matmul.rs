//! matmul and linear: every variant, transposes, strides, batches, bias, and tails in every dimension.
use crate::data::{Buffer, Element, Layout, Random, assert_close, check_untouched, pick, view};
use crate::host::{WAVES, run_on};
use crate::matrix::device as matrix_device;
use half::{bf16, f16};
use ops_kernels::matmul::{self, Matmul};
use ops_kernels::{Device, ElementType, Matrix, OperandView, Tuning};

/// The strides of `[.., r, c]` stored as `[.., c, r]`.
fn transposed(dims: &[u64]) -> Layout {
    let mut swapped = dims.to_vec();
    let rank = dims.len();
    swapped.swap(rank - 2, rank - 1);
    let mut strides = Layout::contiguous(&swapped).strides;
    strides.swap(rank - 2, rank - 1);
    Layout::new(dims, strides)
}

fn random<T: Element>(n: usize, seed: u64) -> Vec<T> {
    let mut random = Random::new(seed);
    (0..n).map(|_| T::from_f64(random.normal())).collect()
}

/// Random values where the layout has elements, NaN between them.
fn filled<T: Element>(layout: &Layout, seed: u64) -> Buffer<T> {
    let mut values = vec![T::from_f64(f64::NAN); layout.len];
    let mut random = Random::new(seed);
    layout.offsets().into_iter().for_each(|o| values[o] = T::from_f64(random.normal()));
    Buffer::new(&values, 0)
}

struct Case<'a> {
    batch: &'a [u64],
    size: [u64; 3],
    a: Layout,
    b: Layout,
    c: Layout,
    /// None, or whether the bias is f32.
    bias: Option<bool>,
    variant: &'a str,
    compute_units: u32,
}

fn check<T: Element, W: Element>(case: &Case<'_>) {
    let [m, n, k] = case.size;
    let (a, b) = (filled::<T>(&case.a, 1), filled::<W>(&case.b, 2));
    let (bias_t, bias_f32) =
        (Buffer::new(&random::<T>(n as usize, 3), 1), Buffer::new(&random::<f32>(n as usize, 3), 1));
    let row = Layout::contiguous(&[n]);
    let bias: Option<OperandView<'_>> =
        case.bias.map(|wide| if wide { view(&bias_f32, &row) } else { view(&bias_t, &row) });
    let (left, right) = (pick(&a, &case.a), pick(&b, &case.b));
    let batches: u64 = case.batch.iter().product();
    let mut want = Vec::new();
    for batch in 0..batches as usize {
        for i in 0..m as usize {
            for j in 0..n as usize {
                let mut sum = match case.bias {
                    Some(true) => f64::from(bias_f32.slice()[j]),
                    Some(false) => bias_t.slice()[j].to_f64(),
                    None => 0.0,
                };
                for l in 0..k as usize {
                    let at_a = (batch * m as usize + i) * k as usize + l;
                    let at_b = (batch * k as usize + l) * n as usize + j;
                    sum += left[at_a].to_f64() * right[at_b].to_f64();
                }
                want.push(sum);
            }
        }
    }
    let devices: Vec<Device> = if case.variant.starts_with("mma") {
        Matrix::ALL.map(|matrix| matrix_device(matrix, case.compute_units)).to_vec()
    } else {
        WAVES
            .map(|wave| Device {
                compute_units: case.compute_units,
                wave,
                matrix: None,
                dot4: None,
                tuning: Tuning::default(),
            })
            .to_vec()
    };
    for device in devices {
        let untouched = T::from_f64(77.0);
        let c = Buffer::filled(untouched, case.c.len, 0);
        let problem = Matmul {
            batch: case.batch,
            m,
            n,
            k,
            a: view(&a, &case.a),
            b: view(&b, &case.b),
            c: view(&c, &case.c),
            bias,
        };
        let (launch, args) = matmul::prepare(&problem, &device).expect("a kernel");
        // Of f16 with f32 the smallest numbers count, which gfx90a reads as zero.
        let declined = (T::DTYPE, W::DTYPE) == (ElementType::F32, ElementType::F16)
            && device.matrix == Some(Matrix::Mfma90a);
        let variant = if declined { case.variant.replace("mma", "tile") } else { case.variant.to_owned() };
        if !launch.is_empty() {
            assert_eq!(launch.instance.variant, variant, "{:?}", case.size);
        }
        run_on(&device, &launch, &args);
        let what = format!("{} {:?} {:?} {device:?}", launch.instance.symbol, case.batch, case.size);
        assert_close(&what, &pick(&c, &case.c), &want, true, 2.0);
        check_untouched(&c, &case.c, untouched);
    }
}

fn with_dims(batch: &[u64], rows: u64, columns: u64) -> Vec<u64> {
    batch.iter().copied().chain([rows, columns]).collect()
}

fn tiles<T: Element, W: Element>(sizes: &[[u64; 3]], variant: &str, compute_units: u32) {
    for (i, &size) in sizes.iter().enumerate() {
        let [m, n, k] = size;
        for (a_turned, b_turned, c_turned) in
            [(false, false, false), (false, true, false), (true, false, true)]
        {
            let layout =
                |dims: &[u64], turned| if turned { transposed(dims) } else { Layout::contiguous(dims) };
            check::<T, W>(&Case {
                batch: &[],
                size,
                a: layout(&[m, k], a_turned),
                b: layout(&[k, n], b_turned),
                c: layout(&[m, n], c_turned),
                bias: [None, Some(false), Some(true)][i % 3],
                variant,
                compute_units,
            });
        }
    }
}

const SMALL_TILE: [[u64; 3]; 5] = [[9, 1, 1], [33, 65, 40], [64, 64, 64], [70, 130, 31], [12, 5, 0]];

#[test]
fn small_tiles() {
    tiles::<f16, f16>(&SMALL_TILE, "tile64", 1000);
    tiles::<bf16, bf16>(&SMALL_TILE, "tile64", 1000);
    tiles::<f32, f32>(&SMALL_TILE, "tile64", 1000);
    tiles::<f64, f64>(&SMALL_TILE, "tile64", 1000);
}

#[test]
fn every_weight_type() {
    let sizes = [[33, 65, 40]];
    tiles::<f16, bf16>(&sizes, "tile64", 1000);
    tiles::<f16, f32>(&sizes, "tile64", 1000);
    tiles::<f16, f64>(&sizes, "tile64", 1000);
    tiles::<bf16, f16>(&sizes, "tile64", 1000);
    tiles::<bf16, f32>(&sizes, "tile64", 1000);
    tiles::<bf16, f64>(&sizes, "tile64", 1000);
    tiles::<f32, f16>(&sizes, "tile64", 1000);
    tiles::<f32, bf16>(&sizes, "tile64", 1000);
    tiles::<f32, f64>(&sizes, "tile64", 1000);
    tiles::<f64, f16>(&sizes, "tile64", 1000);
    tiles::<f64, bf16>(&sizes, "tile64", 1000);
    tiles::<f64, f32>(&sizes, "tile64", 1000);
}

#[test]
fn large_tiles() {
    let sizes = [[130, 140, 72], [128, 256, 33], [9, 129, 17]];
    tiles::<f16, f16>(&sizes[..2], "tile128", 1);
    tiles::<bf16, bf16>(&sizes[2..], "tile128", 1);
    tiles::<f32, f32>(&sizes, "tile128", 1);
    tiles::<f32, f16>(&sizes[2..], "tile128", 1);
    tiles::<f32, bf16>(&sizes[2..], "tile128", 1);
}

#[test]
fn small_tiles_on_matrix_units() {
    tiles::<f16, f16>(&SMALL_TILE, "mma64", 1000);
    tiles::<bf16, bf16>(&SMALL_TILE, "mma64", 1000);
    tiles::<f32, f16>(&SMALL_TILE, "mma64", 1000);
    tiles::<f32, bf16>(&SMALL_TILE, "mma64", 1000);
}

#[test]
fn large_tiles_on_matrix_units() {
    let sizes = [[130, 140, 72], [128, 256, 33], [9, 129, 17], [12, 150, 0]];
    tiles::<f16, f16>(&sizes, "mma128", 1);
    tiles::<bf16, bf16>(&sizes[..2], "mma128", 1);
    tiles::<f32, f16>(&sizes, "mma128", 1);
    tiles::<f32, bf16>(&sizes[..2], "mma128", 1);
}

/// f32 in two halves: rows as large and as small as f32 has, one element far above its neighbours, and what is
/// not finite on either side.
#[test]
fn every_magnitude_on_matrix_units() {
    fn case<W: Element>() {
        let (m, n, k) = (9usize, 3usize, 64usize);
        let mut x = random::<f32>(m * k, 5);
        let mut w = random::<W>(k * n, 6);
        (0..k).for_each(|l| x[l] *= 1e36);
        (0..k).for_each(|l| x[k + l] *= 1e-30);
        (0..k).for_each(|l| x[2 * k + l] = 0.0);
        // Element 7 of row 3 is large, and nothing is made of it.
        x[3 * k + 7] = 3e4;
        (0..n).for_each(|j| w[7 * n + j] = W::from_f64(0.0));
        x[4 * k + 40] = f32::INFINITY;
        x[5 * k + 41] = f32::NAN;
        (0..k).for_each(|l| x[6 * k + l] = if l % 3 == 0 { 1.0 } else { -2.0 });
        w[50 * n + 2] = W::from_f64(f64::NEG_INFINITY);
        let (rows, columns) = (Layout::contiguous(&[9, 64]), Layout::contiguous(&[64, 3]));
        let (a, b) = (Buffer::new(&x, 0), Buffer::new(&w, 0));
        for device in Matrix::ALL.map(|matrix| matrix_device(matrix, 1000)) {
            let out = Layout::contiguous(&[9, 3]);
            let c = Buffer::filled(0f32, m * n, 0);
            let (a, b, c_view) = (view(&a, &rows), view(&b, &columns), view(&c, &out));
            let problem = Matmul { batch: &[], m: 9, n: 3, k: 64, a, b, c: c_view, bias: None };
            let (launch, args) = matmul::prepare(&problem, &device).expect("a kernel");
            run_on(&device, &launch, &args);
            for (at, got) in c.slice().iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let terms = (0..k).map(|l| f64::from(x[i * k + l]) * w[l * n + j].to_f64());
                let (want, scale) = (terms.clone().sum::<f64>(), terms.map(f64::abs).sum::<f64>());
                let close = (f64::from(*got) - want).abs() <= scale * 2e-5;
                let same = want.is_nan() && got.is_nan() || f64::from(*got) == want;
                assert!(close || same, "{} {i}, {j}: {got}, not {want}, {device:?}", launch.instance.symbol);
            }
        }
    }
    case::<f16>();
    case::<bf16>();
}

fn few_rows<T: Element, W: Element>() {
    for (m, variant) in [(1, "rows1"), (2, "rows4"), (7, "rows4")] {
        for (n, k) in [(1, 8), (37, 1000), (18, 4104), (5, 33), (3, 0)] {
            for padding in [0, 3] {
                check::<T, W>(&Case {
                    batch: &[],
                    size: [m, n, k],
                    a: Layout::padded(&[m, k], padding),
                    b: Layout::new(&[k, n], vec![1, (k as i64 + padding).max(1)]),
                    c: Layout::padded(&[m, n], padding),
                    bias: [None, Some(false), Some(true)][m as usize % 3],
                    variant,
                    compute_units: 1,
                });
            }
        }
    }
}

#[test]
fn few_rows_of_every_common_pair() {
    few_rows::<f16, f16>();
    few_rows::<bf16, bf16>();
    few_rows::<f32, f32>();
    few_rows::<f64, f64>();
    few_rows::<f32, f16>();
    few_rows::<f32, bf16>();
    few_rows::<f16, f32>();
    few_rows::<bf16, f32>();
}

/// Rows that start on 16-byte boundaries and end within a pack: what lies behind the end is NaN, so that
/// a pack read across it shows.
#[test]
fn aligned_rows_with_a_tail() {
    fn case<T: Element>() {
        let sizes = [
            (33, 20, "tile64"),
            (40, 130, "tile128"),
            (3, 9, "rows4"),
            (33, 20, "mma64"),
            (40, 130, "mma128"),
        ];
        for (m, n, variant) in sizes {
            let half = matches!(T::DTYPE, ElementType::F16 | ElementType::Bf16);
            if variant == "tile128" && T::DTYPE == ElementType::F64 || variant.starts_with("mma") && !half {
                continue;
            }
            let k = 29;
            let rows = |lines| Layout::new(&[lines, k], vec![48, 1]);
            let columns = Layout::new(&[k, n], vec![1, 48]);
            let compute_units = if variant.ends_with("128") { 1 } else { 1000 };
            let a = [rows(m), Layout::new(&[m, k], vec![1, 48])];
            let b = [columns, Layout::new(&[k, n], vec![144, 1])];
            for (a, b) in a.into_iter().zip(b) {
                if variant == "rows4" && b.strides[0] != 1 {
                    continue;
                }
                let c = Layout::padded(&[m, n], 3);
                let size = [m, n, k];
                check::<T, T>(&Case { batch: &[], size, a, b, c, bias: None, variant, compute_units });
            }
        }
    }
    case::<f16>();
    case::<bf16>();
    case::<f32>();
    case::<f64>();
}

#[test]
fn batches() {
    batched::<f32, f16>(&[(20, "tile64"), (3, "rows4")]);
    batched::<f16, f16>(&[(20, "mma64")]);
}

fn batched<T: Element, W: Element>(sizes: &[(u64, &str)]) {
    let batch = [2, 3];
    for &(m, variant) in sizes {
        let (n, k) = (35, 24);
        let shared =
            |rows, columns| Layout::new(&with_dims(&batch, rows, columns), vec![0, 0, columns as i64, 1]);
        let turned = transposed(&with_dims(&batch, k, n));
        for a in [
            Layout::contiguous(&with_dims(&batch, m, k)),
            shared(m, k),
            Layout::scattered(&with_dims(&batch, m, k)),
        ] {
            check::<T, W>(&Case {
                batch: &batch,
                size: [m, n, k],
                a,
                b: turned.clone(),
                c: Layout::scattered(&with_dims(&batch, m, n)),
                bias: None,
                variant,
                compute_units: 1000,
            });
        }
    }
}
