//! Attention: tiles and decode parts against a plain loop, with every parameter of the contract.
use crate::data::{Buffer, Element, Layout, Random, assert_close, check_untouched, pick, view};
use crate::host::{WAVES, run_plan};
use crate::matrix::device as matrix_device;
use half::{bf16, f16};
use ops_kernels::attention::{self, ARRIVALS, Attention};
use ops_kernels::{Device, Matrix, Plan, Tuning};

#[derive(Clone, Copy)]
enum Mask {
    None,
    Added,
    Visible,
}

#[derive(Clone)]
struct Case {
    /// b, h, h_kv, t, s, d
    size: [u64; 6],
    causal: bool,
    window: [Option<u64>; 2],
    softcap: Option<f64>,
    alibi: bool,
    /// Width of the values, if it is not d.
    dv: Option<u64>,
    sinks: bool,
    lse: bool,
    mask: Mask,
    strided: bool,
    compute_units: u32,
    variant: &'static str,
    parts: bool,
}

impl Case {
    fn new(size: [u64; 6], variant: &'static str) -> Case {
        let (window, mask) = ([None, None], Mask::None);
        let (causal, alibi, strided, parts) = (false, false, false, false);
        Case {
            size,
            causal,
            window,
            softcap: None,
            alibi,
            dv: None,
            sinks: false,
            lse: false,
            mask,
            strided,
            compute_units: 1,
            variant,
            parts,
        }
    }
}

struct Inputs<T> {
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
    added: Vec<T>,
    visible: Vec<u8>,
    slopes: Vec<T>,
    sinks: Vec<T>,
}

fn random<T: Element>(n: usize, seed: u64) -> Vec<T> {
    let mut random = Random::new(seed);
    (0..n).map(|_| T::from_f64(random.normal())).collect()
}

/// The contract, one query at a time: outputs, and logarithms of denominators.
fn reference<T: Element>(case: &Case, x: &Inputs<T>, scale: f64) -> (Vec<f64>, Vec<f64>) {
    let [b, h, h_kv, t, s, d] = case.size.map(|n| n as usize);
    let dv = case.dv.map_or(d, |dv| dv as usize);
    let (mut out, mut lse) = (Vec::new(), Vec::new());
    for row in 0..b * h * t {
        let (batch, head, i) = (row / t / h, row / t % h, row % t);
        let kv = batch * h_kv + head / (h / h_kv.max(1));
        let pos = s as i64 - t as i64 + i as i64;
        let mut scores = Vec::new();
        for j in 0..s {
            let dot: f64 =
                (0..d).map(|e| x.q[row * d + e].to_f64() * x.k[(kv * s + j) * d + e].to_f64()).sum();
            let mut score = dot * scale;
            if let Some(c) = case.softcap {
                score = c * (score / c).tanh();
            }
            let distance = j as i64 - pos;
            if case.alibi {
                score += x.slopes[head].to_f64() * distance as f64;
            }
            let mut visible = !case.causal || distance <= 0;
            visible &= case.window[0].is_none_or(|left| -distance <= left as i64);
            visible &= case.window[1].is_none_or(|right| distance <= right as i64);
            match case.mask {
                Mask::None => {}
                Mask::Added => score += x.added[row * s + j].to_f64(),
                Mask::Visible => visible &= x.visible[row * s + j] != 0,
            }
            if visible {
                scores.push((j, score));
            }
        }
        let sink = if case.sinks { x.sinks[head].to_f64() } else { f64::NEG_INFINITY };
        let most = scores.iter().map(|s| s.1).fold(sink, f64::max);
        let base = if most == f64::NEG_INFINITY { 0.0 } else { most };
        let sum: f64 = scores.iter().map(|s| (s.1 - base).exp()).sum::<f64>() + (sink - base).exp();
        lse.push(base + sum.ln());
        for e in 0..dv {
            let weighed: f64 = scores
                .iter()
                .map(|&(j, s)| (s - base).exp() * x.v[(kv * s_len(case) + j) * dv + e].to_f64())
                .sum();
            out.push(if sum == 0.0 { 0.0 } else { weighed / sum });
        }
    }
    (out, lse)
}

fn s_len(case: &Case) -> usize {
    case.size[4] as usize
}

