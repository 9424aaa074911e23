//! Row operations compared with f64, for every instruction set, with odd lengths and unaligned slices.

use crate::common::{LENGTHS, Random, assert_close, each_isa, wide};
use half::{bf16, f16};
use ops_simd::rows::{self, Columns, Moments, Pairs};
use ops_simd::{Element, Isa, Store};

const BASE: f64 = 1e-11;

fn softmax_f64(x: &[f64]) -> Vec<f64> {
    let m = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|x| (x - m).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

fn rms_norm_f64(x: &[f64], w: &[f64], eps: f64) -> Vec<f64> {
    let scale = 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + eps).sqrt();
    x.iter().zip(w).map(|(x, w)| x * scale * w).collect()
}

fn moments_f64(x: &[f64]) -> (f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    (mean, x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64)
}

fn by_row(x: &[f64], n: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    x.chunks(n).flat_map(f).collect()
}

/// Runs `f` with three rows that do not start at a vector boundary.
fn each_case<T: Element>(f: impl Fn(Isa, Store, usize, &[T], &mut [T])) {
    each_isa(|isa| {
        for n in LENGTHS {
            let buffer: Vec<T> = Random::new(n as u64).vec(3 * n + 1);
            for store in [Store::Cached, Store::Stream] {
                let mut y = vec![T::default(); 3 * n + 3];
                f(isa, store, n, &buffer[1..], &mut y[2..2 + 3 * n]);
                assert!(y[..2].iter().chain(&y[2 + 3 * n..]).all(|&y| y == T::default()), "wrote outside");
            }
        }
    });
}

fn softmaxes<T: Element>() {
    each_case::<T>(|isa, store, n, x, y| {
        let what = format!("{isa} {} {n} {store:?}", T::NAME);
        rows::softmax(isa, x, n, y, store).unwrap();
        assert_close(y, &by_row(&wide(x), n, softmax_f64), BASE, &what);
        rows::log_softmax(isa, x, n, y, store).unwrap();
        let want = by_row(&wide(x), n, |x| {
            let m = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log_sum = x.iter().map(|x| (x - m).exp()).sum::<f64>().ln();
            x.iter().map(|x| x - m - log_sum).collect()
        });
        assert_close(y, &want, BASE, &what);
    });
}

fn norms<T: Element>() {
    each_case::<T>(|isa, store, n, x, y| {
        let what = format!("{isa} {} {n} {store:?}", T::NAME);
        let mut random = Random::new(7);
        let (w, b): (Vec<T>, Vec<T>) = (random.vec(n), random.vec(n));
        let (w64, b64) = (wide(&w), wide(&b));
        rows::rms_norm(isa, x, &w, 1e-5, y, store).unwrap();
        assert_close(y, &by_row(&wide(x), n, |x| rms_norm_f64(x, &w64, 1e-5)), BASE, &what);

        let layer_norm = |bias: bool| {
            by_row(&wide(x), n, |x| {
                let (mean, variance) = moments_f64(x);
                let scale = 1.0 / (variance + 1e-5).sqrt();
                let add = |i: usize| if bias { b64[i] } else { 0.0 };
                x.iter().enumerate().map(|(i, x)| (x - mean) * scale * w64[i] + add(i)).collect()
            })
        };
        rows::layer_norm(isa, x, &w, Some(&b), 1e-5, y, store).unwrap();
        assert_close(y, &layer_norm(true), BASE, &what);
        rows::layer_norm(isa, x, &w, None, 1e-5, y, store).unwrap();
        assert_close(y, &layer_norm(false), BASE, &what);

        for channels in [1, 2, 3, n].into_iter().filter(|channels| n % channels == 0) {
            let by: [Vec<f32>; 2] = [random.vec(channels), random.vec(channels)];
            let (x, y) = (&x[..n], &mut y[..n]);
            rows::group_norm(isa, x, by.each_ref().map(Vec::as_slice), 1e-5, y, store).unwrap();
            let (x, [weight, bias]) = (wide(x), by.each_ref().map(|v| wide(v)));
            let (mean, variance) = moments_f64(&x);
            let of = |(i, x): (usize, &f64)| {
                let (c, scale) = (i * channels / n, 1.0 / (variance + 1e-5).sqrt());
                (x - mean) * scale * weight[c] + bias[c]
            };
            assert_close(
                y,
                &x.iter().enumerate().map(of).collect::<Vec<_>>(),
                BASE,
                &format!("{what} {channels}"),
            );
        }

        let residual: Vec<T> = random.vec(x.len());
        let mut sum = vec![T::default(); x.len()];
        rows::add_rms_norm(isa, x, &residual, &w, 1e-5, y, &mut sum).unwrap();
        for i in 0..x.len() {
            assert_eq!(sum[i], T::from_f32(x[i].to_f32() + residual[i].to_f32()), "{what} {i}");
        }
        assert_close(y, &by_row(&wide(&sum), n, |x| rms_norm_f64(x, &w64, 1e-5)), BASE, &what);
    });
}

