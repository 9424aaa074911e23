//! The list of ops.
use super::{Contract, Entry, Flops, Group, Kind, Other, Sweep};
use ops_core::DType;
use ops_core::ops::{BinaryFn, GluFn, RopeForm, UnaryFn};
use std::sync::LazyLock;

const WEIGHT: &[Other] = &[Other { name: "weight", group: Group::Floats, default: None }];
const TABLES: &[Other] = &[Other { name: "cos", group: Group::Floats, default: None }];
const LINEAR: &[Other] = &[
    Other { name: "weight", group: Group::Floats, default: None },
    Other { name: "bias", group: Group::Floats, default: None },
];
const MASK: &[Other] = &[Other { name: "mask", group: Group::Numbers, default: None }];
const CAST: &[Other] = &[Other { name: "y", group: Group::Scalars, default: Some(DType::F32) }];
const COND: &[Other] = &[Other { name: "cond", group: Group::Indices, default: Some(DType::U8) }];
const IDS: &[Other] = &[Other { name: "ids", group: Group::Indices, default: Some(DType::U32) }];
const Q8_0: Option<DType> = Some(DType::Block(&ops_core::quant::Q8_0));
const TO_BLOCKS: &[Other] = &[Other { name: "y", group: Group::Blocks, default: Q8_0 }];
const FROM_BLOCKS: &[Other] = &[Other { name: "x", group: Group::Blocks, default: Q8_0 }];
const BLOCK_WEIGHT: &[Other] = &[Other { name: "weight", group: Group::Blocks, default: Q8_0 }];
const BLOCK_TABLE: &[Other] = &[
    Other { name: "table", group: Group::Blocks, default: Q8_0 },
    Other { name: "ids", group: Group::Indices, default: Some(DType::U32) },
];

/// All ops, by family.
pub(crate) fn entries() -> &'static [Entry] {
    static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(list);
    &ENTRIES
}

/// The op of this name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    entries().iter().find(|e| e.name == name)
}

fn list() -> Vec<Entry> {
    let mut list = Vec::new();
    norms(&mut list);
    ropes(&mut list);
    elementwise(&mut list);
    products(&mut list);
    moves(&mut list);
    list
}

/// An op on floats, timed on rows; the rest is changed where it differs.
fn entry(name: &'static str, kind: Kind, contract: &'static str, flops: f64) -> Entry {
    Entry {
        name,
        kind,
        contract: Contract::parse(contract),
        runs_in: Group::Floats,
        others: &[],
        cut: "..",
        flops: Flops::Each(flops),
        sweep: Sweep::Rows,
    }
}

fn norms(list: &mut Vec<Entry>) {
    // A square and a sum, the scale, the weight.
    let rms = "x[..,n] weight[n] -> y[..,n]";
    list.push(Entry { others: WEIGHT, ..entry("rms_norm", Kind::RmsNorm, rms, 4.0) });
    // The mean; a difference, a square and a sum; then difference, scale, weight, bias.
    let layer = "x[..,n] weight[n] bias[n] -> y[..,n]";
    list.push(Entry { others: WEIGHT, ..entry("layer_norm", Kind::LayerNorm, layer, 8.0) });
    let add = "x[..,n] residual[..,n] weight[n] -> y[..,n] sum[..,n]";
    list.push(Entry { others: WEIGHT, ..entry("add_rms_norm", Kind::AddRmsNorm, add, 5.0) });
    let group = entry("group_norm", Kind::GroupNorm, "x[b,c,..] weight[c] bias[c] -> y[b,c,..]", 8.0);
    list.push(Entry { others: WEIGHT, cut: "b", sweep: Sweep::Channels, ..group });
    // Maximum, difference, exponential, sum, quotient (or difference).
    for (name, log) in [("softmax", false), ("log_softmax", true)] {
        list.push(entry(name, Kind::Softmax { log }, "x[..,n] -> y[..,n]", 5.0));
    }
}

fn ropes(list: &mut Vec<Entry>) {
    let forms = [
        (RopeForm::Half, "rope", "rope_inplace"),
        (RopeForm::Interleaved, "rope_i", "rope_i_inplace"),
        (RopeForm::HalfThd, "rope_thd", "rope_thd_inplace"),
    ];
    for (form, name, inplace) in forms {
        let thd = form == RopeForm::HalfThd;
        let (contract, in_contract, sweep) = if thd {
            let inplace = "x[b,t,h,d] cos[t,d/2] sin[t,d/2]";
            ("x[b,t,h,d] cos[t,d/2] sin[t,d/2] -> y[b,t,h,d]", inplace, Sweep::TokensHeads)
        } else {
            let inplace = "x[b,h,t,d] cos[t,d/2] sin[t,d/2]";
            ("x[b,h,t,d] cos[t,d/2] sin[t,d/2] -> y[b,h,t,d]", inplace, Sweep::Heads)
        };
        // Two products and a sum.
        let calls = [(name, Kind::Rope(form), contract), (inplace, Kind::RopeInplace(form), in_contract)];
        for (name, kind, contract) in calls {
            list.push(Entry { others: TABLES, cut: "h", sweep, ..entry(name, kind, contract, 3.0) });
        }
    }
}

