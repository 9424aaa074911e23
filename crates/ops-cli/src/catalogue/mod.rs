//! Every op of core: its operands, element types, arithmetic, and the problems it is timed on.
//!
//! One list, [`entries`], serves `explain`, `support` and `bench`: the ops of core's registry, and what else a benchmark must
//! know of them. [`Problem`] makes a [`Spec`] (an op, its types and shapes, all as values) a typed call of any backend.
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
pub(crate) use list::{entries, find};
pub(crate) use spec::{Spec, Types, find_op, notation, parse_dtype};
pub(crate) use sweep::{Fixed, Shapes};
pub(crate) use types::{Group, columns};

/// One op.
pub(crate) struct Entry {
    /// Its name, as in the op's contract.
    pub(crate) name: &'static str,
    /// What core knows of it.
    pub(crate) op: &'static registry::Entry,
    /// Its operands, see [`Contract`].
    pub(crate) contract: Contract,
    /// The element types it runs in.
    pub(crate) runs_in: Group,
    /// Operands whose element type may differ from that.
    pub(crate) others: &'static [Other],
    /// The axis along which results are independent, so that some of them can be checked alone.
    pub(crate) cut: &'static str,
    /// Arithmetic operations, for GFLOP/s.
    pub(crate) flops: Flops,
    /// The first operand's shapes in a benchmark.
    pub(crate) sweep: Sweep,
}

/// An operand with an element type of its own.
pub(crate) struct Other {
    /// Its name.
    pub(crate) name: &'static str,
    /// The types it may have.
    pub(crate) group: Group,
    /// The type it has unless another is asked for; `None` is that which the op runs in.
    pub(crate) default: Option<DType>,
}

/// How many arithmetic operations a problem takes: one for each addition, multiplication, comparison
/// or elementary function in the op's formula; moving and converting take none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flops {
    /// So many for each value of the output.
    Each(f64),
    /// A multiplication and an addition for each term of the sum behind each value; the terms are
    /// along the last axis of the first operand.
    Sums,
    /// Two products over the keys that each query sees.
    Attention,
}

/// The shapes that an op is timed on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sweep {
    /// Rows of 4096, as many as make up a size.
    Rows,
    /// `[1, h, t, 128]`, up to 32 heads.
    Heads,
    /// `[1, t, h, 128]`, up to 32 heads.
    TokensHeads,
    /// `[1, 64, ..]`.
    Channels,
    /// Rows of 4096 values, in blocks.
    Blocks,
    /// The matrices of a model's layers: 1, 8 and 512 rows of 4096, and 64 of 64.
    Matrices,
    /// Prefill of 512 tokens and decode of one token after 4096, heads of 128.
    Attention,
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
    /// The operand that a bare `--shape` is about.
    pub(crate) fn first(&self) -> &'static str {
        self.contract.operands().first().map_or("x", |o| o.name)
    }
    /// The operand made of blocks, if there is one.
    pub(crate) fn block_operand(&self) -> Option<&'static Other> {
        self.others.iter().find(|o| o.group == Group::Blocks)
    }
    /// The element types that `--dtype` takes: those it runs in, and block formats where an operand
    /// is made of blocks.
    pub(crate) fn dtypes(&self) -> Vec<DType> {
        let blocks = self.block_operand().map_or(&[][..], |o| o.group.members());
        self.runs_in.members().iter().chain(blocks).copied().collect()
    }
}
