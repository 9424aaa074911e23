//! Elementwise operations compared with plain Rust.

use crate::common::{LENGTHS, Random, assert_close, each_isa, wide};
use half::{bf16, f16};
use ops_simd::{
    Binary, Element, Store, Unary, affine, affine_in_place, binary, choose, unary, unary_in_place,
};

const SPECIAL: [f32; 12] = [
    0.0,
    -0.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    1e-40,
    -1e-40,
    0.5,
    -0.5,
    2.5,
    0.499_999_97,
    8_388_609.0,
];

fn exact(op: Unary, x: f32) -> Option<f32> {
    Some(match op {
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Sqr => x * x,
        Unary::Sqrt => x.sqrt(),
        Unary::Recip => 1.0 / x,
        Unary::Relu => {
            if x.is_nan() || x > 0.0 {
                x
            } else {
                0.0
            }
        }
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round(),
        Unary::Trunc => x.trunc(),
        Unary::Sign => {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                0.0
            }
        }
        _ => return None,
    })
}

fn same(a: f32, b: f32) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

fn exact_unary<T: Element>() {
    let special: Vec<T> = SPECIAL.iter().chain(&SPECIAL.map(|x| -x)).map(|&x| T::from_f32(x)).collect();
    each_isa(|isa| {
        for op in Unary::ALL {
            for n in LENGTHS {
                let mut x: Vec<T> = Random::new(n as u64).vec(n + 1);
                for (x, s) in x.iter_mut().zip(special.iter().cycle().skip(n)) {
                    *x = *s;
                }
                let x = &x[1..];
                let mut y = vec![T::default(); n];
                unary(isa, op, x, &mut y, Store::Cached).unwrap();
                for (x, y) in x.iter().zip(&y) {
                    if let Some(want) = exact(op, x.to_f32()) {
                        let want = T::from_f32(want);
                        assert!(
                            same(y.to_f32(), want.to_f32()),
                            "{isa} {op} {} {x:?}: {y:?}, not {want:?}",
                            T::NAME
                        );
                    }
                }
                let mut z = x.to_vec();
                unary_in_place(isa, op, &mut z);
                let mut w = vec![T::default(); n];
                unary(isa, op, x, &mut w, Store::Stream).unwrap();
                for i in 0..n {
                    assert!(
                        same(y[i].to_f32(), z[i].to_f32()) && same(y[i].to_f32(), w[i].to_f32()),
                        "{isa} {op} {i}"
                    );
                }
            }
        }
    });
}

#[test]
fn exact_functions() {
    exact_unary::<f32>();
    exact_unary::<f16>();
    exact_unary::<bf16>();
}

#[test]
fn mixed_types() {
    each_isa(|isa| {
        let x: Vec<f16> = Random::new(5).vec(3000);
        let mut y = vec![bf16::ZERO; x.len()];
        unary(isa, Unary::Sqr, &x, &mut y, Store::Cached).unwrap();
        for (x, y) in x.iter().zip(&y) {
            assert_eq!(*y, bf16::from_f32(x.to_f32() * x.to_f32()));
        }
    });
}

fn binary_f64(op: Binary, a: f64, b: f64) -> f64 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Maximum => a.max(b),
        Binary::Minimum => a.min(b),
        Binary::Pow => a.powf(b),
        Binary::SwiGlu => a / (1.0 + (-a).exp()) * b,
        Binary::GeGlu => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (a + 0.044715 * a.powi(3));
            0.5 * a * (1.0 + u.tanh()) * b
        }
    }
}

fn binaries<T: Element>() {
    each_isa(|isa| {
        for op in Binary::ALL {
            for n in LENGTHS {
                for store in [Store::Cached, Store::Stream] {
                    let mut random = Random::new(n as u64);
                    let (a, b): (Vec<T>, Vec<T>) = (random.vec(n + 3), random.vec(n + 1));
                    // Negative numbers have powers only with integer exponents.
                    let positive = |x: &T| T::from_f32(x.to_f32().abs());
                    let a: Vec<T> = if op == Binary::Pow { a.iter().map(positive).collect() } else { a };
                    let (a, b) = (&a[3..], &b[1..]);
                    let mut y = vec![T::default(); n];
                    binary(isa, op, a, b, &mut y, store).unwrap();
                    let want: Vec<f64> =
                        wide(a).iter().zip(wide(b)).map(|(&a, b)| binary_f64(op, a, b)).collect();
                    assert_close(&y, &want, 1e-11, &format!("{isa} {op:?} {} {n}", T::NAME));
                }
            }
        }
    });
}

#[test]
fn binary_functions() {
    binaries::<f32>();
    binaries::<f16>();
    binaries::<bf16>();
}

#[test]
fn extremes_propagate_nan_from_either_side() {
    each_isa(|isa| {
        let a = [f32::NAN, 1.0, f32::NAN, 2.0, -1.0];
        let b = [1.0, f32::NAN, f32::NAN, 3.0, f32::NEG_INFINITY];
        let mut y = [0f32; 5];
        binary(isa, Binary::Maximum, &a, &b, &mut y, Store::Cached).unwrap();
        assert!(y[..3].iter().all(|y| y.is_nan()) && y[3..] == [3.0, -1.0], "{isa} {y:?}");
        binary(isa, Binary::Minimum, &a, &b, &mut y, Store::Cached).unwrap();
        assert!(y[..3].iter().all(|y| y.is_nan()) && y[3..] == [2.0, f32::NEG_INFINITY], "{isa} {y:?}");
    });
}

#[test]
fn affine_of_each_length() {
    each_isa(|isa| {
        for n in LENGTHS {
            let x: Vec<f16> = Random::new(n as u64).vec(n);
            let mut y = vec![f16::ZERO; n];
            affine(isa, &x, 1.5, -0.25, &mut y, Store::Cached).unwrap();
            for (x, y) in x.iter().zip(&y) {
                assert_eq!(*y, f16::from_f32(x.to_f32() * 1.5 - 0.25));
            }
            let mut z = x.clone();
            affine_in_place(isa, 1.5, -0.25, &mut z);
            assert_eq!(y, z);
        }
    });
}

#[test]
fn choice_keeps_every_bit() {
    each_isa(|isa| {
        for n in LENGTHS {
            let mut random = Random::new(n as u64);
            let cond: Vec<u8> = (0..n).map(|_| (random.bits() % 3) as u8 * 100).collect();
            let (a, b): (Vec<u64>, Vec<u64>) = (0..n).map(|_| (random.bits(), random.bits())).unzip();
            let mut y = vec![0; n];
            choose(isa, &cond, &a, &b, &mut y).unwrap();
            let want: Vec<u64> = (0..n).map(|i| if cond[i] != 0 { a[i] } else { b[i] }).collect();
            assert_eq!(y, want);
            let (a, b): (Vec<u16>, Vec<u16>) =
                (a.iter().map(|&a| a as u16).collect(), b.iter().map(|&b| b as u16).collect());
            let mut y = vec![0; n];
            choose(isa, &cond, &a, &b, &mut y).unwrap();
            assert!((0..n).all(|i| y[i] == if cond[i] != 0 { a[i] } else { b[i] }), "{isa} {n}");
        }
    });
}
