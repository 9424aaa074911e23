//! Every conversion compared with the `half` crate, over every bit pattern where possible.

use half::{bf16, f16};
use ops_simd::{Element, Isa, Store, cast};

fn f16_class(x: f16) -> u16 {
    if x.is_nan() { 0x7e00 } else { x.to_bits() }
}

fn bf16_class(x: bf16) -> u16 {
    if x.is_nan() { 0x7fc0 } else { x.to_bits() }
}

#[test]
fn halves_to_f32_are_exact() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let f16s: Vec<f16> = bits.iter().map(|&b| f16::from_bits(b)).collect();
    let bf16s: Vec<bf16> = bits.iter().map(|&b| bf16::from_bits(b)).collect();
    for isa in Isa::available() {
        let mut y = vec![0f32; bits.len()];
        cast(isa, &f16s, &mut y, Store::Cached).unwrap();
        for (x, y) in f16s.iter().zip(&y) {
            let want = x.to_f32();
            assert!(y.to_bits() == want.to_bits() || x.is_nan() && y.is_nan(), "{isa} f16 {x:?}: {y}");
            assert_eq!(Element::to_f32(*x).is_nan(), x.is_nan());
        }
        cast(isa, &bf16s, &mut y, Store::Cached).unwrap();
        for (x, y) in bf16s.iter().zip(&y) {
            assert_eq!(y.to_bits(), u32::from(x.to_bits()) << 16, "{isa} bf16 {x:?}");
        }
    }
}

fn check_from_f32(isa: Isa, x: &[f32]) {
    let mut h = vec![f16::ZERO; x.len()];
    cast(isa, x, &mut h, Store::Cached).unwrap();
    let mut b = vec![bf16::ZERO; x.len()];
    cast(isa, x, &mut b, Store::Cached).unwrap();
    for i in 0..x.len() {
        assert_eq!(f16_class(h[i]), f16_class(f16::from_f32(x[i])), "{isa} {:e} to f16", x[i]);
        assert_eq!(bf16_class(b[i]), bf16_class(bf16::from_f32(x[i])), "{isa} {:e} to bf16", x[i]);
    }
}

/// Every `step`-th f32, in blocks.
fn all_f32(step: u32, mut f: impl FnMut(&[f32])) {
    let mut block = Vec::with_capacity(1 << 16);
    let mut bits = 0u32;
    loop {
        block.push(f32::from_bits(bits));
        let next = bits.checked_add(step);
        if block.len() == 1 << 16 || next.is_none() {
            f(&block);
            block.clear();
        }
        match next {
            Some(next) => bits = next,
            None => return,
        }
    }
}

#[test]
fn f32_to_halves_rounds_to_even() {
    for isa in Isa::available() {
        // A prime step reaches every exponent and many ties; dedicated ties follow below.
        all_f32(997, |x| check_from_f32(isa, x));
        let ties: Vec<f32> = (0..=u16::MAX)
            .flat_map(|b| {
                let exact = u32::from(b) << 16;
                let tie = f16::from_bits(b).to_f32().to_bits();
                [exact | 0x8000, exact | 0x7fff, exact | 0x8001, tie | 0x1000, tie | 0xfff, tie | 0x1001]
            })
            .map(f32::from_bits)
            .collect();
        check_from_f32(isa, &ties);
    }
}

#[test]
#[ignore = "every f32: minutes in a debug build"]
fn f32_to_halves_over_every_pattern() {
    for isa in Isa::available() {
        all_f32(1, |x| check_from_f32(isa, x));
    }
}

#[test]
fn any_length_and_alignment() {
    let x: Vec<f32> = (0..200).map(|i| i as f32 * 0.37 - 30.0).collect();
    for isa in Isa::available() {
        for start in 0..5 {
            for len in 0..70 {
                for store in [Store::Cached, Store::Stream] {
                    let x = &x[start..start + len];
                    let mut y = vec![f16::MAX; len + 8];
                    cast(isa, x, &mut y[start..start + len], store).unwrap();
                    for (i, y) in y.iter().enumerate() {
                        let inside = (start..start + len).contains(&i);
                        let want = if inside { f16::from_f32(x[i - start]) } else { f16::MAX };
                        assert_eq!(*y, want, "{isa} {store:?} {start} {len} {i}");
                    }
                }
            }
        }
    }
}

#[test]
fn lengths_must_agree() {
    let error = cast(Isa::best(), &[0f32; 3], &mut [0f32; 4], Store::Cached).unwrap_err();
    assert_eq!(error.to_string(), "x has 3 elements, wanted 4");
}
