//! Runs a case on a backend: converts names and types as values to an op and its arguments.
//!
//! No op can ignore part of a case. Options are read through [`CallOptions`], which records their names.
//! Operands are uploaded only after every option of the case has been read and every operand is known to the
//! op. Anything left over makes the case unsupported.
use crate::erased::{ErasedCall, Outline, erased};
use crate::options::CallOptions;
use crate::{Array, CallError, Case, RunResult};
use ops_core::ops::registry::{self, AllOps, Refused};
use ops_core::{AnyTensor, Backend, Error, NamedTensors, OperandSlot, Reason, Role, Shape, Tolerance};

/// A backend behind a trait object, so that code using it is compiled once.
pub(crate) trait Runner {
    /// The backend's name.
    fn name(&self) -> &'static str;
    /// Uploads the operands, asks for support, runs, waits, and reads every buffer back.
    fn call(&self, case: &Case) -> Result<RunResult, CallError>;
}

impl<B: AllOps> Runner for B {
    fn name(&self) -> &'static str {
        Backend::name(self)
    }
    fn call(&self, case: &Case) -> Result<RunResult, CallError> {
        let caller = Caller::new(case);
        let call = erased::<B, _>(&case.op, case.dtype, &caller.options)?;
        let mut tensors = caller.upload(self, call.slots())?;
        let (support, result) = attempt(self, &*call, &mut tensors)?;
        read_back(self, &tensors, support, result)
    }
}

/// Runs one case on a backend.
///
/// # Errors
/// The case is malformed or names an op or types that this build does not have, or memory outside the op failed. The result
/// of the op itself is in [`RunResult`].
pub fn call<B: AllOps>(backend: &B, case: &Case) -> Result<RunResult, CallError> {
    Runner::call(backend, case)
}

/// The ops that a case may name, without in-place forms.
pub fn op_names() -> impl Iterator<Item = &'static str> {
    registry::entries().iter().map(|entry| entry.name).filter(|name| !name.ends_with("_inplace"))
}

/// What an op's rule says of an output.
pub(crate) struct Ruled {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) tolerance: Tolerance,
}

/// What the op's rule says of the outputs of a case, of which only the element types matter.
///
/// # Errors
/// The case is malformed or unknown, or its inputs break the rule.
pub(crate) fn rule<B: AllOps>(case: &Case) -> Result<Vec<Ruled>, CallError> {
    let caller = Caller::new(case);
    let call = erased::<B, _>(&case.op, case.dtype, &caller.options)?;
    let mut outline = Outline::default();
    for slot in call.slots() {
        if let Some(operand) = caller.elements(slot)? {
            outline.set(slot.name, operand.array.dtype(), operand.layout);
        }
    }
    let shapes = call.infer(&outline)?;
    let outputs = call.slots().iter().filter(|slot| slot.role != Role::In);
    let ruled = |(slot, shape): (&OperandSlot, Shape)| {
        let dtype = case.dtype_of(slot.name).unwrap_or(case.dtype);
        Ruled { name: slot.name, shape, tolerance: call.tolerance(slot.name, dtype, &outline) }
    };
    Ok(outputs.zip(shapes).map(ruled).collect())
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Missing(_) | Refused::Counts { .. } => CallError::Malformed(refused.to_string()),
            _ => CallError::Unsupported(refused.to_string()),
        }
    }
}

/// A case and the options that the op has read.
struct Caller<'c> {
    case: &'c Case,
    options: CallOptions<'c>,
}

impl<'c> Caller<'c> {
    fn new(case: &'c Case) -> Self {
        let types = case.operands.iter().map(|o| (o.name.as_str(), o.array.dtype()));
        Caller { case, options: CallOptions::new(&case.op, &case.params, types) }
    }

