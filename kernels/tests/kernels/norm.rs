//! rms_norm, add_rms_norm, layer_norm, group_norm.
use crate::data::{Buffer, Element, Layout, Random, assert_close, assert_exact, check_untouched, pick, view};
use crate::host::{WAVES, device, run};
use half::{bf16, f16};
use ops_kernels::OperandView;
use ops_kernels::norm::{self, Norm};

const EPS: f64 = 1e-5;

/// Row lengths round the lane, pack and register-cache sizes, and shapes with every kind of stride.
fn layouts() -> Vec<[Layout; 2]> {
    let mut out = Vec::new();
    for (rows, n) in
        [(5, 1), (70, 3), (3, 8), (9, 31), (4, 33), (5, 64), (3, 257), (2, 1000), (2, 4104), (1, 17001)]
    {
        out.push([(); 2].map(|()| Layout::contiguous(&[rows, n])));
    }
    out.push([Layout::contiguous(&[2, 16392]), Layout::padded(&[2, 16392], 8)]);
    let dims = [3, 2, 5, 48];
    out.push([Layout::padded(&dims, 16), Layout::contiguous(&dims)]);
    out.push([Layout::scattered(&dims), Layout::padded(&dims, 3)]);
    out.push([Layout::new(&dims, vec![48, 0, 0, 1]), Layout::scattered(&dims)]);
    out.push([Layout::new(&dims, vec![2, 1, 7, 0]), Layout::contiguous(&dims)]);
    out.push([(); 2].map(|()| Layout::contiguous(&[0, 8])));
    out.push([(); 2].map(|()| Layout::contiguous(&[8, 0])));
    out
}

fn random<T: Element>(n: usize, seed: u64, mean: f64, deviation: f64) -> Vec<T> {
    let mut random = Random::new(seed);
    (0..n).map(|_| T::from_f64(mean + deviation * random.normal())).collect()
}

fn values<T: Element>(v: &[T]) -> Vec<f64> {
    v.iter().map(|x| x.to_f64()).collect()
}

fn rms_rows(x: &[f64], weight: &[f64]) -> Vec<f64> {
    let row = |row: &[f64]| {
        let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64 + EPS).sqrt();
        row.iter().zip(weight).map(|(v, w)| v * scale * w).collect::<Vec<_>>()
    };
    x.chunks(weight.len().max(1)).flat_map(row).collect()
}

/// (x - mean) / sqrt(var + eps), the mean and variance of each run of `n`.
fn standardised(x: &[f64], n: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let shifted: Vec<f64> = row.iter().map(|v| v - row[0]).collect();
        let mean = shifted.iter().sum::<f64>() / row.len() as f64;
        let var = shifted.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / row.len() as f64;
        shifted.iter().map(|v| (v - mean) / (var + EPS).sqrt()).collect::<Vec<_>>()
    };
    x.chunks(n.max(1)).flat_map(row).collect()
}

