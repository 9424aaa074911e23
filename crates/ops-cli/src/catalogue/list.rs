//! The list of ops: those of core's registry, each with additional facts for benchmarks.
//!
//! An op without facts here counts as elementwise: operands of equal extents in the type that it runs in, one
//! operation per element.
use super::{Contract, Entry, Flops, Group, Sweep, TypedOperand};
use ops_core::ops::registry;
use ops_core::{DType, OperandSlot, Role};
use std::sync::LazyLock;

const WEIGHT: &[TypedOperand] = &[TypedOperand { name: "weight", group: Group::Floats, default: None }];
const PARAMETERS: &[TypedOperand] = &[
    TypedOperand { name: "weight", group: Group::Floats, default: None },
    TypedOperand { name: "mean", group: Group::Floats, default: None },
    TypedOperand { name: "var", group: Group::Floats, default: None },
];
const POSITIONS: TypedOperand =
    TypedOperand { name: "positions", group: Group::Indices, default: Some(DType::U32) };
const COS: TypedOperand = TypedOperand { name: "cos", group: Group::Floats, default: None };
const TABLES: &[TypedOperand] = &[COS, POSITIONS];
const NORMED_TABLES: &[TypedOperand] =
    &[TypedOperand { name: "weight", group: Group::Floats, default: None }, COS, POSITIONS];
const SLOTS: TypedOperand = TypedOperand { name: "slots", group: Group::Indices, default: Some(DType::U32) };
const CACHES: &[TypedOperand] = &[COS, POSITIONS, SLOTS];
const NORMED_CACHES: &[TypedOperand] =
    &[TypedOperand { name: "weight", group: Group::Floats, default: None }, COS, POSITIONS, SLOTS];
const NORMED_QUERIES: &[TypedOperand] = &[
    TypedOperand { name: "q_norm", group: Group::Floats, default: None },
    TypedOperand { name: "k_norm", group: Group::Floats, default: None },
    COS,
    POSITIONS,
    SLOTS,
];
const NORMED_PRODUCT: &[TypedOperand] = &[
    TypedOperand { name: "norm", group: Group::Floats, default: Some(DType::F32) },
    TypedOperand { name: "weight", group: Group::Floats, default: None },
    TypedOperand { name: "bias", group: Group::Floats, default: None },
    COS,
    POSITIONS,
    SLOTS,
];
const LINEAR: &[TypedOperand] = &[
    TypedOperand { name: "weight", group: Group::Floats, default: None },
    TypedOperand { name: "bias", group: Group::Floats, default: None },
];
const GATE_AND_UP: &[TypedOperand] = &[
    TypedOperand { name: "gate", group: Group::Floats, default: None },
    TypedOperand { name: "up", group: Group::Floats, default: None },
];
const NORMED_LINEAR: &[TypedOperand] = &[
    TypedOperand { name: "norm", group: Group::Floats, default: Some(DType::F32) },
    TypedOperand { name: "weight", group: Group::Floats, default: None },
    TypedOperand { name: "bias", group: Group::Floats, default: None },
];
const NORMED_GATE_AND_UP: &[TypedOperand] = &[
    TypedOperand { name: "norm", group: Group::Floats, default: Some(DType::F32) },
    TypedOperand { name: "gate", group: Group::Floats, default: None },
    TypedOperand { name: "up", group: Group::Floats, default: None },
];
const MASK: &[TypedOperand] = &[TypedOperand { name: "mask", group: Group::Numbers, default: None }];
const PAGES: &[TypedOperand] =
    &[TypedOperand { name: "block_table", group: Group::Indices, default: Some(DType::U32) }];
const CAST: &[TypedOperand] = &[TypedOperand { name: "y", group: Group::Scalars, default: Some(DType::F32) }];
const COND: &[TypedOperand] =
    &[TypedOperand { name: "cond", group: Group::Indices, default: Some(DType::U8) }];
const fn single(name: &'static str) -> TypedOperand {
    TypedOperand { name, group: Group::Single, default: Some(DType::F32) }
}
const GATES: &[TypedOperand] = &[single("decay"), single("beta"), single("state")];
const IDS: &[TypedOperand] =
    &[TypedOperand { name: "ids", group: Group::Indices, default: Some(DType::U32) }];