/// Values in the order of the dimensions, laid out with the layout's strides.
fn spread<T: Element>(values: &[T], layout: &Layout, offset: usize) -> Buffer<T> {
    let mut out = vec![T::from_f64(f64::NAN); layout.len];
    layout.offsets().iter().zip(values).for_each(|(&o, &v)| out[o] = v);
    Buffer::new(&out, offset)
}

fn check<T: Element>(case: &Case) {
    let [b, h, h_kv, t, s, d] = case.size;
    let n = |dims: [u64; 4]| dims.iter().product::<u64>() as usize;
    let dv = case.dv.unwrap_or(d);
    let (q_dims, k_dims, mask_dims) = ([b, h, t, d], [b, h_kv, s, d], [b, h, t, s]);
    let (v_dims, o_dims) = ([b, h_kv, s, dv], [b, h, t, dv]);
    let mut coin = Random::new(77);
    let mut x = Inputs::<T> {
        q: random(n(q_dims), 1),
        k: random(n(k_dims), 2),
        v: random(n(v_dims), 3),
        added: random(n(mask_dims), 4),
        visible: (0..n(mask_dims)).map(|_| (coin.below(3) / 2) as u8).collect(),
        slopes: random(h as usize, 5),
        sinks: random(h as usize, 6),
    };
    // A row that sees nothing, and -inf here and there.
    for j in 0..s as usize {
        x.added[j] = T::from_f64(f64::NEG_INFINITY);
        x.visible[j] = 0;
    }
    (0..x.added.len()).step_by(7).for_each(|i| x.added[i] = T::from_f64(f64::NEG_INFINITY));
    // A cache keeps heads apart by more than s rows, and may lie [b, s, h, d].
    let cache = |dims: [u64; 4]| {
        if !case.strided {
            return Layout::contiguous(&dims);
        }
        let [_, heads, len, d] = dims.map(|n| n as i64);
        Layout::new(&dims, vec![(len + 5) * heads * d, d, heads * d, 1])
    };
    let (q_layout, k_layout) = (cache(q_dims), cache(k_dims));
    let v_layout = if case.strided { Layout::scattered(&v_dims) } else { cache(v_dims) };
    let o_layout = if case.strided { Layout::padded(&o_dims, 3) } else { Layout::contiguous(&o_dims) };
    let lse_dims = [b, h, t];
    let lse_layout = if case.strided { Layout::padded(&lse_dims, 3) } else { Layout::contiguous(&lse_dims) };
    let mask_layout = Layout::contiguous(&mask_dims);
    let slope_layout = Layout::contiguous(&[h]);
    let q = spread(&x.q, &q_layout, 0);
    let (k, v) = (spread(&x.k, &k_layout, 0), spread(&x.v, &v_layout, 0));
    let (added, visible) = (Buffer::new(&x.added, 0), Buffer::new(&x.visible, 0));
    let (slopes, sinks) = (Buffer::new(&x.slopes, 0), Buffer::new(&x.sinks, 0));
    let scale = 1.0 / (d as f64).sqrt();
    let (want, want_lse) = reference(case, &x, scale);
    let mut devices = WAVES
        .map(|wave| Device {
            compute_units: case.compute_units,
            wave,
            matrix: None,
            dot4: None,
            tuning: Tuning::default(),
        })
        .to_vec();
    if case.variant.starts_with("mma") {
        devices = Matrix::ALL.map(|matrix| matrix_device(matrix, case.compute_units)).to_vec();
    }
    for device in devices {
        let untouched = T::from_f64(77.0);
        let (o, lse) =
            (Buffer::filled(untouched, o_layout.len, 0), Buffer::filled(77.0f32, lse_layout.len, 0));
        let call = Attention {
            batch: b,
            heads: h,
            kv_heads: h_kv,
            t,
            s,
            d,
            dv,
            q: view(&q, &q_layout),
            k: view(&k, &k_layout),
            v: view(&v, &v_layout),
            o: view(&o, &o_layout),
            mask: match case.mask {
                Mask::None => None,
                Mask::Added => Some(view(&added, &mask_layout)),
                Mask::Visible => Some(view(&visible, &mask_layout)),
            },
            slopes: case.alibi.then(|| view(&slopes, &slope_layout)),
            sinks: case.sinks.then(|| view(&sinks, &slope_layout)),
            lse: case.lse.then(|| view(&lse, &lse_layout)),
            scale,
            causal: case.causal,
            window: case.window,
            softcap: case.softcap,
        };
        let mut plan = Plan::default();
        attention::prepare(&call, &device, &mut plan).expect("a kernel");
        assert_eq!(plan.main().expect("a launch").instance.variant, of_short(case), "{:?}", case.size);
        assert_eq!(plan.workspace > 0, case.parts, "{:?}", case.size);
        let partial = Buffer::filled(f64::NAN, plan.workspace.div_ceil(8) as usize, 0);
        let arrivals = Buffer::filled(0u32, ARRIVALS as usize, 0);
        run_plan(&device, &mut plan, [partial.address(), arrivals.address()]);
        partial.check_guards();
        arrivals.check_guards();
        assert!(arrivals.slice().iter().all(|n| *n == 0), "{:?}", case.size);
        let what = format!("attention {} {:?} {device:?}", case.variant, case.size);
        assert_close(&what, &pick(&o, &o_layout), &want, true, 4.0);
        check_untouched(&o, &o_layout, untouched);
        if case.lse {
            assert_close(&format!("lse of {what}"), &pick(&lse, &lse_layout), &want_lse, true, 4.0);
            check_untouched(&lse, &lse_layout, 77.0f32);
        }
    }
}

