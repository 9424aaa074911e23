//! Problems from recorded calls: the operands, options and layouts of a call in a trace.
use super::call::{Call, bind};
use super::plan::{Plan, fill};
use super::synthetic::Fill;
use super::{Explain, Problem, described};
use crate::catalogue::{Entry, Types, find_call, notation};
use ops_core::ops::Attention;
use ops_core::ops::registry::Options;
use ops_core::{DType, Error, Layout, OperandSlot, Role};
use ops_test::erased::erased;
use ops_test::trace::{CallDetail, Memory, TracedCall, TracedOperand};
use ops_test::{CallError, CallOptions, SuiteBackend};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A call of a trace, with the bytes of its operands as far as they were recorded.
pub(crate) struct Recording<'t> {
    op: &'t str,
    entry: &'static Entry,
    detail: &'t CallDetail,
    /// One entry per operand.
    bytes: Vec<Option<Arc<[u8]>>>,
}

/// What distinguishes calls of one op in a table: element types and layouts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    op: String,
    /// In the notation of `--dtype`.
    pub(crate) types: String,
    operands: Vec<(&'static str, DType, Layout)>,
}

impl<'t> Recording<'t> {
    /// The call, with operands of at most `memory` bytes in total. `block` reads blocks of data.
    ///
    /// # Errors
    /// This build does not know the call, it takes too much memory, or the data cannot be read.
    pub(crate) fn new(
        call: &'t TracedCall,
        memory: usize,
        mut block: impl FnMut(usize) -> std::io::Result<Vec<u8>>,
    ) -> Result<Self, CallError> {
        let detail = call.detail.as_ref().map_err(Clone::clone)?;
        let unknown = || CallError::Unsupported(format!("`{}` is not an op of this build", call.op));
        let names = detail.operands.iter().map(|o| o.name.as_str());
        let entry = find_call(&call.op, names).ok_or_else(unknown)?;
        let needed = detail.operands.iter().map(needed).fold(0, usize::saturating_add);
        if needed > memory {
            return Err(CallError::Malformed(format!(
                "its operands take {needed} bytes, more than the {memory} that --memory allows"
            )));
        }
        let mut bytes = |operand: &TracedOperand| match &operand.memory {
            Memory::Bytes(bytes) => Ok(Some(bytes.as_slice().into())),
            Memory::Block(number) => {
                let unreadable = |e| CallError::Malformed(format!("data {number} cannot be read: {e}"));
                Ok(Some(block(*number).map_err(unreadable)?.into()))
            }
            Memory::Unknown | Memory::Bounds(..) => Ok(None),
        };
        let bytes = detail.operands.iter().map(&mut bytes).collect::<Result<_, CallError>>()?;
        Ok(Recording { op: &call.op, entry, detail, bytes })
    }

    /// The op on a backend.
    ///
    /// # Errors
    /// The op does not have an operand, option or type of the call.
    pub(crate) fn on<B: Explain + SuiteBackend>(&self, backend: &B) -> Result<Box<dyn Call>, CallError> {
        let CallDetail { dtype, params, .. } = self.detail;
        let options = CallOptions::new(self.op, params, self.types());
        let call = erased::<B, _>(self.op, *dtype, &options)?;
        options.check_known(call.slots())?;
        Ok(bind(backend.clone(), call))
    }

    /// The type that the op runs in.
    pub(crate) fn runs_in(&self) -> DType {
        self.detail.dtype
    }

    /// What distinguishes this call from others of its op in a table.
    pub(crate) fn form(&self) -> Form {
        let types = Types::of_call(self.entry, self.detail.dtype, self.types()).notation(self.entry);
        let slots = self.entry.op.slots(self.detail.dtype).iter();
        let operands =
            slots.filter_map(|slot| self.find(slot.name).map(|(o, _)| (slot.name, o.dtype, o.layout)));
        Form { op: self.op.to_owned(), types, operands: operands.collect() }
    }

