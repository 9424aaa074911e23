//! Unary and binary ops.
use crate::data::{Buffer, Element, Layout, Random, assert_close, assert_exact, check_untouched, pick, view};
use crate::host::{WAVES, device, run};
use half::{bf16, f16};
use ops_kernels::{binary, unary};

/// Sizes round the pack and block sizes, and shapes with every kind of stride.
fn layouts() -> Vec<[Layout; 3]> {
    let mut out = Vec::new();
    for n in [1, 3, 8, 31, 1025, 9001] {
        out.push([(); 3].map(|()| Layout::contiguous(&[n])));
    }
    let dims = [5, 3, 40];
    out.push([Layout::padded(&dims, 8), Layout::contiguous(&dims), Layout::padded(&dims, 16)]);
    out.push([Layout::padded(&dims, 1), Layout::scattered(&dims), Layout::padded(&dims, 3)]);
    out.push([Layout::scattered(&dims), Layout::contiguous(&dims), Layout::scattered(&dims)]);
    let row = Layout::new(&dims, vec![0, 0, 1]);
    let column = Layout::new(&dims, vec![3, 1, 0]);
    out.push([row.clone(), column.clone(), Layout::contiguous(&dims)]);
    out.push([column, row, Layout::padded(&dims, 8)]);
    let six = [2, 3, 2, 3, 2, 5];
    out.push([Layout::scattered(&six), Layout::contiguous(&six), Layout::scattered(&six)]);
    out.push([(); 3].map(|()| Layout::contiguous(&[])));
    out.push([(); 3].map(|()| Layout::contiguous(&[3, 0, 2])));
    out
}

/// Runs `y = f(x)` over the layouts and hands the elements in and out to `check`.
fn unary_cases<T: Element>(
    op: &str,
    mut value: impl FnMut(&mut Random) -> T,
    check: impl Fn(&str, &[T], &[T]),
) {
    let mut random = Random::new(7);
    for (case, [x_layout, _, y_layout]) in layouts().iter().enumerate() {
        for wave in WAVES {
            let offset = case % 3;
            let x: Vec<T> = (0..x_layout.len).map(|_| value(&mut random)).collect();
            let x = Buffer::new(&x, offset);
            let untouched = T::from_f64(77.0);
            let y = Buffer::filled(untouched, y_layout.len, 2 * offset);
            let views = (view(&x, x_layout), view(&y, y_layout));
            let (launch, args) =
                unary::prepare(op, &x_layout.dims, views.0, views.1, &device(wave)).expect("a kernel");
            run(wave, &launch, &args);
            let what = format!("{op} {:?}", x_layout.dims);
            check(&what, &pick(&x, x_layout), &pick(&y, y_layout));
            check_untouched(&y, y_layout, untouched);
        }
    }
}

/// A value from the ones that go wrong, or a random one.
fn tricky(random: &mut Random, scale: f64) -> f64 {
    let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, -0.5, 1.5, -2.5, 1e-7, -1e-4];
    match random.below(40) {
        i if i < special.len() as u64 => special[i as usize],
        _ => random.normal() * scale,
    }
}