fn every_parameter<T: Element>(base: Case) {
    check::<T>(&base);
    check::<T>(&Case { causal: true, ..base.clone() });
    check::<T>(&Case { causal: true, window: [Some(9), None], strided: true, ..base.clone() });
    check::<T>(&Case { window: [Some(3), Some(2)], mask: Mask::Visible, ..base.clone() });
    check::<T>(&Case { softcap: Some(1.5), alibi: true, mask: Mask::Added, causal: true, ..base.clone() });
    check::<T>(&Case { mask: Mask::Added, strided: true, ..base.clone() });
    let narrow = Case { dv: Some(base.size[5] / 2 + 1), ..base.clone() };
    check::<T>(&Case { causal: true, lse: true, ..narrow.clone() });
    check::<T>(&Case { sinks: true, mask: Mask::Visible, lse: true, strided: true, ..narrow });
    check::<T>(&Case { sinks: true, softcap: Some(1.5), causal: true, ..base });
}

/// The kernel of a case: with one query and few keys, each row has a block of its own.
fn of_short(case: &Case) -> &'static str {
    let [batch, _, _, t, s, _] = case.size;
    match case.variant {
        "decode64_rows4" if t == 1 && batch * s <= 3072 => "decode64_rows1",
        "decode128_rows4" if t == 1 && batch * s <= 3072 => "decode128_rows1",
        "decode256_rows4" if t == 1 && batch * s <= 3072 => "decode256_rows1",
        variant => variant,
    }
}

/// The kernel for few queries of heads of a width, for one row of a key head and for several.
fn one(widest: u64) -> &'static str {
    match widest {
        0..=64 => "decode64_rows1",
        65..=128 => "decode128_rows1",
        _ => "decode256_rows1",
    }
}
fn several(widest: u64) -> &'static str {
    match widest {
        0..=64 => "decode64_rows4",
        65..=128 => "decode128_rows4",
        _ => "decode256_rows4",
    }
}