fn reductions<T: Element>() {
    each_case::<T>(|isa, _, n, x, _| {
        let what = format!("{isa} {} {n}", T::NAME);
        let x64 = wide(x);
        let mut y = [0f32; 3];
        rows::sum(isa, x, n, &mut y).unwrap();
        let magnitude: f64 = x64.iter().map(|x| x.abs()).sum();
        for (y, x) in y.iter().zip(x64.chunks(n)) {
            assert!((f64::from(*y) - x.iter().sum::<f64>()).abs() <= 2e-7 * magnitude, "sum {what}");
        }
        rows::sum_of_squares(isa, x, n, &mut y).unwrap();
        let want: Vec<f64> = x64.chunks(n).map(|x| x.iter().map(|x| x * x).sum()).collect();
        assert_close(&y, &want, BASE, &what);
        rows::max(isa, x, n, &mut y).unwrap();
        for (y, x) in y.iter().zip(x.chunks(n)) {
            assert_eq!(*y, x.iter().map(|x| x.to_f32()).fold(f32::NEG_INFINITY, f32::max), "max {what}");
        }
        rows::min(isa, x, n, &mut y).unwrap();
        for (y, x) in y.iter().zip(x.chunks(n)) {
            assert_eq!(*y, x.iter().map(|x| x.to_f32()).fold(f32::INFINITY, f32::min), "min {what}");
            let first = x.iter().position(|x| x.to_f32() == *y);
            assert_eq!(Some(rows::arg(isa, true, x)), first, "arg {what}");
            let largest = x.iter().map(|x| x.to_f32()).fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(
                Some(rows::arg(isa, false, x)),
                x.iter().position(|x| x.to_f32() == largest),
                "arg {what}"
            );
            assert_eq!(rows::find(isa, x, *y), first, "find {what}");
            assert_eq!((rows::find(isa, x, 1e9), rows::find(isa, x, f32::NAN)), (None, None), "{what}");
        }
        let mut m = [Moments::default(); 3];
        rows::moments(isa, x, n, &mut m).unwrap();
        let want: Vec<f64> = x64.chunks(n).map(|x| moments_f64(x).1).collect();
        assert_close(&m.map(|m| m.variance), &want, BASE, &what);
        for (m, x) in m.iter().zip(x64.chunks(n)) {
            let mean = moments_f64(x).0;
            assert!((f64::from(m.mean) - mean).abs() <= 1e-6 * magnitude / x.len() as f64, "mean {what}");
        }
    });
}

