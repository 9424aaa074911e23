//! Matrix products.
use super::data::{Distribution, NORMAL};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, Suite};
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in FLOATS {
        if s.wants("matmul", dtype) {
            matmul(s, dtype);
        }
        if s.wants("linear", dtype) {
            linear(s, dtype);
        }
    }
}

/// `m × k` times `k × n`.
const SIZES: [(usize, usize, usize); 14] = [
    (1, 1, 1),
    (1, 33, 65),
    (5, 7, 3),
    (31, 33, 63),
    (65, 127, 33),
    (17, 16, 17),
    (64, 64, 64),
    (127, 1, 129),
    (1, 4097, 1),
    (3, 4097, 2),
    (4097, 3, 1),
    (2, 5, 4097),
    (130, 31, 258),
    (1, 257, 1025),
];

fn product(dtype: DType, a: &[usize], b: &[usize], hows: [Placement; 3]) -> CaseBuilder {
    let draft = CaseBuilder::new("matmul", dtype).read("a", a, hows[0], NORMAL).read("b", b, hows[1], NORMAL);
    let c = [&a[..a.len() - 1], &b[b.len() - 1..]].concat();
    draft.write("c", &c, hows[2])
}

fn matmul(s: &mut Suite<'_>, dtype: DType) {
    let plain = [Placement::Plain; 3];
    for (m, k, n) in SIZES {
        s.run(product(dtype, &[m, k], &[k, n], plain));
    }
    for (m, k, n) in [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)] {
        s.run(product(dtype, &[m, k], &[k, n], plain));
        s.run(product(dtype, &[2, m, k], &[2, k, n], plain));
    }
    for batch in [&[1][..], &[3], &[0], &[2, 3], &[2, 1, 2, 2]] {
        s.run(product(dtype, &[batch, &[5, 33]].concat(), &[batch, &[33, 7]].concat(), plain));
    }
    for how in IN {
        s.run(product(dtype, &[3, 9, 33], &[3, 33, 17], [how, Placement::Plain, Placement::Plain]));
        s.run(product(dtype, &[3, 9, 33], &[3, 33, 17], [Placement::Plain, how, Placement::Plain]));
        s.run(product(dtype, &[65, 40], &[40, 31], [how, how, Placement::Plain]));
    }
    for how in OUT {
        s.run(product(dtype, &[3, 9, 33], &[3, 33, 17], [Placement::Plain, Placement::Plain, how]));
    }
    // Matrices with the two inner axes swapped in memory, as in a transposed view.
    const SWAPPED: Placement = Placement::Order(&[0, 2, 1]);
    for hows in [
        [SWAPPED, Placement::Plain, Placement::Plain],
        [Placement::Plain, SWAPPED, Placement::Plain],
        [SWAPPED; 3],
    ] {
        s.run(product(dtype, &[2, 34, 65], &[2, 65, 18], hows));
    }
    // A long sum of terms with equal signs: it stops growing in low precision.
    let positive = |name, dims: &[usize], draft: CaseBuilder| {
        draft.read(name, dims, Placement::Plain, Distribution::Positive)
    };
    let draft = positive("a", &[2, 4097], CaseBuilder::new("matmul", dtype));
    s.run(positive("b", &[4097, 3], draft).write("c", &[2, 3], Placement::Plain).note("positive"));
}

/// One case of `linear`: the extents of `x` except the last, `k`, `n`.
struct Linear<'a> {
    dtype: DType,
    rows: &'a [usize],
    k: usize,
    n: usize,
    weight_type: DType,
    bias: Option<DType>,
    hows: [Placement; 4],
}

impl Linear<'_> {
    fn draft(&self) -> CaseBuilder {
        let [x, weight, bias, y] = self.hows;
        let draft =
            CaseBuilder::new("linear", self.dtype).read("x", &[self.rows, &[self.k]].concat(), x, NORMAL);
        let draft = draft.read_as("weight", self.weight_type, &[self.n, self.k], weight, NORMAL);
        let draft = match self.bias {
            Some(dtype) => draft.read_as("bias", dtype, &[self.n], bias, Distribution::Normal(0.0, 3.0)),
            None => draft,
        };
        draft.write("y", &[self.rows, &[self.n]].concat(), y)
    }
}

fn linear(s: &mut Suite<'_>, dtype: DType) {
    let plain = [Placement::Plain; 4];
    for (m, k, n) in SIZES {
        s.run(Linear { dtype, rows: &[m], k, n, weight_type: dtype, bias: None, hows: plain }.draft());
        s.run(Linear { dtype, rows: &[m], k, n, weight_type: dtype, bias: Some(dtype), hows: plain }.draft());
    }
    for rows in [&[][..], &[3], &[2, 3], &[2, 1, 3], &[0], &[2, 0]] {
        s.run(
            Linear { dtype, rows, k: 33, n: 17, weight_type: dtype, bias: Some(dtype), hows: plain }.draft(),
        );
    }
    for (k, n) in [(0, 3), (3, 0)] {
        s.run(Linear { dtype, rows: &[2], k, n, weight_type: dtype, bias: Some(dtype), hows: plain }.draft());
    }
    for weight_type in FLOATS {
        for bias in [None, Some(dtype), Some(DType::F32)] {
            s.run(Linear { dtype, rows: &[2, 3], k: 65, n: 33, weight_type, bias, hows: plain }.draft());
        }
        // One row, more rows than kernels for few rows support, and enough for large tiles.
        for (rows, n) in [(1, 33), (33, 65), (2049, 3)] {
            s.run(Linear { dtype, rows: &[rows], k: 37, n, weight_type, bias: None, hows: plain }.draft());
        }
    }
    for operand in 0..4 {
        for how in if operand == 3 { &OUT[..] } else { &IN[..] } {
            let mut hows = plain;
            hows[operand] = *how;
            let bias = Some(dtype);
            s.run(Linear { dtype, rows: &[2, 4], k: 33, n: 18, weight_type: dtype, bias, hows }.draft());
        }
    }
}
