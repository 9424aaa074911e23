//! Linear attention: convolutions with state, and the gated delta rule.
use super::data::{Distribution, NORMAL, Random, draw};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, Suite};
use ops_core::DType;

const INOUT: [Placement; 5] =
    [Placement::Offset, Placement::Gaps, Placement::Strided, Placement::Transposed, Placement::Reversed];

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("conv1d_update", FLOATS) {
        convolutions(s, dtype);
    }
    for dtype in s.asked("gated_delta_rule", FLOATS) {
        delta_rules(s, dtype);
    }
}

/// A convolution of `[b, t, c]` by weights of width `w`; placements of x, weight, state and y.
fn convolution(
    dtype: DType,
    [b, t, c, w]: [usize; 4],
    bias: Option<DType>,
    [x, weight, state, y]: [Placement; 4],
) -> CaseBuilder {
    let old = draw(&mut Random::of("state"), dtype, b * c * (w - 1), NORMAL);
    let draft = CaseBuilder::new("conv1d_update", dtype).read("x", &[b, t, c], x, NORMAL);
    let draft = draft.read("weight", &[c, w], weight, NORMAL);
    let draft = match bias {
        Some(bias) => draft.read_as("bias", bias, &[c], Placement::Plain, NORMAL),
        None => draft,
    };
    draft.inout("state", &old, &[b, c, w - 1], state).write("y", &[b, t, c], y)
}

fn convolutions(s: &mut Suite<'_>, dtype: DType) {
    const PLAIN: [Placement; 4] = [Placement::Plain; 4];
    for dims in [
        [1, 1, 1, 1],
        [1, 1, 5, 4],
        [2, 1, 65, 4],
        [3, 2, 7, 3],
        // As many tokens as the state holds, one more and one fewer.
        [2, 3, 33, 4],
        [2, 4, 33, 4],
        [2, 2, 33, 4],
        [1, 70, 31, 4],
        [2, 129, 9, 2],
        [1, 40, 3, 9],
        [1, 5, 3, 40],
        [1, 100, 2, 70],
        [1, 6, 4, 1],
        [1, 2, 4097, 4],
        [1, 70, 32, 4],
        [2, 65, 12, 3],
        [2, 9, 16, 2],
        [1, 33, 8, 1],
        [0, 3, 5, 4],
        [2, 0, 5, 4],
        [2, 3, 0, 4],
    ] {
        for activation in ["none", "silu"] {
            for bias in [None, Some(dtype)] {
                s.run(convolution(dtype, dims, bias, PLAIN).param("activation", activation));
            }
        }
    }
    let dims = [2, 5, 9, 4];
    for bias in FLOATS {
        s.run(convolution(dtype, dims, Some(bias), PLAIN));
    }
    for how in IN {
        s.run(convolution(
            dtype,
            dims,
            Some(dtype),
            [how, Placement::Plain, Placement::Plain, Placement::Plain],
        ));
        s.run(convolution(
            dtype,
            dims,
            Some(dtype),
            [Placement::Plain, how, Placement::Plain, Placement::Plain],
        ));
    }
    for how in INOUT {
        for t in [1, 2, 5] {
            let plain = Placement::Plain;
            s.run(convolution(dtype, [2, t, 9, 4], None, [plain, plain, how, plain]));
        }
    }
    for how in OUT {
        s.run(convolution(dtype, dims, None, [Placement::Plain, Placement::Plain, Placement::Plain, how]));
    }
}

/// Heads of d features with values of width dv: `[b, t, h, d, dv]`. The operand, state or output `which` has
/// the placement `how`.
fn rule(dtype: DType, [b, t, h, d, dv]: [usize; 5], (which, how): (&str, Placement)) -> CaseBuilder {
    let place = |name: &str| if name == which { how } else { Placement::Plain };
    // Keys of about unit length, as in models: the rule is stable for these.
    let unit = Distribution::Normal(0.0, (d.max(1) as f64).sqrt().recip());
    let old = draw(&mut Random::of("state"), DType::F32, b * h * d * dv, NORMAL);
    let draft = CaseBuilder::new("gated_delta_rule", dtype).read("q", &[b, t, h, d], place("q"), NORMAL);
    let draft = draft.read("k", &[b, t, h, d], place("k"), unit);
    let draft = draft.read("v", &[b, t, h, dv], place("v"), NORMAL);
    let gates = [b, t, h];
    let draft = draft.read_as("decay", DType::F32, &gates, place("decay"), Distribution::Between(-1.5, 0.0));
    let draft = draft.read_as("beta", DType::F32, &gates, place("beta"), Distribution::Between(0.0, 1.0));
    draft.inout("state", &old, &[b, h, d, dv], place("state")).write("o", &[b, t, h, dv], place("o"))
}

fn delta_rules(s: &mut Suite<'_>, dtype: DType) {
    const PLAIN: (&str, Placement) = ("", Placement::Plain);
    for dims in [
        [1, 1, 1, 1, 1],
        [2, 1, 2, 16, 24],
        [1, 5, 3, 17, 33],
        [2, 3, 2, 33, 5],
        [1, 70, 2, 32, 32],
        [1, 2, 1, 128, 128],
        [1, 9, 1, 100, 40],
        [1, 3, 1, 256, 8],
        [1, 2, 2, 300, 3],
        [1, 2, 1, 3, 300],
        [1, 40, 1, 128, 40],
        [1, 11, 1, 300, 9],
        [0, 3, 2, 8, 8],
        [2, 0, 2, 8, 8],
        [2, 3, 0, 8, 8],
        [2, 3, 2, 0, 8],
        [2, 3, 2, 8, 0],
    ] {
        s.run(rule(dtype, dims, PLAIN));
        s.run(rule(dtype, dims, PLAIN).param("scale", 0.7));
    }
    let dims = [2, 4, 3, 16, 24];
    for name in ["q", "k", "v", "decay", "beta"] {
        for how in IN {
            s.run(rule(dtype, dims, (name, how)));
        }
    }
    for how in INOUT {
        s.run(rule(dtype, dims, ("state", how)));
        s.run(rule(dtype, dims, ("o", how)));
    }
}