const Q8_0: Option<DType> = Some(DType::Block(&ops_core::quant::Q8_0));
const TO_BLOCKS: &[TypedOperand] = &[TypedOperand { name: "y", group: Group::Blocks, default: Q8_0 }];
const FROM_BLOCKS: &[TypedOperand] = &[TypedOperand { name: "x", group: Group::Blocks, default: Q8_0 }];
const BLOCK_WEIGHT: &[TypedOperand] = &[
    TypedOperand { name: "weight", group: Group::Blocks, default: Q8_0 },
    TypedOperand { name: "bias", group: Group::Floats, default: None },
];
const EXPERTS: &[TypedOperand] = &[
    TypedOperand { name: "weight", group: Group::Floats, default: None },
    TypedOperand { name: "ids", group: Group::Indices, default: Some(DType::U32) },
    TypedOperand { name: "bias", group: Group::Floats, default: None },
];
const GATED_EXPERTS: &[TypedOperand] = &[
    TypedOperand { name: "gate", group: Group::Floats, default: None },
    TypedOperand { name: "up", group: Group::Floats, default: None },
    TypedOperand { name: "ids", group: Group::Indices, default: Some(DType::U32) },
];
const BLOCK_EXPERTS: &[TypedOperand] = &[
    TypedOperand { name: "weight", group: Group::Blocks, default: Q8_0 },
    TypedOperand { name: "ids", group: Group::Indices, default: Some(DType::U32) },
    TypedOperand { name: "bias", group: Group::Floats, default: None },
];
const BLOCK_TABLE: &[TypedOperand] = &[
    TypedOperand { name: "table", group: Group::Blocks, default: Q8_0 },
    TypedOperand { name: "ids", group: Group::Indices, default: Some(DType::U32) },
];

/// All ops, by family.
pub(crate) fn entries() -> &'static [Entry] {
    static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| registry::entries().iter().map(entry).collect());
    &ENTRIES
}

/// The op of this name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    entries().iter().find(|e| e.name == name)
}

/// The entry for a call of `op` on these operands. Files use one name for lookups in float tables and in
/// tensors; lookups in block tables have another.
pub(crate) fn find_call<'o>(op: &str, mut operands: impl Iterator<Item = &'o str>) -> Option<&'static Entry> {
    let table = op == "index_select" && operands.any(|operand| operand == "table");
    find(if table { "qembedding" } else { op })
}

/// Facts about an op that core's registry does not have.
struct Facts {
    /// The operands in the notation of [`Contract`]; empty if they are those that core declares.
    contract: &'static str,
    /// Extents that a shape need not give, and what they are then.
    defaults: &'static [(&'static str, &'static str)],
    /// Optional operands that are part of the problem.
    given: &'static [&'static str],
    typed: &'static [TypedOperand],
    cut: &'static str,
    flops: Flops,
    sweep: Sweep,
}

fn entry(op: &'static registry::Entry) -> Entry {
    let facts = norms(op.name).or_else(|| ropes(op.name)).or_else(|| products(op.name));
    let facts = facts.or_else(|| moves(op.name)).or_else(|| reductions(op.name)).or_else(|| planes(op.name));
    let facts = facts.unwrap_or_else(|| elementwise(op));
    let contract =
        Contract::parse(if facts.contract.is_empty() { declared(op, &facts) } else { facts.contract });
    let Facts { typed, cut, flops, sweep, .. } = facts;
    Entry { name: op.name, op, contract, runs_in: op.runs_in, typed, cut, flops, sweep }
}

/// The defaults: timed on rows, cut at the outermost axis, all operands in the type that the op runs in.
fn facts(flops: f64) -> Facts {
    let flops = Flops::Each(flops);
    Facts { contract: "", defaults: &[], given: &[], typed: &[], cut: "..", flops, sweep: Sweep::Rows }
}

fn norms(name: &str) -> Option<Facts> {
    const BOTH: &[&str] = &["weight", "bias"];
    Some(match name {
        // A square and a sum, the scale, the weight.
        "rms_norm" => Facts { typed: WEIGHT, ..facts(4.0) },
        // The mean; a difference, a square and a sum; then difference, scale, weight, bias.
        "layer_norm" => Facts { typed: WEIGHT, given: BOTH, ..facts(8.0) },
        "add_rms_norm" => Facts { typed: WEIGHT, ..facts(5.0) },
        "group_norm" => Facts { typed: WEIGHT, given: BOTH, cut: "b", sweep: Sweep::Channels, ..facts(8.0) },
        // Difference, scale, bias.
        "batch_norm" => {
            Facts { typed: PARAMETERS, given: BOTH, cut: "c", sweep: Sweep::Channels, ..facts(3.0) }
        }
        // A square and a sum, the scale.
        "l2_norm" => facts(3.0),
        // As rms_norm, and silu of the gate.
        "gated_rms_norm" => Facts { typed: WEIGHT, ..facts(8.0) },
        // Maximum, difference, exponential, sum, quotient (or difference).
        "softmax" | "log_softmax" => facts(5.0),
        _ => return None,
    })
}

