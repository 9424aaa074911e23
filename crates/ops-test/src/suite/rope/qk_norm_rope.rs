//! Rotary position embedding after a norm of the heads.
use super::super::data::Distribution;
use super::super::placement::{IN, OUT, Placement};
use super::super::{FLOATS, INDICES, Suite};
use super::{Case, outside};
use ops_core::DType;

pub(in super::super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("qk_norm_rope", FLOATS) {
        heads(s, dtype);
    }
}

fn heads(s: &mut Suite<'_>, dtype: DType) {
    let op = "qk_norm_rope";
    let draft = |case: Case<'_>, weight_type: DType, weight: Placement| {
        let d = case.dims[3];
        case.draft().read_as("weight", weight_type, &[d], weight, Distribution::Normal(1.0, 0.5))
    };
    let plain = |case: Case<'_>| draft(case, dtype, Placement::Plain);
    for (h, t, d) in
        [(1, 1, 2), (3, 5, 62), (2, 7, 64), (5, 3, 128), (1, 33, 66), (2, 65, 126), (5, 2, 256), (1, 2, 1030)]
    {
        s.run(plain(Case::new(op, dtype, [2, h, t, d])));
        s.run(plain(Case::new(op, dtype, [2, h, t, d])).param("order", "interleaved"));
    }
    for dims in [[0, 2, 3, 8], [2, 0, 3, 8], [2, 2, 0, 8], [2, 2, 3, 0]] {
        s.run(plain(Case::new(op, dtype, dims)));
    }
    let case = Case::new(op, dtype, [2, 3, 5, 32]);
    for order in ["half", "interleaved"] {
        for half in [0, 1, 7, 12, 16] {
            for positions in [None, Some((DType::U32, false)), Some((DType::I64, true))] {
                for batched in [false, true] {
                    let case = Case { half: Some(half), positions, batched, ..case };
                    s.run(plain(case).param("order", order));
                }
            }
        }
    }
    for eps in [0.0, 0.5] {
        s.run(plain(case).param("eps", eps));
    }
    for other in FLOATS {
        s.run(draft(case, other, Placement::Plain));
        s.run(plain(Case { table_type: other, ..case }));
        s.run(draft(Case { table_type: other, half: Some(5), ..case }, other, Placement::Strided));
    }
    for how in IN {
        s.run(plain(Case { x: how, ..case }));
        s.run(plain(Case { tables: how, batched: true, ..case }));
        s.run(draft(case, dtype, how));
    }
    for y in OUT {
        s.run(plain(Case { y, half: Some(6), ..case }).param("order", "interleaved"));
    }
    for index in INDICES {
        s.run(plain(Case { positions: Some((index, false)), at: Placement::Strided, ..case }));
        let case = Case { positions: Some((index, false)), dims: [2, 3, 4, 8], ..case };
        outside(s, case, index, &plain);
    }
}
