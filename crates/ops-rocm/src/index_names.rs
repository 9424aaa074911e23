//! Numbers by which kernels identify an index operand of an op.
//!
//! Each backend has its own. A stream belongs to one backend at a time, and its record is emptied for the
//! next one, so a number is always looked up in the backend that assigned it.
use crate::hip::IndexFault;
use crate::sync::Mutex;
use ops_core::Error;

/// The index operands of the ops that have run so far.
#[derive(Debug, Default)]
pub(crate) struct IndexNames {
    known: Mutex<Vec<(&'static str, &'static str)>>,
}

impl IndexNames {
    /// The number of an op's index operand.
    pub(crate) fn number(&self, op: &'static str, operand: &'static str) -> u32 {
        let mut known = self.known.lock();
        let at = known.iter().position(|names| *names == (op, operand)).unwrap_or_else(|| {
            known.push((op, operand));
            known.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// The error for what a kernel recorded.
    pub(crate) fn error(&self, fault: IndexFault) -> Error {
        let known = self.known.lock();
        let names = usize::try_from(fault.op).ok().and_then(|at| known.get(at));
        let (op, operand) = names.copied().unwrap_or(("a kernel of the program", "an index"));
        let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Error::Index {
            op,
            operand,
            position: count(fault.position),
            index: fault.index,
            bound: count(fault.bound),
        }
    }
}