    /// The elements of an operand. Checks its type, and that it is present unless it is optional.
    fn elements(&self, slot: &OperandSlot) -> Result<Option<&'c crate::Operand>, CallError> {
        let Case { op, dtype, .. } = self.case;
        if slot.optional && self.case.operand(slot.name).is_none() {
            return Ok(None);
        }
        let (operand, name) = (self.case.expect(slot.name)?, slot.name);
        match (slot.dtype, operand.array.dtype()) {
            (Some(want), got) if got != want => {
                let reason = format!("`{op}` in {dtype} takes `{name}` in {want}, not in {got}");
                Err(CallError::Unsupported(reason))
            }
            _ => Ok(Some(operand)),
        }
    }

    /// Checks that the op writes every operand that is an output of the case.
    fn check_roles(&self, slots: &[OperandSlot]) -> Result<(), CallError> {
        for OperandSlot { name, .. } in slots.iter().filter(|slot| slot.role == Role::In) {
            if self.case.operand(name).is_some_and(|o| o.role != Role::In) {
                let op = &self.case.op;
                let reason = format!("`{op}` of this build does not write operand `{name}`");
                return Err(CallError::Unsupported(reason));
            }
        }
        Ok(())
    }

    /// Uploads the tensors of the case, after checking that the op knows everything in it.
    fn upload<B: Backend>(
        &self,
        b: &B,
        slots: &'static [OperandSlot],
    ) -> Result<NamedTensors<B::Space>, CallError> {
        self.options.check_known(slots)?;
        let mut tensors = NamedTensors::new();
        for slot in slots {
            if let Some(operand) = self.elements(slot)? {
                let buffer = b.upload(operand.array.bytes())?;
                tensors.insert(slot.name, AnyTensor::new(buffer, operand.array.dtype(), operand.layout)?);
            }
        }
        self.check_roles(slots)?;
        Ok(tensors)
    }
}

/// Whether the backend supports the call, and the result of the call and of the wait for it.
type Attempt = (Result<(), Reason>, Result<(), Error>);

fn attempt<B: Backend>(
    b: &B,
    call: &dyn ErasedCall<B>,
    tensors: &mut NamedTensors<B::Space>,
) -> Result<Attempt, CallError> {
    let outline = Outline::of(tensors);
    // `support` may only be called with operands that follow the op's rule.
    let support = if call.infer(&outline).is_ok() { call.support(b, &outline) } else { Ok(()) };
    let mut result = Ok(());
    call.prepare(b, tensors, &mut |call| {
        result = call.run();
        Ok(())
    })?;
    Ok((support, result))
}

/// Collects the result with all buffers.
fn read_back<B: Backend>(
    b: &B,
    tensors: &NamedTensors<B::Space>,
    support: Result<(), Reason>,
    result: Result<(), Error>,
) -> Result<RunResult, CallError> {
    let mut buffers = Vec::new();
    for (name, tensor) in tensors.iter() {
        let data = tensor.as_ref();
        let bytes = b.read_vec(data.bytes(), 0, data.data_len() * data.dtype().size())?;
        buffers.push((name, Array::from_bytes(data.dtype(), &bytes)?));
    }
    Ok(RunResult { support, result, buffers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;
    use ops_core::ops::registry::Visit;
    use ops_core::{Execute, Op};
    use ops_cpu::Reference;

    /// Returns the name that the op reports.
    struct OpName;
    impl Visit<Reference> for OpName {
        type Answer = &'static str;
        fn visit<O: Op>(self, op: O) -> Self::Answer
        where
            Reference: Execute<O>,
        {
            op.name()
        }
    }

    #[test]
    fn every_name_is_that_of_its_op() {
        for entry in registry::entries() {
            for dtype in entry.runs_in.members() {
                let params = serde_json::json!({
                    "eps": 1.0, "mul": 1.0, "add": 1.0, "value": 1, "num_groups": 1, "to": "f32",
                    "kernel": [1, 1],
                    "size": if entry.name.ends_with("1d") { serde_json::json!([1]) } else { serde_json::json!([1, 1]) },
                    "axis": 0, "k": 1, "limit": 1.0, "temperature": 1.0, "exponent": 1.0, "min": 0, "max": 1, "alpha": 1.0,
                });
                let operand = |slot: &OperandSlot| {
                    let blocks = entry.blocks == Some(slot.name);
                    let dtype = if blocks { registry::Group::Blocks.members()[0] } else { *dtype };
                    let array = Array::zeroed(dtype, 0).unwrap();
                    let layout = ops_core::Layout::contiguous(&[0]).unwrap();
                    crate::Operand { name: slot.name.to_owned(), role: slot.role, array, layout }
                };
                let operands = entry.slots(*dtype).iter().map(operand).collect();
                let (op, params) = (entry.name.to_owned(), Params::new(params).unwrap());
                let case = Case { op, dtype: *dtype, params, operands };
                let caller = Caller::new(&case);
                let name = registry::by_name(entry.name, *dtype, &caller.options, OpName).unwrap();
                // `qlinear` and `qembedding` are names for calls of one op with blocks.
                let name = if entry.blocks == Some("weight") || entry.blocks == Some("table") {
                    format!("q{name}")
                } else {
                    name.to_owned()
                };
                assert_eq!(name, entry.name);
            }
        }
    }
}
