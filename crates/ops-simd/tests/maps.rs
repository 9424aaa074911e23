//! Relations, powers and functions with parameters, on every instruction set.

use crate::common::{LENGTHS, Random, assert_close, each_isa, wide};
use half::{bf16, f16};
use ops_simd::{Binary, Compare, Element, Number, Parametric, Store, binary, compare, parametric};
use std::cmp::Ordering;

const SPECIAL: [f32; 13] =
    [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, -3.0, 2.5];

fn holds<T: bytemuck::Pod + PartialOrd>(op: Compare, a: T, b: T) -> bool {
    let order = a.partial_cmp(&b);
    let [p, q] = [a, b].map(|v| v != bytemuck::Zeroable::zeroed());
    match op {
        Compare::Eq => order == Some(Ordering::Equal),
        Compare::Ne => order != Some(Ordering::Equal),
        Compare::Lt => order == Some(Ordering::Less),
        Compare::Le => order.is_some_and(Ordering::is_le),
        Compare::Gt => order == Some(Ordering::Greater),
        Compare::Ge => order.is_some_and(Ordering::is_ge),
        Compare::And => p && q,
        Compare::Or => p || q,
        Compare::Xor => p != q,
        Compare::Nor => !p && !q,
    }
}

/// Every relation of these values, which are few, so that many are equal.
fn comparisons<T: bytemuck::Pod + PartialOrd + std::fmt::Debug>(number: Number, values: &[T]) {
    each_isa(|isa| {
        for op in Compare::ALL {
            for n in LENGTHS {
                let mut random = Random::new(n as u64);
                let mut some = |_| values[(random.bits() >> 20) as usize % values.len()];
                let (a, b): (Vec<T>, Vec<T>) = (0..n).map(|i| (some(i), some(i))).unzip();
                let mut y = vec![7; n];
                compare(isa, op, number, bytemuck::cast_slice(&a), bytemuck::cast_slice(&b), &mut y).unwrap();
                for i in 0..n {
                    let want = u8::from(holds(op, a[i], b[i]));
                    assert_eq!(y[i], want, "{isa} {op:?} {number:?} {:?} {:?}", a[i], b[i]);
                }
            }
        }
    });
}

#[test]
fn comparisons_of_every_type() {
    comparisons(Number::F32, &SPECIAL);
    comparisons(Number::F64, &SPECIAL.map(f64::from));
    comparisons(Number::F16, &SPECIAL.map(f16::from_f32));
    comparisons(Number::Bf16, &SPECIAL.map(bf16::from_f32));
    comparisons(Number::U8, &[0u8, 1, 127, 128, 255]);
    comparisons(Number::I8, &[0i8, 1, -1, i8::MIN, i8::MAX]);
    comparisons(Number::I16, &[0i16, 1, -1, i16::MIN, i16::MAX]);
    comparisons(Number::U32, &[0u32, 1, u32::MAX, 1 << 31]);
    comparisons(Number::I32, &[0i32, 1, -1, i32::MIN, i32::MAX]);
    comparisons(Number::I64, &[0i64, 1, -1, i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1]);
}

#[test]
fn every_pair_of_8_bit_floats() {
    // The format's definition: bias 7, three bits of fraction, NaN at the largest magnitude.
    let value = |bits: u8| {
        let (e, f) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
        let size = if e == 0 { f * 2f32.powi(-9) } else { (1.0 + f / 8.0) * 2f32.powi(e - 7) };
        let size = if bits & 0x7f == 0x7f { f32::NAN } else { size };
        if bits < 128 { size } else { -size }
    };
    let a: Vec<u8> = (0..1u32 << 16).map(|k| (k >> 8) as u8).collect();
    let b: Vec<u8> = (0..1u32 << 16).map(|k| k as u8).collect();
    let mut y = vec![7; a.len()];
    each_isa(|isa| {
        for op in Compare::ALL {
            let mut y = y.clone();
            compare(isa, op, Number::F8E4M3, &a, &b, &mut y).unwrap();
            for i in 0..a.len() {
                let want = holds(op, value(a[i]), value(b[i]));
                assert_eq!(y[i], u8::from(want), "{isa} {op:?} {} {}", a[i], b[i]);
            }
        }
    });
    assert!(
        compare(ops_simd::Isa::best(), Compare::Eq, Number::F16, &a, &b, &mut y).is_err(),
        "half as many"
    );
}