fn ropes(name: &str) -> Option<Facts> {
    const CACHE: &[(&str, &str)] = &[("t", "n"), ("c", "n"), ("e", "d")];
    let cached =
        |typed, flops| Some(Facts { typed, defaults: CACHE, cut: "h", sweep: Sweep::Cached, ..facts(flops) });
    let contract = match name {
        "rope" | "rope_i" => "x[b,h,t,d] cos[t,d/2] sin[t,d/2] positions?[b,t] -> y[b,h,t,d]",
        "rope_inplace" | "rope_i_inplace" => "x[b,h,t,d] cos[t,d/2] sin[t,d/2] positions?[b,t]",
        "rope_thd" => "x[b,t,h,d] cos[t,d/2] sin[t,d/2] positions?[b,t] -> y[b,t,h,d]",
        "rope_thd_inplace" => "x[b,t,h,d] cos[t,d/2] sin[t,d/2] positions?[b,t]",
        "cache_write" => return cached(&[SLOTS], 0.0),
        "rope_cache_write" => return cached(CACHES, 3.0),
        "qk_norm_rope_cache_write" => return cached(NORMED_CACHES, 3.0),
        "rope_qk_cache_write" => {
            let caches = cached(NORMED_QUERIES, 3.0)?;
            return Some(Facts {
                defaults: &[("h", "g"), ("t", "n"), ("c", "n"), ("e", "d")],
                cut: "",
                ..caches
            });
        }
        // The sums of the product. Without shapes: two heads of queries and one of keys, with 64 features.
        "rms_norm_linear_rope_cache_write" => {
            let contract = "x[n,m] norm[m] weight[o:256,m] bias?[o] cos[t:n,r:32] sin[t,r] positions[n] slots[n] k_cache[c:n,h:1,d:64] v_cache[c,h,e:d] -> y[n,g:2,d]";
            return Some(Facts {
                contract,
                typed: NORMED_PRODUCT,
                cut: "",
                flops: Flops::Sums,
                ..facts(0.0)
            });
        }
        // In addition to the rotation: a square and a sum, the scale, the weight.
        "qk_norm_rope" => {
            return Some(Facts { typed: NORMED_TABLES, cut: "h", sweep: Sweep::TokensHeads, ..facts(7.0) });
        }
        _ => return None,
    };
    let sweep = if name.starts_with("rope_thd") { Sweep::TokensHeads } else { Sweep::Heads };
    // Two products and a sum.
    Some(Facts { contract, typed: TABLES, cut: "h", sweep, ..facts(3.0) })
}