    /// The shape of the operand that the contract names first.
    pub(crate) fn shape(&self) -> &'t [usize] {
        self.dims(self.entry.first()).unwrap_or(&[])
    }

    /// The shapes in the notation of `ops explain --shape`, leaving out those that follow from others; then
    /// which operands are strided.
    pub(crate) fn label(&self) -> String {
        let contract = &self.entry.contract;
        let block = self.entry.block_operand().and_then(|o| self.find(o.name));
        let block = block.map_or(1, |(o, _)| o.dtype.values());
        let mut given = BTreeMap::from([(self.entry.first().to_owned(), self.shape().to_vec())]);
        let mut label = notation(self.shape());
        for name in contract.inputs().skip(1).map(|o| o.name) {
            let Some(dims) = self.dims(name) else { continue };
            let derived = contract.shapes(&given, block).ok();
            let derived = derived.and_then(|shapes| shapes.into_iter().find(|(known, _)| *known == name));
            if derived.is_none_or(|(_, derived)| derived != dims) {
                label += &format!(" {name}={}", notation(dims));
                given.insert(name.to_owned(), dims.to_vec());
            }
        }
        let strided = self.detail.operands.iter().filter(|o| !o.layout.is_contiguous());
        let strided: Vec<_> = strided.map(|o| o.name.as_str()).collect();
        if strided.is_empty() { label } else { format!("{label} strided {}", strided.join(",")) }
    }

    fn types(&self) -> impl Iterator<Item = (&'t str, DType)> {
        self.detail.operands.iter().map(|o| (o.name.as_str(), o.dtype))
    }
    fn dims(&self, name: &str) -> Option<&'t [usize]> {
        self.detail.operands.iter().find(|o| o.name == name).map(|o| o.layout.dims())
    }
    fn find(&self, name: &str) -> Option<(&'t TracedOperand, Option<&Arc<[u8]>>)> {
        let at = self.detail.operands.iter().position(|o| o.name == name)?;
        Some((&self.detail.operands[at], self.bytes.get(at)?.as_ref()))
    }

    /// The values of an operand: those that were recorded, or seeded ones that keep integers within their bounds.
    fn fill(
        &self,
        slot: &OperandSlot,
        operand: &TracedOperand,
        bytes: Option<&Arc<[u8]>>,
    ) -> Result<Fill, CallError> {
        match (bytes, &operand.memory) {
            (Some(bytes), _) => Ok(Fill::Bytes(Arc::clone(bytes))),
            // If several rows go to one slot, it is unspecified which is kept.
            (None, Memory::Bounds(least, greatest)) if slot.name == "slots" => {
                Ok(Fill::Counted(*least, *greatest))
            }
            (None, Memory::Bounds(least, greatest)) => Ok(Fill::Within(*least, *greatest)),
            (None, _) if slot.role == Role::Out || !operand.dtype.is_index() => {
                Ok(fill(self.entry, slot.name, |other| self.dims(other)))
            }
            (None, _) => Err(CallError::Malformed(format!(
                "`{}` is of {}, wanted its values or bounds: integers may be indices",
                slot.name, operand.dtype
            ))),
        }
    }

    /// The call's attention options; other options do not affect a problem's cost.
    fn scores(&self) -> Attention<f32> {
        let mut scores = Attention::<f32>::full();
        if self.entry.name.starts_with("attention") {
            let options = CallOptions::new(self.entry.name, &self.detail.params, self.types());
            scores.causal = options.flag("causal").ok().flatten().unwrap_or(false);
            scores.window = options.window("window").ok().flatten().unwrap_or((None, None));
        }
        scores
    }
}

/// Bytes that a call needs for an operand: its memory, or the size of a copy without repeated elements.
fn needed(operand: &TracedOperand) -> usize {
    let elements = operand.layout.extent().len().max(operand.layout.len());
    elements.saturating_mul(operand.dtype.size())
}

impl Problem {
    /// Applies the op's shape rule to a recorded call. Both calls are those of `recording`.
    ///
    /// # Errors
    /// The call breaks the rule.
    pub(crate) fn recorded(
        call: Box<dyn Call>,
        reference: Box<dyn Call>,
        recording: &Recording<'_>,
    ) -> Result<Self, CallError> {
        let (entry, slots) = (recording.entry, call.op().slots());
        let mut plan = Plan::default();
        for slot in slots {
            match recording.find(slot.name) {
                Some((operand, bytes)) => {
                    let fill = recording.fill(slot, operand, bytes)?;
                    plan.set(slot.name, operand.dtype, operand.layout, fill);
                }
                None if slot.optional => {}
                None => {
                    let (op, name) = (entry.name, slot.name);
                    return Err(CallError::Malformed(format!("{op} requires an operand `{name}`")));
                }
            }
        }
        let shapes = call.op().infer(&plan.outline())?;
        let mut shapes = shapes.iter();
        for slot in slots.iter().filter(|slot| slot.role != Role::In) {
            let want = if slot.role == Role::Out { shapes.next() } else { None };
            let Some((operand, _)) = recording.find(slot.name) else { continue };
            if let Some(want) = want.filter(|want| operand.layout.shape() != **want) {
                return Err(Error::shape(entry.name, slot.name, &operand.layout, want.to_string()).into());
            }
            if !operand.layout.is_injective() {
                let layout = Box::new(operand.layout);
                return Err(Error::Overlap { op: entry.name, operand: slot.name, layout }.into());
            }
        }
        // Options that name axes are not always those for which the contract says what is independent, and the contract may
        // leave out optional operands.
        let listed = |name: &str| entry.contract.operands().iter().any(|o| o.name == name);
        let axes = ["axis", "axes"].iter().any(|name| recording.detail.params.0.contains_key(*name));
        let divisible = !axes && recording.types().all(|(name, _)| listed(name));
        let operands = described(&plan.outline().operands(slots));
        let scores = recording.scores();
        Ok(Problem { call, reference, entry, plan, operands, divisible, scores })
    }
}
