//! The list of ops: those of core's registry, each with additional facts for benchmarks.
//!
//! An op without facts here counts as elementwise: operands of equal extents in the type that it runs in, one
//! operation per element.
use super::{Contract, Entry, Flops, Group, Sweep, TypedOperand};
use ops_core::ops::registry;
use ops_core::{DType, Role};
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
const LINEAR: &[TypedOperand] = &[
    TypedOperand { name: "weight", group: Group::Floats, default: None },
    TypedOperand { name: "bias", group: Group::Floats, default: None },
];
const GATE_AND_UP: &[TypedOperand] = &[
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
const BLOCK_WEIGHT: &[TypedOperand] = &[TypedOperand { name: "weight", group: Group::Blocks, default: Q8_0 }];
const EXPERTS: &[TypedOperand] = &[
    TypedOperand { name: "weight", group: Group::Floats, default: None },
    TypedOperand { name: "ids", group: Group::Indices, default: Some(DType::U32) },
    TypedOperand { name: "bias", group: Group::Floats, default: None },
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
    contract: &'static str,
    typed: &'static [TypedOperand],
    cut: &'static str,
    flops: Flops,
    sweep: Sweep,
}

fn entry(op: &'static registry::Entry) -> Entry {
    let facts = norms(op.name).or_else(|| ropes(op.name)).or_else(|| products(op.name));
    let facts = facts.or_else(|| moves(op.name)).or_else(|| reductions(op.name)).or_else(|| planes(op.name));
    let facts = facts.unwrap_or_else(|| elementwise(op));
    let Facts { contract, typed, cut, flops, sweep } = facts;
    let contract = Contract::parse(contract);
    Entry { name: op.name, op, contract, runs_in: op.runs_in, typed, cut, flops, sweep }
}

/// The defaults: timed on rows, cut at the outermost axis, all operands in the type that the op runs in.
fn facts(contract: &'static str, flops: f64) -> Facts {
    Facts { contract, typed: &[], cut: "..", flops: Flops::Each(flops), sweep: Sweep::Rows }
}

fn norms(name: &str) -> Option<Facts> {
    Some(match name {
        // A square and a sum, the scale, the weight.
        "rms_norm" => Facts { typed: WEIGHT, ..facts("x[..,n] weight[n] -> y[..,n]", 4.0) },
        // The mean; a difference, a square and a sum; then difference, scale, weight, bias.
        "layer_norm" => Facts { typed: WEIGHT, ..facts("x[..,n] weight[n] bias[n] -> y[..,n]", 8.0) },
        "add_rms_norm" => {
            let contract = "x[..,n] residual[..,n] weight[n] -> y[..,n] sum[..,n]";
            Facts { typed: WEIGHT, ..facts(contract, 5.0) }
        }
        "group_norm" => {
            let facts = facts("x[b,c,..] weight[c] bias[c] -> y[b,c,..]", 8.0);
            Facts { typed: WEIGHT, cut: "b", sweep: Sweep::Channels, ..facts }
        }
        "batch_norm" => {
            // Difference, scale, bias.
            let facts = facts("x[b,c,..] weight[c] bias[c] mean[c] var[c] -> y[b,c,..]", 3.0);
            Facts { typed: PARAMETERS, cut: "c", sweep: Sweep::Channels, ..facts }
        }
        // A square and a sum, the scale.
        "l2_norm" => facts("x[..,n] -> y[..,n]", 3.0),
        // As rms_norm, and silu of the gate.
        "gated_rms_norm" => Facts { typed: WEIGHT, ..facts("x[..,n] gate[..,n] weight[n] -> y[..,n]", 8.0) },
        // Maximum, difference, exponential, sum, quotient (or difference).
        "softmax" | "log_softmax" => facts("x[..,n] -> y[..,n]", 5.0),
        _ => return None,
    })
}

const ROTATED_KEYS: &str =
    "k[n,h,d] v[n,h,e:d] cos[t:n,d/2] sin[t,d/2] positions[n] slots[n] k_cache[c:n,h,d] v_cache[c,h,e]";
const NORMED_KEYS: &str = "k[n,h,d] v[n,h,e:d] weight[d] cos[t:n,d/2] sin[t,d/2] positions[n] slots[n] k_cache[c:n,h,d] \
                           v_cache[c,h,e]";

fn ropes(name: &str) -> Option<Facts> {
    let contract = match name {
        "rope" | "rope_i" => "x[b,h,t,d] cos[t,d/2] sin[t,d/2] positions?[b,t] -> y[b,h,t,d]",
        "rope_inplace" | "rope_i_inplace" => "x[b,h,t,d] cos[t,d/2] sin[t,d/2] positions?[b,t]",
        "rope_thd" => "x[b,t,h,d] cos[t,d/2] sin[t,d/2] positions?[b,t] -> y[b,t,h,d]",
        "rope_thd_inplace" => "x[b,t,h,d] cos[t,d/2] sin[t,d/2] positions?[b,t]",
        "cache_write" => {
            let facts = facts("x[n,h,d] slots[n] cache[c:n,h,d]", 0.0);
            return Some(Facts { typed: &[SLOTS], cut: "h", sweep: Sweep::Cached, ..facts });
        }
        "rope_cache_write" | "qk_norm_rope_cache_write" => {
            let (contract, typed) = match name {
                "rope_cache_write" => (ROTATED_KEYS, CACHES),
                _ => (NORMED_KEYS, NORMED_CACHES),
            };
            return Some(Facts { typed, cut: "h", sweep: Sweep::Cached, ..facts(contract, 3.0) });
        }
        "qk_norm_rope" => {
            // In addition to the rotation: a square and a sum, the scale, the weight.
            let contract = "x[b,t,h,d] weight[d] cos[t,d/2] sin[t,d/2] positions?[b,t] -> y[b,t,h,d]";
            return Some(Facts {
                typed: NORMED_TABLES,
                cut: "h",
                sweep: Sweep::TokensHeads,
                ..facts(contract, 7.0)
            });
        }
        _ => return None,
    };
    let sweep = if name.starts_with("rope_thd") { Sweep::TokensHeads } else { Sweep::Heads };
    // Two products and a sum.
    Some(Facts { typed: TABLES, cut: "h", sweep, ..facts(contract, 3.0) })
}

fn products(name: &str) -> Option<Facts> {
    let sums = |contract| Facts { flops: Flops::Sums, sweep: Sweep::Matrices, ..facts(contract, 0.0) };
    Some(match name {
        "matmul" => Facts { cut: "m", ..sums("a[..,m,k] b[..,k,n:k] -> c[..,m,n]") },
        "linear" => Facts { typed: LINEAR, ..sums("x[..,k] weight[n:k,k] bias?[n] -> y[..,n]") },
        "qlinear" => Facts { typed: BLOCK_WEIGHT, ..sums("x[..,k] weight[n:k,k/B] -> y[..,n]") },
        // Only the sums of one of the two products are counted.
        "linear_swiglu" => Facts { typed: GATE_AND_UP, ..sums("x[..,k] gate[n:k,k] up[n,k] -> y[..,n]") },
        "linear_experts" => Facts {
            typed: EXPERTS,
            ..experts("x[n,m,d] weight[e:8,o:d,d] ids[n,k:2] bias?[e,o] -> y[n,k,o]")
        },
        "qlinear_experts" => Facts {
            typed: BLOCK_EXPERTS,
            ..experts("x[n,m,d] weight[e:8,o:d,d/B] ids[n,k:2] bias?[e,o] -> y[n,k,o]")
        },
        "combine_experts" => {
            let facts = facts("x[n,k,d] weights[n,k] -> y[n,d]", 0.0);
            Facts { flops: Flops::EachRead(2.0), cut: "n", sweep: Sweep::Experts, ..facts }
        }
        // A softmax; comparisons are not counted.
        "router_topk" => {
            let facts = facts("logits[n,e] bias?[e] -> weights[n,k] ids[n,k]", 0.0);
            Facts { flops: Flops::EachRead(5.0), cut: "n", sweep: Sweep::Logits, ..facts }
        }
        // Comparisons, and probabilities of the few ids that are kept, are not counted.
        "sample" => {
            let facts = facts("logits[n,v] counter[n] -> ids[n]", 0.0);
            Facts { cut: "n", sweep: Sweep::Vocabulary, ..facts }
        }
        "conv1d_update" => {
            // Four products and sums, as in models.
            let facts = facts("x[b,t,c] weight[c,w:4] bias?[c] state[b,c,s:3] -> y[b,t,c]", 8.0);
            Facts { typed: WEIGHT, cut: "b", sweep: Sweep::Channels, ..facts }
        }
        "gated_delta_rule" => {
            let contract =
                "q[b,t,h,d] k[b,t,h,d] v[b,t,h,e:d] decay[b,t,h] beta[b,t,h] state[b,h,d,e] -> o[b,t,h,e]";
            // The decay, two products of vector and matrix, and the update, for heads of 128 features.
            Facts { typed: GATES, cut: "h", sweep: Sweep::TokensHeads, ..facts(contract, 7.0 * 128.0) }
        }
        "conv1d" => convolution("x[b,c,w] weight[o:c,c,k:3] bias?[o] -> y[b,o,v]"),
        "conv2d" => convolution("x[b,c,h,w] weight[o:c,c,k:3,l:3] bias?[o] -> y[b,o,u,v]"),
        "conv_transpose1d" => convolution("x[b,c,w] weight[c,o:c,k:3] bias?[o] -> y[b,o,v]"),
        "conv_transpose2d" => convolution("x[b,c,h,w] weight[c,o:c,k:3,l:3] bias?[o] -> y[b,o,u,v]"),
        "attention" => {
            let contract =
                "q[b,h,t,d] k[b,g:h,s:t,d] v[b,g,s,w:d] mask?[b,h,t,s] alibi?[h] sinks?[h] -> o[b,h,t,w]";
            // Cutting keeps the last queries, whose positions do not depend on how many come before them.
            let facts = Facts { typed: MASK, cut: "t", ..facts(contract, 0.0) };
            Facts { flops: Flops::Attention, sweep: Sweep::Attention, ..facts }
        }
        "attention_varlen" => {
            ragged("q[n,h,d] k[m:n,g:h,d] v[m,g,w:d] cu_q[e:2] cu_k[e] sinks?[h] alibi?[h] -> o[n,h,w]")
        }
        "attention_paged" => {
            let contract = "q[n,h,d] k[p:64,l:16,g:h,d] v[p,l,g,w:d] block_table[b:1,c:n] lengths[b] cu_q[e:2] \
                            sinks?[h] alibi?[h] -> o[n,h,w]";
            Facts { typed: PAGES, ..ragged(contract) }
        }
        _ => return None,
    })
}

/// Attention over sequences of equal lengths. The features of values are independent of each other.
fn ragged(contract: &'static str) -> Facts {
    Facts { cut: "w", flops: Flops::Attention, sweep: Sweep::Ragged, ..facts(contract, 0.0) }
}

fn experts(contract: &'static str) -> Facts {
    Facts { flops: Flops::Sums, cut: "n", sweep: Sweep::Experts, ..facts(contract, 0.0) }
}

fn convolution(contract: &'static str) -> Facts {
    Facts { cut: "b", flops: Flops::Convolution, sweep: Sweep::Images, ..facts(contract, 0.0) }
}

fn moves(name: &str) -> Option<Facts> {
    Some(match name {
        "index_select" => Facts { typed: IDS, cut: "n", ..facts("x[r,..] ids[n:r] -> y[n,..]", 0.0) },
        // Along the last axis, as for picking the log-probabilities of tokens.
        "gather" => Facts { typed: IDS, ..facts("x[..,r] ids[..,n:r] -> y[..,n]", 0.0) },
        "scatter" => Facts { typed: IDS, ..facts("dst[..,r] ids[..,n:r] src[..,n]", 0.0) },
        "scatter_add" => Facts { typed: IDS, ..facts("dst[..,r] ids[..,n:r] src[..,n]", 1.0) },
        "index_add" => Facts { typed: IDS, ..facts("dst[r,..] ids[n:r] src[n,..]", 1.0) },
        "quantize" => Facts { typed: TO_BLOCKS, ..facts("x[..,k] -> y[..,k/B]", 4.0) },
        "dequantize" => {
            Facts { typed: FROM_BLOCKS, sweep: Sweep::Blocks, ..facts("x[..,w] -> y[..,k]", 1.0) }
        }
        "qembedding" => {
            let facts = facts("table[r,w] ids[n:r] -> y[n,k]", 1.0);
            Facts { typed: BLOCK_TABLE, cut: "n", sweep: Sweep::Blocks, ..facts }
        }
        _ => return None,
    })
}

/// Timed over the last axis.
fn reductions(name: &str) -> Option<Facts> {
    let each_read = |contract, n| Facts { flops: Flops::EachRead(n), ..facts(contract, 0.0) };
    Some(match name {
        "sum" | "mean" | "max" | "min" | "prod" | "argmax" | "argmin" => each_read("x[..,n] -> y[..]", 1.0),
        "cumsum" => facts("x[..,n] -> y[..,n]", 1.0),
        // The number of comparisons depends on the sorting method, so none are counted.
        "sort" | "argsort" => facts("x[..,n] -> y[..,n]", 0.0),
        "topk" => facts("x[..,n] -> values[..,k] indices[..,k]", 0.0),
        _ => return None,
    })
}

/// Pools of two by two, and upsampling to twice the extents.
fn planes(name: &str) -> Option<Facts> {
    let of_planes = |contract, flops| Facts { cut: "c", sweep: Sweep::Planes, ..facts(contract, flops) };
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
    Facts { typed, ..facts(same_extents(op), flops) }
}

/// The contract of such an op. It is leaked: it is made only once and lives as long as the list.
fn same_extents(op: &registry::Entry) -> &'static str {
    let slots = op.runs_in.members().first().map_or(&[][..], |dtype| op.slots(*dtype));
    let (outputs, inputs): (Vec<_>, Vec<_>) = slots.iter().partition(|slot| slot.role == Role::Out);
    let list = |slots: &[&ops_core::OperandSlot]| {
        slots.iter().map(|slot| format!("{}[..]", slot.name)).collect::<Vec<_>>().join(" ")
    };
    let arrow = if outputs.is_empty() { "" } else { " -> " };
    format!("{}{arrow}{}", list(&inputs), list(&outputs)).leak()
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
