//! The operands of a problem before they have memory: element types, layouts and values.
use super::synthetic::{Fill, Recipe};
use crate::catalogue::Entry;
use ops_core::{AnyTensor, Backend, DType, Layout, NamedTensors, OperandSlot, Result, Role};
use ops_test::erased::Outline;

/// The layout and the values of each operand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan(Vec<Planned>);

#[derive(Clone, Debug)]
struct Planned {
    name: &'static str,
    dtype: DType,
    layout: Layout,
    recipe: Recipe,
}

impl Plan {
    /// Adds an operand, replacing one of the same name.
    pub(super) fn set(&mut self, name: &'static str, dtype: DType, layout: Layout, fill: Fill) {
        self.0.retain(|planned| planned.name != name);
        self.0.push(Planned { name, dtype, layout, recipe: Recipe::new(name, fill) });
    }
    /// The same values under the layouts derived by `narrow`.
    pub(super) fn narrowed(&self, narrow: impl Fn(&str, &Layout) -> Result<Layout>) -> Result<Self> {
        let mut part = self.clone();
        for planned in &mut part.0 {
            planned.layout = narrow(planned.name, &planned.layout)?;
        }
        Ok(part)
    }
    /// The operands without values.
    pub(super) fn outline(&self) -> Outline {
        let mut outline = Outline::default();
        for Planned { name, dtype, layout, .. } in &self.0 {
            outline.set(name, *dtype, *layout);
        }
        outline
    }
    /// The operands in a backend's memory. Each tensor holds the part of its operand that the layout refers
    /// to.
    pub(super) fn tensors<B: Backend>(
        &self,
        backend: &B,
        slots: &[OperandSlot],
    ) -> Result<NamedTensors<B::Space>> {
        let mut tensors = NamedTensors::new();
        for Planned { name, dtype, layout, recipe } in &self.0 {
            let extent = layout.extent();
            let here = Layout::strided(layout.dims(), layout.strides(), layout.offset() - extent.start)?;
            let written = slots.iter().any(|slot| slot.name == *name && slot.role == Role::Out);
            // A view without gaps is overwritten completely.
            let buffer = if written && extent.len() == layout.len() {
                backend.alloc(extent.len() * dtype.size())?
            } else {
                backend.upload(&recipe.bytes(*dtype, extent)?)?
            };
            tensors.insert(name, AnyTensor::new(buffer, *dtype, here)?);
        }
        Ok(tensors)
    }
}

/// The values of an operand, chosen so that no op produces NaN or leaves the range of its type. `shape` gives
/// the extents of the operands.
pub(super) fn fill<'s>(entry: &Entry, operand: &str, shape: impl Fn(&str) -> Option<&'s [usize]>) -> Fill {
    let first = |table| shape(table).and_then(|dims| dims.first().copied()).unwrap_or(1);
    let last = |table| shape(table).and_then(|dims| dims.last().copied()).unwrap_or(1);
    match (entry.name, operand) {
        ("log" | "log1p" | "sqrt" | "recip" | "powf", _) | ("div", "b") | ("pow", "a") => Fill::Positive,
        ("batch_norm", "var") => Fill::Positive,
        ("router_topk", "logits") => Fill::Ranked,
        (_, "cond") => Fill::Flag,
        (_, "cu_q" | "cu_k") => {
            let rows = if operand == "cu_q" { first("q") } else { first("k") };
            Fill::Starts { entries: first(operand), rows }
        }
        (_, "block_table") => Fill::Below(first("k")),
        // As many keys as the table can hold.
        (_, "lengths") => {
            let block = shape("k").and_then(|dims| dims.get(1).copied()).unwrap_or(1);
            let keys = last("block_table").saturating_mul(block) as i64;
            Fill::Within(keys, keys)
        }
        ("gather" | "scatter" | "scatter_add", "ids") => Fill::Below(last(entry.first())),
        ("linear_experts" | "qlinear_experts" | "linear_experts_combine", "ids") => {
            Fill::Below(first("weight"))
        }
        ("linear_experts_swiglu", "ids") => Fill::Below(first("gate")),
        (_, "ids") => Fill::Below(first(entry.first())),
        // Distinct, since a cache has as many slots as there are rows.
        (_, "slots") => {
            Fill::Counted(0, first(if entry.name == "cache_write" { "cache" } else { "k_cache" }) as i64 - 1)
        }
        (_, "positions") => {
            Fill::Below(shape("cos").and_then(|dims| dims.iter().rev().nth(1).copied()).unwrap_or(1))
        }
        // With zeros, the state keeps its values however often the op runs.
        ("gated_delta_rule", "decay" | "beta") => Fill::Below(1),
        (_, "cos") => Fill::Cos,
        (_, "sin") => Fill::Sin,
        _ => Fill::Signed,
    }
}