/// Five or six rows that overlap, so that no row starts at a vector boundary.
fn columns<T: Element>() {
    each_isa(|isa| {
        for n in LENGTHS {
            let mut x: Vec<T> = Random::new(n as u64).vec(n + 20);
            x.iter_mut().for_each(|x| *x = T::from_f32((x.to_f32() * 2.0).round()));
            x[n / 2 + 6] = T::from_f32(f32::NAN);
            let starts = [3, 0, 9, 5, 1, 7];
            let of = |row: usize, j: usize| x[starts[row] + j].to_f32();
            for rows in [5, 6] {
                let what = format!("{isa} {} {n} {rows}", T::NAME);
                let nan = |j: usize| (0..rows).any(|r| of(r, j).is_nan());
                for (f, start, join) in [
                    (Columns::Sum, 2.0, (|a, b| a + b) as fn(f32, f32) -> f32),
                    (Columns::Max, -1.0, f32::max),
                    (Columns::Min, 1.0, f32::min),
                ] {
                    let mut acc = vec![start; n];
                    rows::fold_columns(isa, f, &x, &starts[..rows], &mut acc).unwrap();
                    for (j, acc) in acc.iter().enumerate() {
                        let want = (0..rows).fold(start, |acc, r| join(acc, of(r, j)));
                        assert!(if nan(j) { acc.is_nan() } else { *acc == want }, "{f:?} {what} {j}");
                    }
                }
                for smallest in [false, true] {
                    let (mut best, mut index) = ((0..n).map(|j| of(0, j)).collect::<Vec<_>>(), vec![10; n]);
                    rows::arg_columns(isa, smallest, &x, (&starts[1..rows], 11), &mut best, &mut index)
                        .unwrap();
                    for j in 0..n {
                        let wins = |a: f32, b: f32| {
                            !b.is_nan() && (a.is_nan() || if smallest { a < b } else { a > b })
                        };
                        let want = (1..rows).fold(0, |at, r| if wins(of(r, j), of(at, j)) { r } else { at });
                        assert_eq!(index[j], 10 + want as u32, "{smallest} {what} {j}");
                        assert!(
                            best[j] == of(want, j) || best[j].is_nan() == of(want, j).is_nan(),
                            "{what} {j}"
                        );
                    }
                }
            }
            assert!(rows::fold_columns(isa, Columns::Sum, &x, &[21], &mut vec![0.0; n]).is_err());
        }
    });
}

fn ropes<T: Element>() {
    each_isa(|isa| {
        for half in [1, 2, 3, 4, 7, 8, 15, 16, 17, 32, 33, 64] {
            for repeat in [1, 3] {
                let d = 2 * half;
                let mut random = Random::new(half as u64);
                let x: Vec<T> = random.vec(6 * d + 1);
                let x = &x[1..];
                let angles: Vec<f32> = (0..6 / repeat * half).map(|_| random.next() * 3.0).collect();
                let cos: Vec<T> = angles.iter().map(|a| T::from_f32(a.cos())).collect();
                let sin: Vec<T> = angles.iter().map(|a| T::from_f32(a.sin())).collect();
                for pairs in [Pairs::Halves, Pairs::Adjacent] {
                    let mut want = vec![0f64; x.len()];
                    for r in 0..6 {
                        for i in 0..half {
                            let (p, q) = match pairs {
                                Pairs::Halves => (i, i + half),
                                Pairs::Adjacent => (2 * i, 2 * i + 1),
                            };
                            let get = |j: usize| f64::from(x[r * d + j].to_f32());
                            let c = f64::from(cos[r / repeat * half + i].to_f32());
                            let s = f64::from(sin[r / repeat * half + i].to_f32());
                            want[r * d + p] = get(p) * c - get(q) * s;
                            want[r * d + q] = get(q) * c + get(p) * s;
                        }
                    }
                    let what = format!("{isa} {} {pairs:?} {half} {repeat}", T::NAME);
                    let mut y = vec![T::default(); x.len()];
                    rows::rope(isa, pairs, x, d, &cos, &sin, repeat, &mut y).unwrap();
                    assert_close(&y, &want, BASE, &what);
                    let mut z = x.to_vec();
                    rows::rope_in_place(isa, pairs, &mut z, d, &cos, &sin, repeat).unwrap();
                    assert_eq!(y, z, "{what}");
                }
            }
        }
    });
}

#[test]
fn softmax_of_each_type() {
    softmaxes::<f32>();
    softmaxes::<f16>();
    softmaxes::<bf16>();
}

#[test]
fn norms_of_each_type() {
    norms::<f32>();
    norms::<f16>();
    norms::<bf16>();
}

#[test]
fn reductions_of_each_type() {
    reductions::<f32>();
    reductions::<f16>();
    reductions::<bf16>();
}