fn products(name: &str) -> Option<Facts> {
    const SQUARE: &[(&str, &str)] = &[("n", "k")];
    let sums = || Facts { defaults: SQUARE, flops: Flops::Sums, sweep: Sweep::Matrices, ..facts(0.0) };
    let experts = || Facts {
        defaults: &[("e", "8"), ("o", "d"), ("k", "2")],
        flops: Flops::Sums,
        cut: "n",
        sweep: Sweep::Experts,
        ..facts(0.0)
    };
    // Sequences of equal lengths. The features of values are independent of each other.
    let ragged = || Facts { cut: "dv", flops: Flops::Attention, sweep: Sweep::Ragged, ..facts(0.0) };
    let convolution = |contract| Facts {
        contract,
        cut: "b",
        flops: Flops::Convolution,
        sweep: Sweep::Images,
        ..facts(0.0)
    };
    Some(match name {
        "matmul" => Facts { cut: "m", ..sums() },
        "linear" => Facts { typed: LINEAR, ..sums() },
        "qlinear" => Facts { typed: BLOCK_WEIGHT, ..sums() },
        // Only the sums of one of the two products are counted.
        "linear_swiglu" => Facts { typed: GATE_AND_UP, ..sums() },
        "linear_add" => Facts { typed: WEIGHT, ..sums() },
        "rms_norm_linear" => Facts { typed: NORMED_LINEAR, ..sums() },
        "rms_norm_linear_swiglu" => Facts { typed: NORMED_GATE_AND_UP, ..sums() },
        "linear_experts" => Facts { typed: EXPERTS, ..experts() },
        "qlinear_experts" => Facts { typed: BLOCK_EXPERTS, ..experts() },
        // Only the sums of one of the two products are counted.
        "linear_experts_swiglu" => Facts { typed: GATED_EXPERTS, ..experts() },
        "linear_experts_combine" => Facts { typed: EXPERTS, ..experts() },
        "combine_experts" => {
            Facts { flops: Flops::EachRead(2.0), cut: "n", sweep: Sweep::Experts, ..facts(0.0) }
        }
        // A softmax; comparisons are not counted.
        "router_topk" => Facts { flops: Flops::EachRead(5.0), cut: "n", sweep: Sweep::Logits, ..facts(0.0) },
        // Comparisons, and probabilities of the few ids that are kept, are not counted.
        "sample" => Facts { cut: "n", sweep: Sweep::Vocabulary, ..facts(0.0) },
        // A number depends on its place in the whole, so there is no part to check.
        "random_uniform" | "random_normal" => Facts { cut: "", ..facts(0.0) },
        "arange" => Facts { cut: "", ..facts(2.0) },
        "conv1d_update" => {
            // Four products and sums, as in models.
            let defaults = &[("w", "4"), ("s", "3")];
            Facts { defaults, typed: WEIGHT, cut: "b", sweep: Sweep::Channels, ..facts(8.0) }
        }
        "gated_delta_rule" => {
            // The decay, two products of vector and matrix, and the update, for heads of 128 features.
            let facts = facts(7.0 * 128.0);
            Facts { defaults: &[("dv", "d")], typed: GATES, cut: "h", sweep: Sweep::TokensHeads, ..facts }
        }
        "conv1d" => convolution("x[b,c,w] weight[o:c,c,k:3] bias?[o] -> y[b,o,v]"),
        "conv2d" => convolution("x[b,c,h,w] weight[o:c,c,k:3,l:3] bias?[o] -> y[b,o,u,v]"),
        "conv_transpose1d" => convolution("x[b,c,w] weight[c,o:c,k:3] bias?[o] -> y[b,o,v]"),
        "conv_transpose2d" => convolution("x[b,c,h,w] weight[c,o:c,k:3,l:3] bias?[o] -> y[b,o,u,v]"),
        "attention" => {
            // Cutting keeps the last queries, whose positions do not depend on how many come before them.
            let defaults = &[("g", "h"), ("s", "t"), ("dv", "d")];
            let facts = Facts { defaults, typed: MASK, cut: "t", ..facts(0.0) };
            Facts { flops: Flops::Attention, sweep: Sweep::Attention, ..facts }
        }
        "attention_varlen" => {
            Facts { defaults: &[("m", "n"), ("g", "h"), ("dv", "d"), ("e", "2")], ..ragged() }
        }
        "attention_paged" => {
            let keys =
                &[("p", "64"), ("l", "16"), ("g", "h"), ("dv", "d"), ("b", "1"), ("c", "n"), ("e", "2")];
            Facts { defaults: keys, typed: PAGES, ..ragged() }
        }
        _ => return None,
    })
}

fn moves(name: &str) -> Option<Facts> {
    let of_ids = |contract, flops| Facts { contract, typed: IDS, ..facts(flops) };
    Some(match name {
        "index_select" => Facts { cut: "n", ..of_ids("x[r,..] ids[n:r] -> y[n,..]", 0.0) },
        // Along the last axis, as for picking the log-probabilities of tokens.
        "gather" => of_ids("x[..,r] ids[..,n:r] -> y[..,n]", 0.0),
        "scatter" => of_ids("dst[..,r] ids[..,n:r] src[..,n]", 0.0),
        "scatter_add" => of_ids("dst[..,r] ids[..,n:r] src[..,n]", 1.0),
        "index_add" => of_ids("dst[r,..] ids[n:r] src[n,..]", 1.0),
        "quantize" => Facts { typed: TO_BLOCKS, ..facts(4.0) },
        "dequantize" => Facts { typed: FROM_BLOCKS, sweep: Sweep::Blocks, ..facts(1.0) },
        "qembedding" => {
            let facts = Facts { defaults: &[("n", "r")], typed: BLOCK_TABLE, ..facts(1.0) };
            Facts { cut: "n", sweep: Sweep::Blocks, ..facts }
        }
        _ => return None,
    })
}

/// Timed over the last axis.
fn reductions(name: &str) -> Option<Facts> {
    Some(match name {
        "sum" | "mean" | "max" | "min" | "prod" | "argmax" | "argmin" => {
            Facts { contract: "x[..,n] -> y[..]", flops: Flops::EachRead(1.0), ..facts(0.0) }
        }
        "cumsum" | "cumprod" => facts(1.0),
        // The number of comparisons depends on the sorting method, so none are counted.
        "sort" | "argsort" | "topk" => facts(0.0),
        _ => return None,
    })
}

