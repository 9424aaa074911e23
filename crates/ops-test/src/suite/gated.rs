//! The L2 norm, the gated norm and the clamped gated activation.
use super::data::{Distribution, NORMAL, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, LENGTHS, Suite};
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for op in ["l2_norm", "gated_rms_norm"] {
        for dtype in s.asked(op, FLOATS) {
            norms(s, op, dtype);
        }
    }
    for dtype in s.asked("swiglu_clamped", FLOATS) {
        clamped(s, dtype);
    }
}

/// One case of a norm, with the fields that tests vary.
#[derive(Clone, Copy)]
struct Norm<'a> {
    op: &'a str,
    dtype: DType,
    dims: &'a [usize],
    numbers: Distribution,
    eps: f64,
    /// Placements of `x`, the gate, the weight and `y`.
    hows: [Placement; 4],
    weight_type: DType,
}

impl Norm<'_> {
    fn draft(self) -> CaseBuilder {
        let [x, gate, weight, y] = self.hows;
        let draft = CaseBuilder::new(self.op, self.dtype).param("eps", self.eps);
        let draft = draft.read("x", self.dims, x, self.numbers);
        let draft = match self.op {
            "gated_rms_norm" => {
                let n = [self.dims[self.dims.len() - 1]];
                let draft = draft.read("gate", self.dims, gate, Distribution::Normal(0.0, 3.0));
                draft.read_as("weight", self.weight_type, &n, weight, Distribution::Normal(1.0, 0.3))
            }
            _ => draft,
        };
        draft.write("y", self.dims, y)
    }
}

fn norms(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let hows = [Placement::Plain; 4];
    let norm = Norm { op, dtype, dims: &[3, 4, 33], numbers: NORMAL, eps: 1e-5, hows, weight_type: dtype };
    for n in LENGTHS {
        s.run(Norm { dims: &[if n == 4097 { 2 } else { 3 }, n], ..norm }.draft());
    }
    for dims in [&[65][..], &[1, 64], &[2, 3, 128], &[1025, 7], &[2, 1, 3, 2, 1, 33], &[2, 8192]] {
        s.run(Norm { dims, ..norm }.draft());
    }
    for dims in [&[0, 5][..], &[3, 0], &[2, 0, 33], &[0]] {
        s.run(Norm { dims, ..norm }.draft());
    }
    for operand in 0..4 {
        for how in if operand == 3 { &OUT[..] } else { &IN[..] } {
            let mut hows = hows;
            hows[operand] = *how;
            if op == "gated_rms_norm" || matches!(operand, 0 | 3) {
                s.run(Norm { hows, ..norm }.draft());
                s.run(Norm { hows, dims: &[2, 4, 64], ..norm }.draft());
            }
        }
    }
    for weight_type in FLOATS {
        if op == "gated_rms_norm" {
            s.run(Norm { weight_type, ..norm }.draft());
            s.run(Norm { weight_type, dims: &[2, 4096], ..norm }.draft());
        }
    }
    for eps in [0.0, 1e-6, 0.5] {
        s.run(Norm { eps, ..norm }.draft());
    }
    // eps dominates the result.
    s.run(Norm { numbers: Distribution::Normal(0.0, 1e-3), ..norm }.draft().note("small"));
    s.run(Norm { numbers: Distribution::Between(0.0, 0.0), ..norm }.draft().note("zeros"));
    // The squares exceed the range of f16.
    s.run(Norm { numbers: Distribution::Normal(0.0, 8e3), ..norm }.draft().note("large"));
    // One NaN makes its whole row NaN, but no other row.
    let mut x = vec![0.5; 6 * 40];
    x[97] = f64::NAN;
    let draft = CaseBuilder::new(op, dtype).param("eps", 1e-5);
    let draft = draft.given("x", &values_of(dtype, &x), &[6, 40], Placement::Plain);
    let draft = match op {
        "gated_rms_norm" => {
            let draft = draft.read("gate", &[6, 40], Placement::Plain, NORMAL);
            draft.read("weight", &[40], Placement::Plain, NORMAL)
        }
        _ => draft,
    };
    s.run(draft.write("y", &[6, 40], Placement::Plain).note("nan in a row"));
}

fn clamped(s: &mut Suite<'_>, dtype: DType) {
    let draft = |dims: &[usize], [gate, up, y]: [Placement; 3], [alpha, limit]: [f64; 2]| {
        let draft = CaseBuilder::new("swiglu_clamped", dtype).param("alpha", alpha).param("limit", limit);
        let numbers = Distribution::Normal(0.0, 5.0);
        draft.read("gate", dims, gate, numbers).read("up", dims, up, numbers).write("y", dims, y)
    };
    let (plain, usual) = ([Placement::Plain; 3], [1.702, 7.0]);
    for n in LENGTHS {
        s.run(draft(&[n], plain, usual));
    }
    for dims in [&[][..], &[3, 65], &[0], &[3, 0], &[2, 3, 129], &[2, 1, 3, 2, 2, 5]] {
        s.run(draft(dims, plain, usual));
    }
    for options in [[1.0, 2.0], [0.5, 100.0], [3.0, 0.0], [-1.0, 4.0]] {
        s.run(draft(&[3, 65], plain, options));
    }
    for how in IN {
        s.run(draft(&[3, 4, 33], [how, Placement::Plain, Placement::Plain], usual));
        s.run(draft(&[3, 4, 33], [Placement::Plain, how, Placement::Plain], usual));
    }
    for how in OUT {
        s.run(draft(&[3, 4, 33], [Placement::Plain, Placement::Plain, how], usual));
    }
    // Gate and up as the two halves of one projection.
    s.run(draft(&[3, 4, 32], [Placement::Gaps; 3], usual));
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let gate = values_of(dtype, &[nan, inf, -inf, 0.0, 1.0, -200.0, 7.0, 8.0, 1.0, 2.0]);
    let up = values_of(dtype, &[1.0, 2.0, 3.0, inf, nan, -2.0, -1.0, -100.0, 7.0, -inf]);
    let draft = CaseBuilder::new("swiglu_clamped", dtype).param("alpha", 1.702).param("limit", 7.0);
    let draft = draft.given("gate", &gate, &[10], Placement::Plain).given("up", &up, &[10], Placement::Plain);
    s.run(draft.write("y", &[10], Placement::Plain).note("infinities and nan"));
}