#[test]
fn columns_of_each_type() {
    columns::<f32>();
    columns::<f16>();
    columns::<bf16>();
}

#[test]
fn rope_of_each_type() {
    ropes::<f32>();
    ropes::<f16>();
    ropes::<bf16>();
}

#[test]
fn mixed_types_agree_with_one_type() {
    each_isa(|isa| {
        let x: Vec<f16> = Random::new(1).vec(3 * 77);
        let wide: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
        let weight: Vec<f32> = Random::new(2).vec(77);
        let (mut a, mut b) = (vec![0f32; x.len()], vec![0f32; x.len()]);
        rows::rms_norm(isa, &x, &weight, 1e-6, &mut a, Store::Cached).unwrap();
        rows::rms_norm(isa, &wide, &weight, 1e-6, &mut b, Store::Cached).unwrap();
        assert_eq!(a, b, "{isa}");
    });
}

#[test]
fn a_large_mean_costs_no_precision() {
    each_isa(|isa| {
        let n = 4096;
        let mut random = Random::new(3);
        // Sums of uniform numbers: nearly normal, with deviation 1.
        let x: Vec<f32> = (0..n).map(|_| 1000.0 + (0..3).map(|_| random.next()).sum::<f32>()).collect();
        let (mean, variance) = moments_f64(&wide(&x));
        let mut y = vec![0f32; n];
        rows::layer_norm(isa, &x, &vec![1f32; n], None, 1e-5, &mut y, Store::Cached).unwrap();
        let want: Vec<f64> = wide(&x).iter().map(|x| (x - mean) / (variance + 1e-5).sqrt()).collect();
        assert_close(&y, &want, BASE, "mean 1000");
        let mut m = [Moments::default()];
        rows::moments(isa, &x, n, &mut m).unwrap();
        assert_close(&[m[0].variance], &[variance], BASE, "variance");
    });
}

#[test]
fn moments_do_not_depend_on_the_first_element() {
    each_isa(|isa| {
        let n = 4096;
        // The mean, in deviations, and an extra offset for the first element: together they cover all code paths for a row.
        for (mean, first) in [(0.0, 0.0), (3.0, 0.0), (6.0, 0.0), (0.0, 50.0), (3.0, -50.0)] {
            let mut random = Random::new(3);
            let mut x: Vec<f32> = (0..n).map(|_| mean + (0..3).map(|_| random.next()).sum::<f32>()).collect();
            x[0] += first;
            let (mean64, variance) = moments_f64(&wide(&x));
            let mut y = vec![0f32; n];
            rows::layer_norm(isa, &x, &vec![1f32; n], None, 1e-5, &mut y, Store::Cached).unwrap();
            let want: Vec<f64> = wide(&x).iter().map(|x| (x - mean64) / (variance + 1e-5).sqrt()).collect();
            assert_close(&y, &want, BASE, &format!("{isa} mean {mean} first {first}"));
            let mut m = [Moments::default()];
            rows::moments(isa, &x, n, &mut m).unwrap();
            assert_close(&[m[0].variance], &[variance], BASE, &format!("{isa} variance {mean} {first}"));
        }
    });
}

#[test]
fn a_softmax_in_pieces_is_the_softmax_of_the_whole() {
    each_isa(|isa| {
        for (n, piece) in [(1, 1), (5, 2), (40, 16), (129, 64), (300, 7)] {
            let x: Vec<f32> = Random::new(n as u64).vec::<f32>(n).iter().map(|v| v * 30.0).collect();
            let want = softmax_f64(&wide(&x));
            let (mut running, mut weights) = ([rows::Running::START], Vec::new());
            for x in x.chunks(piece) {
                let (n, mut x, mut factor) = (x.len(), x.to_vec(), [f32::NAN]);
                rows::online_softmax(isa, &mut x, n, &mut running, &mut factor).unwrap();
                weights.iter_mut().for_each(|w| *w *= factor[0]);
                weights.append(&mut x);
            }
            for (w, want) in weights.iter().zip(want) {
                let got = f64::from(w / running[0].total);
                assert!((got - want).abs() <= 1e-6 * want + 1e-30, "{isa} {n} {piece}: {got:e} {want:e}");
            }
        }
    });
}