fn elementwise(list: &mut Vec<Entry>) {
    for f in UnaryFn::ALL {
        let runs_in = if f.on_integers() { Group::Numbers } else { Group::Floats };
        list.push(Entry { runs_in, ..entry(f.name(), Kind::Unary(f), "x[..] -> y[..]", of_unary(f)) });
    }
    for (name, f, flops) in [("swiglu", GluFn::Swiglu, 4.0), ("geglu", GluFn::Geglu, 10.0)] {
        list.push(entry(name, Kind::Glu(f), "gate[..] up[..] -> y[..]", flops));
    }
    for f in BinaryFn::ALL {
        let binary = entry(f.name(), Kind::Binary(f), "a[..] b[..] -> y[..]", 1.0);
        list.push(Entry { runs_in: Group::Numbers, ..binary });
    }
    let affine = entry("affine", Kind::Affine, "x[..] -> y[..]", 2.0);
    list.push(Entry { runs_in: Group::Numbers, ..affine });
    let inplace = entry("affine_inplace", Kind::AffineInplace, "x[..]", 2.0);
    list.push(Entry { runs_in: Group::Numbers, ..inplace });
}

/// Operations in the formula of a function.
fn of_unary(f: UnaryFn) -> f64 {
    match f {
        UnaryFn::Gelu => 9.0,
        UnaryFn::GeluErf => 5.0,
        UnaryFn::Silu | UnaryFn::Sigmoid => 3.0,
        _ => 1.0,
    }
}

fn products(list: &mut Vec<Entry>) {
    let sums = |e: Entry| Entry { flops: Flops::Sums, sweep: Sweep::Matrices, ..e };
    let matmul = entry("matmul", Kind::MatMul, "a[..,m,k] b[..,k,n:k] -> c[..,m,n]", 0.0);
    list.push(Entry { cut: "m", ..sums(matmul) });
    let linear = entry("linear", Kind::Linear, "x[..,k] weight[n:k,k] bias?[n] -> y[..,n]", 0.0);
    list.push(Entry { others: LINEAR, ..sums(linear) });
    let qlinear = entry("qlinear", Kind::QLinear, "x[..,k] weight[n:k,k/B] -> y[..,n]", 0.0);
    list.push(Entry { others: BLOCK_WEIGHT, ..sums(qlinear) });
    let contract = "q[b,h,t,d] k[b,g:h,s:t,d] v[b,g,s,d] mask?[b,h,t,s] alibi?[h] -> o[b,h,t,d]";
    list.push(Entry {
        others: MASK,
        // The last queries stand at the same positions however many there are before them.
        cut: "t",
        flops: Flops::Attention,
        sweep: Sweep::Attention,
        ..entry("attention", Kind::Attention, contract, 0.0)
    });
}

fn moves(list: &mut Vec<Entry>) {
    let cast = entry("cast", Kind::Cast, "x[..] -> y[..]", 0.0);
    list.push(Entry { runs_in: Group::Scalars, others: CAST, ..cast });
    let copy = entry("copy", Kind::Copy, "x[..] -> y[..]", 0.0);
    list.push(Entry { runs_in: Group::Elements, ..copy });
    list.push(Entry { runs_in: Group::Scalars, ..entry("fill", Kind::Fill, "y[..]", 0.0) });
    let choose = entry("where", Kind::Where, "cond[..] on_true[..] on_false[..] -> y[..]", 0.0);
    list.push(Entry { runs_in: Group::Elements, others: COND, ..choose });
    let select = entry("index_select", Kind::IndexSelect, "x[r,..] ids[n:r] -> y[n,..]", 0.0);
    list.push(Entry { runs_in: Group::Elements, others: IDS, cut: "n", ..select });

    let f32s = |e: Entry| Entry { runs_in: Group::F32, ..e };
    let quantize = entry("quantize", Kind::Quantize, "x[..,k] -> y[..,k/B]", 4.0);
    list.push(Entry { others: TO_BLOCKS, ..f32s(quantize) });
    let dequantize = entry("dequantize", Kind::Dequantize, "x[..,w] -> y[..,k]", 1.0);
    list.push(Entry { others: FROM_BLOCKS, sweep: Sweep::Blocks, ..f32s(dequantize) });
    let embedding = entry("qembedding", Kind::QEmbedding, "table[r,w] ids[n:r] -> y[n,k]", 1.0);
    list.push(Entry { others: BLOCK_TABLE, cut: "n", sweep: Sweep::Blocks, ..embedding });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_those_of_the_suite() {
        let mut names: Vec<_> = entries().iter().map(|e| e.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for name in ops_test::op_names() {
            assert!(find(name).is_some(), "{name} is missing");
        }
    }

    #[test]
    fn contracts_parse_whole() {
        for e in entries() {
            let words = e.contract.text().split_whitespace().filter(|w| *w != "->").count();
            assert_eq!(e.contract.operands().len(), words, "{}", e.name);
            for other in e.others {
                assert!(e.contract.operands().iter().any(|o| o.name == other.name), "{}", e.name);
            }
        }
    }
}