fn erf(x: f64) -> f64 {
    // The series for small x, the continued fraction beyond: both to full f64 precision.
    if x.abs() < 2.5 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > sum.abs() * 1e-18 {
            n += 1.0;
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    x.signum() * (1.0 - erfc_tail(x.abs()))
}

fn erfc_tail(x: f64) -> f64 {
    let fraction = (1..200).rev().fold(0.0, |f, k| 0.5 * f64::from(k) / (x + f));
    (-x * x).exp() / (x + fraction) / std::f64::consts::PI.sqrt()
}

fn normal_cdf(x: f64) -> f64 {
    let z = x / std::f64::consts::SQRT_2;
    if z < -2.5 { 0.5 * erfc_tail(-z) } else { 0.5 + 0.5 * erf(z) }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn gelu(x: f64) -> f64 {
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    x * sigmoid(2.0 * u)
}

type Unary = fn(f64) -> f64;
type Binary<R> = fn(f64, f64) -> R;

/// f64 results that the f64 kernels are held to need care near cancellation; f32 ones do not.
fn close_ops() -> Vec<(&'static str, Unary)> {
    vec![
        ("sigmoid", sigmoid),
        ("silu", |x| x * sigmoid(x)),
        ("gelu", gelu),
        ("gelu_erf", |x| x * normal_cdf(x)),
        ("tanh", f64::tanh),
        ("erf", |x| if x.is_nan() { x } else { erf(x) }),
        ("exp", f64::exp),
        ("log", f64::ln),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("sqrt", f64::sqrt),
        ("recip", f64::recip),
        ("neg", |x| -x),
        ("sqr", |x| x * x),
    ]
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}

fn floats<T: Element>() {
    for (op, f) in close_ops() {
        for scale in [1.0, 20.0] {
            unary_cases::<T>(
                op,
                |r| T::from_f64(tricky(r, scale)),
                |what, x, y| {
                    let want: Vec<f64> = x.iter().map(|v| f(v.to_f64())).collect();
                    assert_close(what, y, &want, false, 2.0);
                },
            );
        }
    }
    let exact: [(&str, Unary); 6] = [
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("round", f64::round),
        ("abs", f64::abs),
        ("relu", |x| if x < 0.0 { 0.0 } else { x }),
        ("sign", sign),
    ];
    for (op, f) in exact {
        unary_cases::<T>(
            op,
            |r| T::from_f64(tricky(r, 5.0)),
            |what, x, y| {
                let want: Vec<T> = x.iter().map(|v| T::from_f64(f(v.to_f64()))).collect();
                assert_exact(what, y, &want);
            },
        );
    }
}

#[test]
fn unary_f16() {
    floats::<f16>();
}
#[test]
fn unary_bf16() {
    floats::<bf16>();
}
#[test]
fn unary_f32() {
    floats::<f32>();
}
#[test]
fn unary_f64() {
    floats::<f64>();
}

macro_rules! integer_tests {
    ($($name:ident, $t:ty;)*) => { $(
        #[test]
        fn $name() {
            type T = $t;
            let value = |r: &mut Random| match r.below(8) {
                0 => T::MIN,
                1 => T::MAX,
                2 => 0,
                3 => (0 as T).wrapping_sub(1),
                _ => r.bits() as T,
            };
            let unary: [(&str, fn(T) -> T); 5] = [
                ("neg", |x| x.wrapping_neg()),
                ("abs", |x| if x < (0 as T) { x.wrapping_neg() } else { x }),
                ("relu", |x| x.max(0)),
                ("sqr", |x| x.wrapping_mul(x)),
                ("sign", |x| if x > (0 as T) { 1 } else if x == 0 { 0 } else { (0 as T).wrapping_sub(1) }),
            ];
            for (op, f) in unary {
                unary_cases::<T>(op, value, |what, x, y| {
                    assert_exact(what, y, &x.iter().map(|&v| f(v)).collect::<Vec<_>>());
                });
            }
            let binary: [(&str, fn(T, T) -> T); 6] = [
                ("add", |a, b| a.wrapping_add(b)),
                ("sub", |a, b| a.wrapping_sub(b)),
                ("mul", |a, b| a.wrapping_mul(b)),
                ("div", |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
                ("maximum", |a, b| a.max(b)),
                ("minimum", |a, b| a.min(b)),
            ];
            for (op, f) in binary {
                binary_cases::<T>(op, value, |what, a, b, y| {
                    assert_exact(what, y, &a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect::<Vec<_>>());
                });
            }
        }
    )* };
}
integer_tests! {
    integers_u8, u8;
    integers_i8, i8;
    integers_i16, i16;
    integers_i32, i32;
    integers_i64, i64;
    integers_u32, u32;
}

/// Runs `y = f(a, b)` over the layouts and hands the elements to `check`.
fn binary_cases<T: Element>(
    op: &str,
    mut value: impl FnMut(&mut Random) -> T,
    check: impl Fn(&str, &[T], &[T], &[T]),
) {
    let mut random = Random::new(11);
    for (case, [a_layout, b_layout, y_layout]) in layouts().iter().enumerate() {
        let mut make = |l: &Layout, offset| {
            Buffer::new(&(0..l.len).map(|_| value(&mut random)).collect::<Vec<T>>(), offset)
        };
        let (a, b) = (make(a_layout, case % 3), make(b_layout, 0));
        let untouched = T::from_f64(77.0);
        let y = Buffer::filled(untouched, y_layout.len, 8 * (case % 2));
        let views = [view(&a, a_layout), view(&b, b_layout), view(&y, y_layout)];
        let (launch, args) = binary::prepare(op, &a_layout.dims, views, &device(32)).expect("a kernel");
        run(32, &launch, &args);
        let what = format!("{op} {:?} {:?}", a_layout.dims, b_layout.strides);
        check(&what, &pick(&a, a_layout), &pick(&b, b_layout), &pick(&y, y_layout));
        check_untouched(&y, y_layout, untouched);
    }
}

fn binary_floats<T: Element>() {
    let close: [(&str, Binary<f64>); 6] = [
        ("add", |a, b| a + b),
        ("sub", |a, b| a - b),
        ("mul", |a, b| a * b),
        ("div", |a, b| a / b),
        ("swiglu", |a, b| a * sigmoid(a) * b),
        ("geglu", |a, b| gelu(a) * b),
    ];
    for (op, f) in close {
        binary_cases::<T>(
            op,
            |r| T::from_f64(tricky(r, 3.0)),
            |what, a, b, y| {
                let want: Vec<f64> = a.iter().zip(b).map(|(a, b)| f(a.to_f64(), b.to_f64())).collect();
                assert_close(what, y, &want, false, 2.0);
            },
        );
    }
    let firsts: [(&str, Binary<bool>); 2] = [("maximum", |a, b| a > b), ("minimum", |a, b| a < b)];
    for (op, first) in firsts {
        binary_cases::<T>(
            op,
            |r| T::from_f64(tricky(r, 3.0)),
            |what, a, b, y| {
                let choose = |(&a, &b): (&T, &T)| {
                    let nan = a.to_f64().is_nan();
                    if nan || first(a.to_f64(), b.to_f64()) { a } else { b }
                };
                assert_exact(what, y, &a.iter().zip(b).map(choose).collect::<Vec<_>>());
            },
        );
    }
}

#[test]
fn binary_float_types() {
    binary_floats::<f16>();
    binary_floats::<bf16>();
    binary_floats::<f32>();
    binary_floats::<f64>();
}

#[test]
fn sin_and_cos_reduce_large_arguments() {
    for (op, f) in [("sin", f64::sin as fn(f64) -> f64), ("cos", f64::cos)] {
        let large = |r: &mut Random| r.unit() * 10f64.powi(r.below(30) as i32);
        unary_cases::<f32>(
            op,
            |r| large(r) as f32,
            |what, x, y| {
                let want: Vec<f64> = x.iter().map(|v| f(f64::from(*v))).collect();
                assert_close(what, y, &want, false, 2.0);
            },
        );
        unary_cases::<f64>(
            op,
            |r| large(r).powi(8),
            |what, x, y| {
                assert_close(what, y, &x.iter().map(|v| f(*v)).collect::<Vec<_>>(), false, 2.0);
            },
        );
    }
}

#[test]
fn affine_in_place() {
    fn case<T: Element>() {
        let mut random = Random::new(3);
        let x: Vec<T> = (0..1003).map(|_| T::from_f64(random.normal())).collect();
        let buffer = Buffer::new(&x, 0);
        let layout = Layout::contiguous(&[17, 59]);
        let x_view = view(&buffer, &layout);
        let (launch, args) =
            unary::affine(&layout.dims, x_view, x_view, (0.1, -3.0), &device(32)).expect("a kernel");
        run(32, &launch, &args);
        let want: Vec<f64> = x.iter().map(|v| v.to_f64() * 0.1 - 3.0).collect();
        assert_close("affine", buffer.slice(), &want, false, 2.0);
        buffer.check_guards();
    }
    case::<f16>();
    case::<bf16>();
    case::<f32>();
    case::<f64>();
}