#[test]
fn pieces_of_nothing_and_of_what_is_no_number() {
    each_isa(|isa| {
        let (mut running, mut factors) = ([rows::Running::START; 3], [0.0; 3]);
        let mut x = vec![f32::NEG_INFINITY; 9];
        (x[4], x[7], x[8]) = (f32::NAN, 1.0, 2.0);
        rows::online_softmax(isa, &mut x, 3, &mut running, &mut factors).unwrap();
        assert_eq!((running[0], &x[..3], factors[0]), (rows::Running::START, &[0.0; 3][..], 1.0));
        assert!(running[1].total.is_nan(), "{isa}");
        assert_eq!((running[2].largest, x[6], x[8]), (2.0, 0.0, 1.0));
        assert!(rows::online_softmax(isa, &mut x, 4, &mut running, &mut factors).is_err());
    });
}

#[test]
fn special_values() {
    const INF: f32 = f32::INFINITY;
    each_isa(|isa| {
        for n in [1, 5, 16, 40] {
            for at in [0, n / 2, n - 1] {
                for (special, all_nan) in [(f32::NAN, true), (INF, true), (-INF, n == 1)] {
                    let mut x = vec![0.5f32; n];
                    x[at] = special;
                    let mut y = vec![0f32; n];
                    rows::softmax(isa, &x, n, &mut y, Store::Cached).unwrap();
                    assert!(y.iter().all(|y| y.is_nan() == all_nan), "{isa} {n} {at} {special} {y:?}");
                    if !all_nan {
                        assert_eq!(y[at], 0.0);
                    }
                    let mut m = [0f32];
                    rows::max(isa, &x, n, &mut m).unwrap();
                    if special.is_nan() {
                        assert!(m[0].is_nan(), "{isa} {n} {at}");
                        rows::min(isa, &x, n, &mut m).unwrap();
                        assert!(m[0].is_nan(), "{isa} {n} {at}");
                        assert_eq!(rows::find(isa, &x, special), Some(at), "{isa} {n}");
                        assert_eq!(rows::arg(isa, true, &x), at, "{isa} {n}");
                    } else {
                        let none_above =
                            (0..n).find(|i| x[*i] == x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
                        assert_eq!(Some(rows::arg(isa, false, &x)), none_above, "{isa} {n} {at} {special}");
                    }
                }
            }
            let mut y = vec![0f32; n];
            rows::softmax(isa, &vec![-INF; n], n, &mut y, Store::Cached).unwrap();
            assert!(y.iter().all(|y| y.is_nan()), "a row of -inf");
        }
    });
}

#[test]
fn empty_rows() {
    let isa = Isa::best();
    let none: [f32; 0] = [];
    let mut y = [1f32; 2];
    rows::sum(isa, &none, 0, &mut y).unwrap();
    assert_eq!(y, [0.0; 2]);
    let mut m = [Moments::default()];
    rows::moments(isa, &none, 0, &mut m).unwrap();
    assert!(m[0].mean.is_nan());
    rows::softmax(isa, &none, 0, &mut [0f32; 0], Store::Cached).unwrap();
    rows::rms_norm(isa, &none, &none, 1e-5, &mut [0f32; 0], Store::Cached).unwrap();
}

#[test]
fn wrong_lengths_are_errors() {
    let isa = Isa::best();
    let error = rows::softmax(isa, &[0f32; 7], 3, &mut [0f32; 7], Store::Cached).unwrap_err();
    assert_eq!(error.to_string(), "x has 7 elements, wanted a multiple of 3");
    assert!(rows::softmax(isa, &[0f32; 6], 0, &mut [0f32; 6], Store::Cached).is_err());
    assert!(rows::sum(isa, &[0f32; 7], usize::MAX, &mut [0f32; 2]).is_err());
    let rope = rows::rope(isa, Pairs::Halves, &[0f32; 6], 3, &[0f32; 3], &[0f32; 3], 1, &mut [0f32; 6]);
    assert_eq!(rope.unwrap_err().to_string(), "d has 3 elements, wanted a multiple of 2");
}
