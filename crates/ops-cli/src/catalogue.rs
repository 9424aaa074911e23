//! Every op of core: its operands, element types, arithmetic, and the problems it is timed on.
//!
//! One list, [`entries`], serves `explain`, `support` and `bench`: the ops of core's registry with additional
//! facts for benchmarks. A [`Spec`] is an op with types and shapes, all as values. Nothing here depends on a
//! backend.
use ops_core::ops::registry;
use ops_core::{DType, Role};

mod contract;
mod cost;
mod list;
mod spec;
mod sweep;
mod types;

pub(crate) use contract::Contract;
pub(crate) use cost::Cost;
pub(crate) use list::{entries, find, find_call};
pub(crate) use spec::{Spec, Types, find_op, notation, parse_dtype};
pub(crate) use sweep::{Fixed, Shapes};
pub(crate) use types::{Group, columns};

/// One op.
pub(crate) struct Entry {
    /// Its name, as in the op's contract.
    pub(crate) name: &'static str,
    /// Its entry in core's registry.
    pub(crate) op: &'static registry::Entry,
    /// Its operands, see [`Contract`].
    pub(crate) contract: Contract,
    /// The element types it runs in.
    pub(crate) runs_in: Group,
    /// Operands whose element type may differ from that.
    pub(crate) typed: &'static [TypedOperand],
    /// The axis along which results are independent, so that checking a part of them is possible; empty if there is none.
    pub(crate) cut: &'static str,
    /// How to count arithmetic operations, for GFLOP/s.
    pub(crate) flops: Flops,
    /// How to choose the first operand's shapes in a benchmark.
    pub(crate) sweep: Sweep,
}

/// An operand with its own element type.
pub(crate) struct TypedOperand {
    /// Its name.
    pub(crate) name: &'static str,
    /// The element types it may have.
    pub(crate) group: Group,
    /// The default type; `None` stands for the type that the op runs in.
    pub(crate) default: Option<DType>,
}

/// How many arithmetic operations a problem takes. Each addition, multiplication, comparison or elementary function in the
/// op's formula counts as one; moves and conversions count as none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flops {
    /// This many for each value of the output.
    Each(f64),
    /// This many for each value of the first operand.
    EachRead(f64),
    /// Each value is a sum of products over the last axis of the first operand: two operations per term.
    Sums,
    /// Each value is a sum of products with the second operand's values for one output channel: two
    /// operations per term.
    Convolution,
    /// For each query and each key that it sees: two operations per element of the score and of the sum of
    /// values.
    Attention,
}

/// The shapes that an op is timed on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sweep {
    /// `[rows, 4096]`.
    Rows,
    /// `[1, h, t, 128]`, up to 32 heads.
    Heads,
    /// `[1, t, h, 128]`, up to 32 heads.
    TokensHeads,
    /// `[n, 8, 128]`: the keys of tokens.
    Cached,
    /// `[1, 64, ..]`.
    Channels,
    /// `[1, c, h, h]` with about 64 channels.
    Planes,
    /// `[rows, 4096]` counted in values, stored in blocks.
    Blocks,
    /// Products as in a model's layers: 1, 8 and 512 rows of 4096; and 64 rows of 64.
    Matrices,
    /// Products as in a model's layers: 1, 32 and 1024 tokens, 64 experts with eight per token, 2048 features
    /// to 768. By size: one row of 2048 values per token, or eight, and 8 experts with two per token.
    Experts,
    /// `[n, 128]`: the logits of 128 experts.
    Logits,
    /// `[n, 131072]`: the logits of a model's vocabulary.
    Vocabulary,
    /// `[1, 64, h, w]` with kernels of 3 by 3, `[1, 64, w]` with kernels of 3.
    Images,
    /// Prefill of 512 tokens and decode of one token after 4096, heads of 128.
    Attention,
    /// The same, for one sequence; in blocks of 16 keys if there are blocks.
    Ragged,
}

/// One tensor of a problem.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<usize>,
}

impl Entry {
    /// The operand that a `--shape` without a name refers to.
    pub(crate) fn first(&self) -> &'static str {
        self.contract.operands().first().map_or("x", |o| o.name)
    }
    /// The operand that consists of blocks, if there is one.
    pub(crate) fn block_operand(&self) -> Option<&'static TypedOperand> {
        self.typed.iter().find(|o| o.group == Group::Blocks)
    }
    /// The element types that `--dtype` accepts: those the op runs in and, if an operand consists of blocks,
    /// the block formats. Read-only formats are left out if the op writes the operand.
    pub(crate) fn dtypes(&self) -> Vec<DType> {
        let slots = self.runs_in.members().first().map_or(&[][..], |dtype| self.op.slots(*dtype));
        let written = |name| slots.iter().any(|slot| slot.name == name && slot.role != Role::In);
        let encodes = |dtype: DType| matches!(dtype, DType::Block(info) if info.encodes());
        let blocks = self.block_operand().into_iter().flat_map(|o| {
            o.group.members().iter().copied().filter(move |dtype| !written(o.name) || encodes(*dtype))
        });
        self.runs_in.members().iter().copied().chain(blocks).collect()
    }
}