fn sizes<T: Element>() {
    let few =
        |widest: u64| if T::DTYPE == ops_kernels::ElementType::F64 { one(widest) } else { several(widest) };
    every_parameter::<T>(Case::new([2, 4, 2, 20, 37, 24], "head64"));
    check::<T>(&Case { causal: true, ..Case::new([1, 2, 1, 70, 140, 64], "head64") });
    check::<T>(&Case { causal: true, strided: true, ..Case::new([1, 3, 1, 25, 25, 100], "head128") });
    check::<T>(&Case { causal: true, ..Case::new([1, 1, 1, 40, 40, 256], "head256") });
    check::<T>(&Case { causal: true, ..Case::new([1, 1, 1, 30, 9, 16], "head64") });
    every_parameter::<T>(Case::new([2, 6, 2, 1, 75, 64], few(64)));
    every_parameter::<T>(Case::new([1, 2, 2, 1, 33, 5], one(5)));
    check::<T>(&Case { causal: true, ..Case::new([1, 7, 1, 2, 50, 128], few(128)) });
    check::<T>(&Case { parts: true, compute_units: 8, ..Case::new([1, 4, 2, 1, 700, 256], few(256)) });
    // More parts than a group of lanes weighs at a time.
    check::<T>(&Case {
        parts: true,
        compute_units: 64,
        lse: true,
        ..Case::new([1, 4, 1, 1, 37 * 128 + 9, 16], few(16))
    });
    check::<T>(&Case {
        parts: true,
        compute_units: 8,
        causal: true,
        strided: true,
        ..Case::new([2, 1, 1, 3, 600, 40], few(40))
    });
    check::<T>(&Case {
        parts: true,
        compute_units: 8,
        mask: Mask::Visible,
        ..Case::new([1, 1, 1, 2, 300, 8], few(8))
    });
    check::<T>(&Case::new([1, 2, 1, 1, 0, 16], few(16)));
    // Many steps of the keys, and a last one that is not whole; rows of several key heads; every width of a lane group.
    for d in [64, 96, 128, 192, 256] {
        check::<T>(&Case::new([2, 8, 2, 1, 275, d], few(d)));
        check::<T>(&Case { causal: true, dv: Some(d - 8), ..Case::new([1, 6, 2, 2, 150, d], few(d)) });
        check::<T>(&Case { window: [Some(70), None], ..Case::new([2, 2, 2, 1, 275, d], one(d)) });
    }
    // With parts, one of them counts the sink.
    let parts = Case {
        parts: true,
        compute_units: 8,
        lse: true,
        dv: Some(96),
        ..Case::new([1, 4, 2, 1, 700, 40], few(96))
    };
    check::<T>(&parts);
    check::<T>(&Case { sinks: true, ..parts });
    check::<T>(&Case { sinks: true, lse: true, ..Case::new([1, 2, 1, 1, 0, 16], few(16)) });
    // Wide heads, with values wider than a tile, and values wider than the keys.
    let wide = Case { dv: Some(512), lse: true, ..Case::new([1, 2, 1, 3, 40, 576], "head256") };
    check::<T>(&wide);
    check::<T>(&Case { sinks: true, causal: true, strided: true, ..wide });
    check::<T>(&Case { dv: Some(128), lse: true, ..Case::new([1, 2, 1, 10, 30, 192], "head128") });
    check::<T>(&Case { dv: Some(300), ..Case::new([1, 1, 1, 2, 20, 24], "head256") });
}

#[test]
fn f16_heads() {
    sizes::<f16>();
}
#[test]
fn bf16_heads() {
    sizes::<bf16>();
}
#[test]
fn f32_heads() {
    sizes::<f32>();
}
#[test]
fn f64_heads() {
    sizes::<f64>();
}

fn matrix_units<T: Element>() {
    every_parameter::<T>(Case::new([2, 4, 2, 20, 37, 24], "mma64"));
    check::<T>(&Case { causal: true, ..Case::new([1, 2, 1, 70, 140, 64], "mma64") });
    check::<T>(&Case { causal: true, strided: true, ..Case::new([1, 3, 1, 25, 25, 100], "mma128") });
    check::<T>(&Case { causal: true, ..Case::new([1, 1, 1, 150, 150, 128], "mma128") });
    check::<T>(&Case { causal: true, ..Case::new([1, 1, 1, 30, 9, 16], "mma64") });
    every_parameter::<T>(Case::new([1, 2, 1, 20, 37, 160], "mma256"));
    check::<T>(&Case { causal: true, strided: true, ..Case::new([1, 1, 1, 70, 90, 192], "mma256") });
    check::<T>(&Case { causal: true, ..Case::new([2, 1, 1, 80, 80, 256], "mma256") });
    check::<T>(&Case { causal: true, strided: true, ..Case::new([1, 1, 1, 17, 40, 250], "mma256") });
    check::<T>(&Case {
        causal: true,
        window: [Some(20), None],
        ..Case::new([1, 2, 2, 140, 200, 40], "mma64")
    });
    check::<T>(&Case {
        dv: Some(128),
        lse: true,
        sinks: true,
        ..Case::new([1, 2, 1, 20, 45, 192], "mma256")
    });
    check::<T>(&Case { dv: Some(72), lse: true, causal: true, ..Case::new([1, 1, 1, 40, 40, 24], "mma128") });
}