fn cases<T: Element, W: Element>() {
    for (case, [x_layout, y_layout]) in layouts().iter().enumerate() {
        let dims = &x_layout.dims;
        let n = *dims.last().unwrap_or(&0) as usize;
        let offset = case % 2;
        // Small values now and then: there eps is half of what is under the root.
        let deviation = if case % 3 == 1 { 0.003 } else { 2.0 };
        let x = Buffer::new(&random::<T>(x_layout.len, 1, 0.1 * deviation, deviation), 0);
        let residual = Buffer::new(&random::<T>(x_layout.len, 2, 0.0, 1.0), 0);
        let parameters = Layout::contiguous(&[n as u64]);
        let weight = Buffer::new(&random::<W>(n, 3, 1.0, 0.2), offset);
        let bias = Buffer::new(&random::<W>(n, 4, 0.0, 0.5), 0);
        let (xs, weights) = (values(&pick(&x, x_layout)), values(weight.slice()));
        for wave in WAVES {
            let device = device(wave);
            let untouched = T::from_f64(77.0);
            let make = || Buffer::filled(untouched, y_layout.len, 0);
            let (y, sum) = (make(), make());
            let mut norm = Norm {
                x: view(&x, x_layout),
                y: view(&y, y_layout),
                weight: Some(view(&weight, &parameters)),
                bias: None,
                residual: None,
                sum: None,
                eps: EPS,
            };
            let what = format!("{dims:?} wave {wave}");
            let (launch, args) = norm::prepare("rms_norm", dims, &norm, &device).expect("a kernel");
            run(wave, &launch, &args);
            assert_close(
                &format!("rms_norm {what}"),
                &pick(&y, y_layout),
                &rms_rows(&xs, &weights),
                false,
                2.0,
            );
            check_untouched(&y, y_layout, untouched);

            for with_bias in [false, true] {
                norm.bias = with_bias.then(|| view(&bias, &parameters));
                let (launch, args) = norm::prepare("layer_norm", dims, &norm, &device).expect("a kernel");
                run(wave, &launch, &args);
                let affine = |(i, v): (usize, f64)| {
                    v * weights[i % n] + if with_bias { bias.slice()[i % n].to_f64() } else { 0.0 }
                };
                let want: Vec<f64> = standardised(&xs, n).into_iter().enumerate().map(affine).collect();
                assert_close(&format!("layer_norm {what}"), &pick(&y, y_layout), &want, false, 2.0);
                check_untouched(&y, y_layout, untouched);
            }

            norm.bias = None;
            norm.residual = Some(view(&residual, x_layout));
            norm.sum = Some(view(&sum, y_layout));
            let (launch, args) = norm::prepare("add_rms_norm", dims, &norm, &device).expect("a kernel");
            run(wave, &launch, &args);
            let added: Vec<T> =
                xs.iter().zip(pick(&residual, x_layout)).map(|(a, b)| T::from_f64(a + b.to_f64())).collect();
            assert_exact(&format!("add_rms_norm sum {what}"), &pick(&sum, y_layout), &added);
            let want = rms_rows(&values(&added), &weights);
            assert_close(&format!("add_rms_norm {what}"), &pick(&y, y_layout), &want, false, 2.0);
            check_untouched(&sum, y_layout, untouched);
        }
    }
}

#[test]
fn f16_rows() {
    cases::<f16, f16>();
    cases::<f16, f32>();
}
#[test]
fn bf16_rows() {
    cases::<bf16, bf16>();
    cases::<bf16, f32>();
}
#[test]
fn f32_rows() {
    cases::<f32, f32>();
}
#[test]
fn f64_rows() {
    cases::<f64, f64>();
}

/// A norm without parameters.
fn plain<'a>(x: OperandView<'a>, y: OperandView<'a>) -> Norm<'a> {
    Norm { x, y, weight: None, bias: None, residual: None, sum: None, eps: EPS }
}

/// f32 with mean 1000 and deviation 1, and a first element far from all others: a variance by
/// E[x^2] - E[x]^2 or without a correction of the mean misses the limit.
#[test]
fn layer_norm_survives_a_large_mean() {
    for n in [100, 4096, 20000] {
        for outlier in [false, true] {
            let mut x = random::<f32>(n, 5, 1000.0, 1.0);
            if outlier {
                x[0] = -3e4;
            }
            let layout = Layout::contiguous(&[1, n as u64]);
            let (x, y) = (Buffer::new(&x, 0), Buffer::filled(0f32, n, 0));
            let norm = plain(view(&x, &layout), view(&y, &layout));
            let (launch, args) =
                norm::prepare("layer_norm", &layout.dims, &norm, &device(64)).expect("a kernel");
            run(64, &launch, &args);
            assert_close(
                &format!("layer_norm {n}"),
                y.slice(),
                &standardised(&values(x.slice()), n),
                false,
                2.0,
            );
        }
    }
}

