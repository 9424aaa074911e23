//! Wrong bitwise functions and shifts.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::DType;
use rocm_ops::ops::*;

fn bytes(name: &'static str, f: BitwiseFn, wrong: fn(i8, i8) -> i8) -> Mutant {
    Mutant::instead::<Bitwise<i8>>(name, f.name(), DType::I8, move |_, o| {
        let (a, b) = (values(&o["a"]), values(&o["b"]));
        let y: Vec<f64> = a.iter().zip(b).map(|(a, b)| wrong(*a as i8, b as i8).into()).collect();
        set(&mut o["y"], y);
    })
}

pub(super) fn mutants() -> Vec<Mutant> {
    use BitwiseFn::*;
    vec![
        bytes("of truth values", And, |a, b| (a != 0 && b != 0).into()),
        bytes("a sum", Or, i8::wrapping_add),
        bytes("or", Xor, |a, b| a | b),
        bytes("places modulo the width", ShiftLeft, |a, b| a.wrapping_shl(b as u32)),
        bytes("places modulo 32, as processors shift", ShiftLeft, |a, b| (i32::from(a) << (b & 31)) as i8),
        bytes("places modulo the width", ShiftRight, |a, b| a.wrapping_shr(b as u32)),
        bytes("zeros moved in", ShiftRight, |a, b| ((a as u8) >> (b & 7)) as i8),
        bytes(
            "the sign lost with the last bit",
            ShiftRight,
            |a, b| {
                if (0..8).contains(&b) { a >> b } else { 0 }
            },
        ),
        bytes("a quotient rounded towards 0", ShiftRight, |a, b| {
            if (0..7).contains(&b) { a / (1 << b) } else { a >> 7 }
        }),
        bytes("negative places shift right", ShiftLeft, |a, b| {
            if b < 0 { a.wrapping_shr(b.unsigned_abs().into()) } else { ((i64::from(a)) << b.min(60)) as i8 }
        }),
        Mutant::instead::<Bitwise<u32>>("a sign where there is none", "shift_right", DType::U32, |_, o| {
            let (a, b) = (values(&o["a"]), values(&o["b"]));
            let shifted = |(a, b): (&f64, f64)| f64::from((*a as u32 as i32 >> b.min(31.0) as u32) as u32);
            let y: Vec<f64> = a.iter().zip(b).map(shifted).collect();
            set(&mut o["y"], y);
        }),
        Mutant::instead::<BitwiseNot<i8>>("the negative", "bitwise_not", DType::I8, |_, o| {
            let x = values(&o["x"]);
            set(&mut o["y"], x.into_iter().map(|v| f64::from((v as i8).wrapping_neg())));
        }),
        Mutant::instead::<BitwiseNot<u32>>("of truth values", "bitwise_not", DType::U32, |_, o| {
            let x = values(&o["x"]);
            set(&mut o["y"], x.into_iter().map(|v| if v == 0.0 { 1.0 } else { 0.0 }));
        }),
        Mutant::before::<Bitwise<i16>>("b read without its strides", "bitwise_and", DType::I16, |_, o| {
            relayout(&mut o["b"], forget_strides)
        }),
        Mutant::before::<Bitwise<i32>>("a and b exchanged", "shift_left", DType::I32, |_, o| {
            let b = o.remove("b").expect("an operand of every call");
            let a = std::mem::replace(&mut o["a"], b);
            o.insert("b", a);
        }),
        Mutant::overrun("bitwise_xor", DType::U8),
        Mutant::declines("bitwise_or", DType::I64),
    ]
}