#[test]
fn f16_heads_on_matrix_units() {
    matrix_units::<f16>();
}
#[test]
fn bf16_heads_on_matrix_units() {
    matrix_units::<bf16>();
}

/// Each query sees the keys up to its own place.
fn causal<T: Element>(device: &Device, variant: &str, [t, s, d]: [u64; 3], x: [&[T]; 3]) -> Vec<f64> {
    let layout = |n| Layout::contiguous(&[1, 1, n, d]);
    let [q, k, v] = x.map(|values| Buffer::new(values, 0));
    let o = Buffer::filled(T::from_f64(0.0), (t * d) as usize, 0);
    let (rows, keys) = (layout(t), layout(s));
    let call = Attention {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        t,
        s,
        d,
        dv: d,
        q: view(&q, &rows),
        k: view(&k, &keys),
        v: view(&v, &keys),
        o: view(&o, &rows),
        mask: None,
        slopes: None,
        sinks: None,
        lse: None,
        scale: 0.2,
        causal: false,
        window: [None, Some(0)],
        softcap: None,
    };
    let mut plan = Plan::default();
    attention::prepare(&call, device, &mut plan).expect("a kernel");
    assert_eq!(plan.main().expect("a launch").instance.variant, variant);
    run_plan(device, &mut plan, [0; 2]);
    o.slice().iter().map(|x| x.to_f64()).collect()
}

/// Keys that a query cannot see may hold anything: NaN and infinities among them change nothing.
fn invisible<T: Element>(device: &Device, variant: &str, [t, d]: [u64; 2]) {
    let s = 40u64;
    let q = random::<T>((t * d) as usize, 1);
    let (mut k, mut v) = (random::<T>((s * d) as usize, 2), random::<T>((s * d) as usize, 3));
    let run = |k: &[T], v: &[T]| causal(device, variant, [t, s, d], [&q, k, v]);
    let want = run(&k, &v);
    let row = |n: u64| (n * d) as usize..((n + 1) * d) as usize;
    let same = |got: &[f64], until: u64| {
        let end = (until * d) as usize;
        assert_eq!(got[..end], want[..end], "{variant} {device:?}");
    };
    // The last key is seen by the last query only, the one before it by the last two.
    row(s - 1).for_each(|i| v[i] = T::from_f64(f64::INFINITY));
    let got = run(&k, &v);
    same(&got, t - 1);
    assert!(got[row(t - 1)].iter().all(|x| *x == f64::INFINITY), "{variant} {device:?}");
    row(s - 2).for_each(|i| v[i] = T::from_f64(f64::NEG_INFINITY));
    let got = run(&k, &v);
    same(&got, t - 2);
    assert!(got[row(t - 2)].iter().all(|x| *x == f64::NEG_INFINITY), "{variant} {device:?}");
    assert!(got[row(t - 1)].iter().all(|x| x.is_nan()), "{variant} {device:?}");
    row(s - 1).for_each(|i| k[i] = T::from_f64(f64::NAN));
    let got = run(&k, &v);
    same(&got, t - 2);
    assert!(got[row(t - 2)].iter().all(|x| *x == f64::NEG_INFINITY), "{variant} {device:?}");
    assert!(got[row(t - 1)].iter().all(|x| x.is_nan()), "{variant} {device:?}");
}

#[test]
fn invisible_keys_take_no_part() {
    let portable = Device { compute_units: 1, wave: 32, matrix: None, dot4: None, tuning: Tuning::default() };
    invisible::<f32>(&portable, "head64", [40, 32]);
    invisible::<f32>(&portable, "head256", [40, 160]);
    for d in [32, 128, 160] {
        invisible::<f16>(&portable, several(d), [4, d]);
        invisible::<f32>(&portable, several(d), [2, d]);
    }
    for matrix in Matrix::ALL {
        for (variant, d) in [("mma64", 32), ("mma256", 160)] {
            invisible::<f16>(&matrix_device(matrix, 1), variant, [40, d]);
            invisible::<bf16>(&matrix_device(matrix, 1), variant, [40, d]);
        }
    }
}
