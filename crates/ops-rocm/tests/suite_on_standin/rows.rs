//! Rows have the same bits whatever other rows are in the call, if the level *batch* is requested.
use super::WAVES_OF_64;
use ops_core::ops::{Attention, AttentionExtras, AttentionMethods, Paging, RaggedAttentionMethods, Starts};
use ops_core::{Backend, DType, Determinism, Float, f16};
use ops_cpu::Reference;
use ops_rocm::Rocm;
use ops_test::suite::{CaseStatus, Filter, run_rows};
use standin_testing::with_standin;
use std::ops::Range;

/// Maximum size of an operand of a case, in elements.
const MOST: usize = 1 << 11;

/// Runs every op in these types, or the one in `OPS_TEST_OP`, with one in three of its cases, because each is
/// run many times.
fn rows(types: &[DType]) {
    let rocm = Rocm::builder().determinism(Determinism::Batch).build().unwrap();
    for dtype in types {
        let filter = Filter { dtype: Some(*dtype), one_case_in: Some(3), ..Filter::all() }.with_variables();
        let rows = run_rows(&rocm, &Reference::new(), &filter, MOST, &mut |_| {});
        println!("{dtype}: {:?}", rows.compared);
        let failures: Vec<String> = rows
            .report
            .failures()
            .map(|o| format!("{}: {}", o.case, if let CaseStatus::Fail(why) = &o.status { why } else { "" }))
            .collect();
        let shown = failures.len().min(60);
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..shown].join("\n"));
        if filter.op.is_none() {
            for op in ["linear", "qlinear", "matmul", "attention", "linear_experts", "rms_norm", "softmax"] {
                assert!(rows.compared.contains_key(op), "no rows of {op} were compared");
            }
        }
    }
    assert!(rocm.decisions().iter().any(|decision| decision.calls > 0));
}

#[test]
fn rows_on_waves_of_32() {
    with_standin("rows::rows_on_waves_of_32", &[], |_| rows(&[DType::F16, DType::F32]));
}

#[test]
fn rows_on_waves_of_64() {
    with_standin("rows::rows_on_waves_of_64", WAVES_OF_64, |_| rows(&[DType::BF16]));
}

/// Queries computed apart from the rest of their text have the same bits as together with it, if each sees only 77 keys to its left, in
/// all forms of attention. The head sizes cover every kernel.
fn in_a_window<T: Float>(rocm: &Rocm, d: usize) -> ops_core::Result<()> {
    const TOKENS: usize = 224;
    let noise = |heads: usize, seed: f64| {
        let of = |i: usize| T::from_f64((i as f64 * 0.37 + seed + (i * i % 97) as f64).sin());
        rocm.tensor(&[TOKENS, heads, d], &Vec::from_iter((0..TOKENS * heads * d).map(of)))
    };
    let (q, k, v) = (noise(2, 0.0)?, noise(1, 1.0)?, noise(1, 2.0)?);
    let op = Attention::<T>::causal().window(Some(77), None);
    let block_table = rocm.tensor(&[1, 14], &Vec::from_iter(0..14u32))?;
    let (blocks_k, blocks_v) = (k.as_ref().reshape(&[14, 16, 1, d])?, v.as_ref().reshape(&[14, 16, 1, d])?);
    let of = |cut: Range<usize>| -> ops_core::Result<[Vec<u8>; 3]> {
        let (q, end) = (q.as_ref().narrow(0, cut.start, cut.len())?, cut.end);
        let starts = |n: usize| rocm.tensor(&[2], &[0, n as u32]);
        let (cu_q, cu_k, lengths) = (starts(cut.len())?, starts(end)?, rocm.tensor(&[1], &[end as u32])?);
        let pages = Paging { block_table: &block_table, lengths: &lengths, cu_q: &cu_q };
        let paged =
            rocm.attention_paged(q, blocks_k, blocks_v, pages, AttentionExtras::new(), op)?.to_vec(rocm)?;
        let (k, v) = (k.as_ref().narrow(0, 0, end)?, v.as_ref().narrow(0, 0, end)?);
        let starts = Starts { queries: &cu_q, keys: &cu_k };
        let varlen = rocm.attention_varlen(q, k, v, starts, AttentionExtras::new(), op)?.to_vec(rocm)?;
        let [q, k, v] = [q, k, v].map(|x| x.permute(&[1, 0, 2]).and_then(|x| x.unsqueeze(0)));
        let plain = rocm.attention(q?, k?, v?, op)?.as_ref().squeeze(0)?.permute(&[1, 0, 2])?.to_vec(rocm)?;
        Ok([paged, varlen, plain].map(|o| bytemuck::cast_slice::<T, u8>(&o).to_vec()))
    };
    let (whole, row) = (of(0..TOKENS)?, 2 * d * size_of::<T>());
    for cut in [0..1, 0..37, 91..92, 100..103, 13..217, 219..224] {
        let parts = of(cut.clone())?;
        for (form, (whole, part)) in ["paged", "varlen", "plain"].iter().zip(whole.iter().zip(parts)) {
            let same = whole[row * cut.start..row * cut.end] == part;
            assert!(same, "{form} in {}, heads of {d}: queries {cut:?} have other bits alone", T::DTYPE);
        }
    }
    Ok(())
}

/// The suite does not cut the queries of a call with a window, because a query's position depends on their number. These calls also cut
/// the keys, so positions stay.
fn windows() {
    let rocm = Rocm::builder().determinism(Determinism::Batch).build().unwrap();
    for d in [64, 120, 256] {
        in_a_window::<f16>(&rocm, d).unwrap();
    }
    for d in [64, 264] {
        in_a_window::<f32>(&rocm, d).unwrap();
    }
}

#[test]
fn queries_of_a_window_on_waves_of_32() {
    with_standin("rows::queries_of_a_window_on_waves_of_32", &[], |_| windows());
}

#[test]
fn queries_of_a_window_on_waves_of_64() {
    with_standin("rows::queries_of_a_window_on_waves_of_64", WAVES_OF_64, |_| windows());
}
