//! Choices between two tensors, for every element that is moved differently.
use super::copy::elements;
use super::data::{Distribution, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{INDICES, Suite};
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("where", elements()) {
        choose(s, dtype);
    }
}

fn choose(s: &mut Suite<'_>, dtype: DType) {
    for condition in INDICES {
        let draft = |dims: &[usize], [cond, on_true, on_false, y]: [Placement; 4]| {
            let n: usize = dims.iter().product();
            // Any value other than 0 is true, including the sentinel of indices.
            let chosen = [0.0, 1.0, 0.0, 2.0, 0.0, 255.0, -1.0, 0.0, i64::MAX as f64];
            let chosen: Vec<f64> = (0..n).map(|i| chosen[(i * 5 + i / 7) % chosen.len()]).collect();
            let draft =
                CaseBuilder::new("where", dtype).given("cond", &values_of(condition, &chosen), dims, cond);
            let draft = draft.read("on_true", dims, on_true, Distribution::Bits);
            draft.read("on_false", dims, on_false, Distribution::Bits).write("y", dims, y)
        };
        let plain = [Placement::Plain; 4];
        for dims in [&[][..], &[1], &[31], &[65], &[4097], &[0], &[3, 0], &[2, 3, 129]] {
            s.run(draft(dims, plain));
        }
        for operand in 0..4 {
            for how in if operand == 3 { &OUT[..] } else { &IN[..] } {
                let mut hows = plain;
                hows[operand] = *how;
                s.run(draft(&[3, 4, 33], hows));
            }
        }
        s.run(draft(
            &[3, 4, 33],
            [Placement::Transposed, Placement::Same, Placement::Gaps, Placement::Strided],
        ));
    }
}
