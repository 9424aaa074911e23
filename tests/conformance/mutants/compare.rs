//! Wrong comparisons.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::ops::*;
use rocm_ops::{DType, F8E4M3, Scalar, bf16, f16};
use std::cmp::Ordering;

/// A wrong comparison of elements of `T`.
fn wrong<T: Scalar>(name: &'static str, f: CompareFn, wrong: fn(T, T) -> bool) -> Mutant {
    Mutant::instead::<Compare<T>>(name, f.name(), T::DTYPE, move |_, o| {
        let elements = |x| {
            let x = typed::<T>(x);
            x.layout().positions().map(|p| x.data()[p]).collect::<Vec<T>>()
        };
        let (a, b) = (elements(&o["a"]), elements(&o["b"]));
        set(
            &mut o["y"],
            a.into_iter().zip(b).map(|(a, b)| f64::from(u8::from(wrong(a, b)))).collect::<Vec<_>>(),
        );
    })
}

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        wrong::<f32>("bits compared, so zeros differ", CompareFn::Eq, |a, b| a.to_bits() == b.to_bits()),
        wrong::<f32>("NaN equals NaN", CompareFn::Eq, |a, b| a == b || a.is_nan() && b.is_nan()),
        wrong::<f32>("false for NaN", CompareFn::Ne, |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_ne)),
        wrong::<f64>("not less, also for NaN", CompareFn::Ge, |a, b| {
            !matches!(a.partial_cmp(&b), Some(Ordering::Less))
        }),
        wrong::<f16>("not greater, also for NaN", CompareFn::Le, |a, b| {
            !matches!(a.partial_cmp(&b), Some(Ordering::Greater))
        }),
        wrong::<bf16>("bits compared as integers", CompareFn::Lt, |a, b| {
            (a.to_bits() as i16) < b.to_bits() as i16
        }),
        wrong::<F8E4M3>("the largest magnitude is NaN", CompareFn::Ge, |a, b| {
            let (a, b) = (a.to_f64(), b.to_f64());
            a >= b && a.abs() < 448.0 && b.abs() < 448.0
        }),
        wrong::<i64>("compared as f64", CompareFn::Eq, |a, b| a as f64 == b as f64),
        wrong::<i64>("compared as f64", CompareFn::Lt, |a, b| (a as f64) < b as f64),
        wrong::<u32>("compared as signed", CompareFn::Gt, |a, b| a as i32 > b as i32),
        wrong::<u8>("compared as signed", CompareFn::Le, |a, b| a as i8 <= b as i8),
        wrong::<i8>("the difference overflows", CompareFn::Lt, |a, b| a.wrapping_sub(b) < 0),
        wrong::<i32>("less or equal", CompareFn::Lt, |a, b| a <= b),
        wrong::<f32>("NaN is false", CompareFn::LogicalAnd, |a, b| a.abs() > 0.0 && b.abs() > 0.0),
        wrong::<f16>("−0 is true", CompareFn::LogicalOr, |a, b| a.to_bits() | b.to_bits() != 0),
        wrong::<i32>("bits instead of truth values", CompareFn::LogicalAnd, |a, b| a & b != 0),
        wrong::<i64>("bits instead of truth values", CompareFn::LogicalXor, |a, b| a ^ b != 0),
        wrong::<i64>("truth values of the lower half", CompareFn::LogicalOr, |a, b| (a | b) as i32 != 0),
        wrong::<F8E4M3>("positive numbers are true", CompareFn::LogicalXor, |a, b| {
            (a.to_f64() > 0.0) != (b.to_f64() > 0.0)
        }),
        Mutant::instead::<LogicalNot<f32>>("NaN is false", "logical_not", DType::F32, |_, o| {
            let x = values(&o["x"]);
            set(&mut o["y"], x.into_iter().map(|v| if v.abs() > 0.0 { 0.0 } else { 1.0 }));
        }),
        Mutant::instead::<LogicalNot<i8>>("only 1 is true", "logical_not", DType::I8, |_, o| {
            let x = values(&o["x"]);
            set(&mut o["y"], x.into_iter().map(|v| if v == 1.0 { 0.0 } else { 1.0 }));
        }),
        Mutant::after::<Compare<f32>>("all bits set where true", "gt", DType::F32, |_, o| {
            edit::<u8>(&mut o["y"], |_, v| v.wrapping_neg());
        }),
        Mutant::before::<Compare<f32>>("a and b exchanged", "ge", DType::F32, |_, o| {
            let b = o.remove("b").expect("an operand of every call");
            let a = std::mem::replace(&mut o["a"], b);
            o.insert("b", a);
        }),
        Mutant::before::<Compare<i16>>("b read without its strides", "ne", DType::I16, |_, o| {
            relayout(&mut o["b"], forget_strides)
        }),
        Mutant::overrun("eq", DType::F16),
    ]
}