/// Pools of two by two, and upsampling to twice the extents.
fn planes(name: &str) -> Option<Facts> {
    let of_planes = |contract, flops| Facts { contract, cut: "c", sweep: Sweep::Planes, ..facts(flops) };
    Some(match name {
        "max_pool2d" | "avg_pool2d" => of_planes("x[b,c,h,w] -> y[b,c,h/2,w/2]", 4.0),
        "upsample_nearest1d" => Facts { sweep: Sweep::Channels, ..of_planes("x[b,c,w] -> y[b,c,v]", 0.0) },
        "upsample_nearest2d" => of_planes("x[b,c,h,w] -> y[b,c,u,v]", 0.0),
        // Three linear interpolations.
        "upsample_bilinear2d" => of_planes("x[b,c,h,w] -> y[b,c,u,v]", 9.0),
        _ => return None,
    })
}

/// The facts of an op whose operands all have the same extents.
fn elementwise(op: &registry::Entry) -> Facts {
    // Operations in the formula.
    let flops = match op.name {
        "copy" | "fill" | "where" | "cast" => 0.0,
        "affine" | "affine_inplace" | "clamp" => 2.0,
        "elu" => 3.0,
        "silu" | "sigmoid" => 3.0,
        "swiglu" => 4.0,
        "swiglu_clamped" => 8.0,
        "gelu_erf" => 5.0,
        "gelu" => 9.0,
        "geglu" => 10.0,
        _ => 1.0,
    };
    let typed = match op.name {
        "cast" => CAST,
        "where" => COND,
        _ => &[],
    };
    Facts { typed, ..facts(flops) }
}

/// The operands as core declares them, with extents `..` where it declares none. The text is leaked: it is made only
/// once and lives as long as the list.
fn declared(op: &registry::Entry, facts: &Facts) -> &'static str {
    let slots = op.runs_in.members().first().map_or(&[][..], |dtype| op.slots(*dtype));
    let mut defaults = facts.defaults.to_vec();
    let mut operand = |slot: &OperandSlot| {
        let words: Vec<&str> = slot.extents.unwrap_or("..").split(',').map(str::trim).collect();
        let last = words.len() - 1;
        let extents = words.iter().enumerate().map(|(at, word)| {
            let default =
                defaults.iter().position(|(symbol, _)| symbol == word).map(|at| defaults.remove(at).1);
            let blocks = if op.blocks == Some(slot.name) && at == last { "/B" } else { "" };
            format!("{word}{blocks}{}", default.map(|default| format!(":{default}")).unwrap_or_default())
        });
        let asked = if slot.optional && !facts.given.contains(&slot.name) { "?" } else { "" };
        format!("{}{asked}[{}]", slot.name, extents.collect::<Vec<_>>().join(","))
    };
    let inputs: Vec<_> = slots.iter().filter(|slot| slot.role != Role::Out).map(&mut operand).collect();
    let outputs = slots.iter().filter(|slot| slot.role == Role::Out && !slot.optional).map(&mut operand);
    let outputs: Vec<_> = outputs.collect();
    let arrow = if outputs.is_empty() { "" } else { " -> " };
    format!("{}{arrow}{}", inputs.join(" "), outputs.join(" ")).leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_parse_whole() {
        for e in entries() {
            let words = e.contract.text().split_whitespace().filter(|w| *w != "->").count();
            assert_eq!(e.contract.operands().len(), words, "{}", e.name);
            for other in e.typed {
                assert!(e.contract.operands().iter().any(|o| o.name == other.name), "{}", e.name);
            }
        }
    }

    #[test]
    fn contracts_are_those_of_the_ops() {
        for e in entries() {
            let slots = e.op.slots(e.runs_in.members()[0]);
            let mut given = slots.iter();
            for operand in e.contract.operands() {
                // Slots keep their order; those that the contract leaves out are optional.
                let slot = given.find(|slot| slot.name == operand.name || !slot.optional);
                let slot = slot.unwrap_or_else(|| panic!("{}: {} is not an operand", e.name, operand.name));
                assert_eq!(slot.name, operand.name, "{}", e.name);
                assert_eq!(slot.role == Role::Out, operand.output, "{}: {}", e.name, slot.name);
                assert!(slot.optional || !operand.optional, "{}: {}", e.name, slot.name);
            }
            assert!(given.all(|slot| slot.optional), "{}", e.name);
            assert_eq!(e.block_operand().map(|other| other.name), e.op.blocks, "{}", e.name);
        }
        let contract = |name| find(name).map(|e| e.contract.text());
        assert_eq!(contract("where"), Some("cond[..] on_true[..] on_false[..] -> y[..]"));
        assert_eq!(contract("exp"), Some("x[..] -> y[..]"));
        assert_eq!((contract("affine_inplace"), contract("fill")), (Some("x[..]"), Some("y[..]")));
    }
}
