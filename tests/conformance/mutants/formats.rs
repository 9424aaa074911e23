//! Wrongly decoded block formats. A row says which bytes of a block a wrong decoder would confuse.
use super::backend::Mutant;
use rocm_ops::ops::{Dequantize, Linear};
use rocm_ops::{AnyTensor, BlockInfo, DType, Host, quant};

/// A bug of a format: its name, and its effect on a block.
type Fault = (&'static BlockInfo, &'static str, fn(&mut [u8]));

fn swap_nibbles(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|b| *b = b.rotate_left(4));
}

const NIBBLES: &str = "halves of the bytes exchanged";
const NO_MIN: &str = "minimum forgotten";
const NO_HIGH: &str = "high bits ignored";
const OTHER_SCALE: &str = "scale of another group";
const NO_SIGNS: &str = "signs ignored";

#[rustfmt::skip]
const FAULTS: &[Fault] = &[
    (&quant::Q4_1, NIBBLES, |b| swap_nibbles(&mut b[4..])),
    (&quant::Q4_1, NO_MIN, |b| b[2..4].fill(0)),
    (&quant::Q5_0, NIBBLES, |b| swap_nibbles(&mut b[6..])),
    (&quant::Q5_0, NO_HIGH, |b| b[2..6].fill(0)),
    (&quant::Q5_1, NO_MIN, |b| b[2..4].fill(0)),
    (&quant::Q5_1, NO_HIGH, |b| b[4..8].fill(0)),
    (&quant::Q8_1, "sum taken for the scale", |b| b.copy_within(2..4, 0)),
    (&quant::Q2_K, NO_MIN, |b| b[..16].iter_mut().for_each(|s| *s &= 15)),
    (&quant::Q2_K, OTHER_SCALE, |b| b[..16].swap(4, 5)),
    (&quant::Q3_K, NO_HIGH, |b| b[..32].fill(0)),
    (&quant::Q3_K, OTHER_SCALE, |b| b[96..104].swap(1, 2)),
    (&quant::Q3_K, "scales of four bits", |b| b[104..108].fill(0)),
    (&quant::Q4_K, NIBBLES, |b| swap_nibbles(&mut b[16..])),
    (&quant::Q4_K, NO_MIN, |b| b[2..4].fill(0)),
    (&quant::Q4_K, OTHER_SCALE, |b| b[4..8].swap(0, 1)),
    (&quant::Q4_K, "high bits of the last scales ignored", |b| b[4..12].iter_mut().for_each(|s| *s &= 63)),
    (&quant::Q5_K, NO_MIN, |b| b[2..4].fill(0)),
    (&quant::Q5_K, NO_HIGH, |b| b[16..48].fill(0)),
    (&quant::Q5_K, OTHER_SCALE, |b| b[12..16].swap(2, 3)),
    (&quant::Q6_K, NO_HIGH, |b| b[128..192].fill(0)),
    (&quant::Q6_K, OTHER_SCALE, |b| b[192..208].swap(6, 7)),
    (&quant::Q6_K, "scales without their signs", |b| b[192..208].iter_mut().for_each(|s| *s &= 127)),
    (&quant::Q8_K, "scale cut to sixteen bits", |b| b[..2].fill(0)),
    (&quant::IQ4_NL, NIBBLES, |b| swap_nibbles(&mut b[2..])),
    (&quant::IQ4_XS, NIBBLES, |b| swap_nibbles(&mut b[8..])),
    (&quant::IQ4_XS, "scales of four bits", |b| b[2..4].fill(0)),
    (&quant::MXFP4, NIBBLES, |b| swap_nibbles(&mut b[1..])),
    (&quant::MXFP4, "subnormal scales flushed", |b| if b[0] < 2 { b[1..].fill(0) }),
    (&quant::IQ2_XXS, NO_SIGNS, |b| (0..8).for_each(|g| { b[6 + 8 * g..9 + 8 * g].fill(0); b[9 + 8 * g] &= 0xf0; })),
    (&quant::IQ2_XXS, OTHER_SCALE, |b| b.swap(9, 17)),
    (&quant::IQ2_XS, OTHER_SCALE, |b| swap_nibbles(&mut b[66..])),
    (&quant::IQ2_S, NO_HIGH, |b| b[66..74].fill(0)),
    (&quant::IQ2_S, NO_SIGNS, |b| b[34..66].fill(0)),
    (&quant::IQ3_XXS, NO_SIGNS, |b| (0..8).for_each(|g| { b[66 + 4 * g..69 + 4 * g].fill(0); b[69 + 4 * g] &= 0xf0; })),
    (&quant::IQ3_S, NO_HIGH, |b| b[66..74].fill(0)),
    (&quant::IQ3_S, OTHER_SCALE, |b| swap_nibbles(&mut b[106..])),
];

fn edit_blocks(x: &mut AnyTensor<Host>, format: &BlockInfo, fault: fn(&mut [u8])) {
    let (layout, size) = (*x.layout(), format.bytes());
    if !matches!(x.dtype(), DType::Block(info) if info == format) {
        return;
    }
    if let Some(mut x) = x.as_mut() {
        layout.positions().for_each(|p| fault(&mut x.bytes_mut()[p * size..][..size]));
    }
}

pub(super) fn mutants() -> Vec<Mutant> {
    let decoded = FAULTS.iter().map(|&(format, name, fault)| {
        Mutant::before::<Dequantize>(name, "dequantize", DType::Block(format), move |_, o| {
            if let Some(x) = o.get_mut("x") {
                edit_blocks(x, format, fault);
            }
        })
    });
    // Every product decodes with the same code; some super-block formats have separate kernels.
    let own = ["q4_k", "q5_k", "q6_k", "iq4_xs"];
    let multiplied = FAULTS.iter().filter(|(format, ..)| own.contains(&format.name()));
    let multiplied = multiplied.map(|&(format, name, fault)| {
        Mutant::before::<Linear<f32>>(name, "qlinear", DType::F32, move |_, o| {
            if let Some(weight) = o.get_mut("weight") {
                edit_blocks(weight, format, fault);
            }
        })
        .in_cases_of(format.name())
    });
    decoded.chain(multiplied).collect()
}