/// Runs group_norm, its workspace full of NaN.
fn run_group(dims: &[u64], groups: u64, norm: &Norm<'_>, wave: u32) -> norm::GroupPlan {
    let mut plan = norm::group(dims, groups, norm, &device(wave)).expect("a kernel");
    let partial = Buffer::filled(f64::NAN, plan.workspace.div_ceil(8) as usize, 0);
    plan.args.partial = partial.address();
    run(wave, &plan.main, &plan.args);
    if let Some(apply) = &plan.apply {
        run(wave, apply, &plan.args);
    }
    plan
}

/// As for layer_norm: the mean of the parts' means must not lose what their deviations need.
#[test]
fn group_norm_in_parts_survives_a_large_mean() {
    let dims = [1, 2, 20000];
    let mut x = random::<f32>(40000, 9, 1000.0, 1.0);
    x[0] = -3e4;
    let layout = Layout::contiguous(&dims);
    let (x, y) = (Buffer::new(&x, 0), Buffer::filled(0f32, 40000, 0));
    let norm = plain(view(&x, &layout), view(&y, &layout));
    assert!(run_group(&dims, 1, &norm, 64).apply.is_some());
    assert_close("group_norm", y.slice(), &standardised(&values(x.slice()), 40000), false, 2.0);
}

fn group_cases<T: Element, W: Element>() {
    let shapes: [(&[u64], u64); 8] = [
        (&[2, 6, 5, 7], 3),
        (&[1, 8, 16], 2),
        (&[2, 4, 1031], 4),
        (&[3, 5], 1),
        (&[1, 2, 40, 41], 1),
        (&[2, 4, 0], 2),
        // Few large groups go in parts, of 4096 elements; whole packs and not.
        (&[1, 4, 9000], 1),
        (&[2, 2, 131, 131], 1),
    ];
    for (dims, groups) in shapes {
        for (x_layout, y_layout) in [
            (Layout::contiguous(dims), Layout::contiguous(dims)),
            (Layout::scattered(dims), Layout::padded(dims, 1)),
        ] {
            let channels = dims[1];
            let parameters = Layout::contiguous(&[channels]);
            let x = Buffer::new(&random::<T>(x_layout.len, 6, -2.0, 1.5), 0);
            let weight = Buffer::new(&random::<W>(channels as usize, 7, 1.0, 0.3), 0);
            let bias = Buffer::new(&random::<W>(channels as usize, 8, 0.0, 0.3), 0);
            let y = Buffer::filled(T::from_f64(77.0), y_layout.len, 0);
            let norm = Norm {
                x: view(&x, &x_layout),
                y: view(&y, &y_layout),
                weight: Some(view(&weight, &parameters)),
                bias: Some(view(&bias, &parameters)),
                residual: None,
                sum: None,
                eps: EPS,
            };
            let spatial: u64 = dims[2..].iter().product();
            let xs = values(&pick(&x, &x_layout));
            let affine = |(i, v): (usize, f64)| {
                let c = i / spatial as usize % channels as usize;
                v * weight.slice()[c].to_f64() + bias.slice()[c].to_f64()
            };
            let group = (channels / groups * spatial) as usize;
            let want: Vec<f64> = standardised(&xs, group).into_iter().enumerate().map(affine).collect();
            for wave in WAVES {
                let plan = run_group(dims, groups, &norm, wave);
                assert_eq!(plan.apply.is_some(), group > 4 * 4096, "{dims:?}");
                assert_close(&format!("group_norm {dims:?}"), &pick(&y, &y_layout), &want, false, 2.0);
                check_untouched(&y, &y_layout, T::from_f64(77.0));
            }
        }
    }
}

#[test]
fn groups() {
    group_cases::<f16, f16>();
    group_cases::<f16, f32>();
    group_cases::<bf16, bf16>();
    group_cases::<bf16, f32>();
    group_cases::<f32, f32>();
    group_cases::<f64, f64>();
}