fn special_powers<T: Element>() {
    let pairs: Vec<(T, T)> =
        SPECIAL.iter().flat_map(|a| SPECIAL.map(|b| (T::from_f32(*a), T::from_f32(b)))).collect();
    let (a, b): (Vec<T>, Vec<T>) = pairs.into_iter().unzip();
    each_isa(|isa| {
        let mut y = vec![T::default(); a.len()];
        binary(isa, Binary::Pow, &a, &b, &mut y, Store::Cached).unwrap();
        for i in 0..a.len() {
            let (x, e) = (f64::from(a[i].to_f32()), f64::from(b[i].to_f32()));
            let (got, want) = (y[i].to_f32(), x.powf(e) as f32);
            let same = got.is_nan() && want.is_nan() || (got / want - 1.0).abs() < 0.01;
            let equal = got == want && got.is_sign_negative() == want.is_sign_negative();
            assert!(
                same && want != 0.0 && want.is_finite() || equal || got.is_nan() && want.is_nan(),
                "{isa} {} pow({x}, {e}) is {got}, not {want}",
                T::NAME
            );
        }
    });
}

#[test]
fn special_values_of_powers_are_those_of_c() {
    special_powers::<f32>();
    special_powers::<f16>();
    special_powers::<bf16>();
}

#[test]
fn powers_keep_their_digits_over_the_whole_range() {
    each_isa(|isa| {
        let mut random = Random::new(9);
        let mut worst = 0f64;
        for _ in 0..20_000 {
            // Results from 2⁻¹²⁰ to 2¹²⁷, of bases near one and far from it.
            let base =
                (f64::from(random.next()) * [1e-4, 0.7, 80.0][random.bits() as usize % 3]).exp2() as f32;
            let bits = f64::from(random.next()) * 123.0;
            let exponent = (bits / f64::from(base).log2()) as f32;
            if !exponent.is_finite() {
                continue;
            }
            let mut y = [0f32];
            binary(isa, Binary::Pow, &[base], &[exponent], &mut y, Store::Cached).unwrap();
            worst = worst.max((f64::from(y[0]) / f64::from(base).powf(f64::from(exponent)) - 1.0).abs());
        }
        println!("{isa}: relative error {worst:e}");
        assert!(worst < 5e-7, "{isa} {worst:e}");
    });
}

fn parameters<T: Element>() {
    each_isa(|isa| {
        for n in LENGTHS {
            let mut x: Vec<T> = Random::new(n as u64).vec(n + 1);
            x[n / 2] = T::from_f32(f32::NAN);
            let x = &x[1..];
            let mut y = vec![T::default(); n];
            for store in [Store::Cached, Store::Stream] {
                parametric(isa, Parametric::Clamp(-0.5, 1.25), x, &mut y, store).unwrap();
                for (x, y) in wide(x).iter().zip(wide(&y)) {
                    assert!(x.is_nan() && y.is_nan() || y == x.clamp(-0.5, 1.25), "{isa} clamp {x} {y}");
                }
                let numbers: Vec<T> =
                    x.iter().map(|x| if x.to_f32().is_nan() { T::from_f32(-1.0) } else { *x }).collect();
                parametric(isa, Parametric::Elu(1.5), &numbers, &mut y, store).unwrap();
                let elu = |x: &f64| if *x > 0.0 { *x } else { 1.5 * x.exp_m1() };
                let want: Vec<f64> = wide(&numbers).iter().map(elu).collect();
                assert_close(&y, &want, 1e-11, &format!("{isa} elu {} {n}", T::NAME));
                let positive: Vec<T> = numbers.iter().map(|x| T::from_f32(x.to_f32().abs())).collect();
                parametric(isa, Parametric::Powf(2.4), &positive, &mut y, store).unwrap();
                let want: Vec<f64> = wide(&positive).iter().map(|x| x.powf(2.4)).collect();
                assert_close(&y, &want, 1e-11, &format!("{isa} powf {} {n}", T::NAME));
            }
        }
    });
}

#[test]
fn functions_with_parameters() {
    parameters::<f32>();
    parameters::<f16>();
    parameters::<bf16>();
}
