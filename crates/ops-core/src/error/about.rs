//! Which call and which operand an error is about.
use super::{Error, Result};

/// A call of an op, and its operand that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfCall {
    /// The op, or the view.
    pub op: &'static str,
    /// The operand, or several; empty for a view that no op makes.
    pub operand: &'static str,
}

pub(super) fn named(of: &Option<OfCall>) -> String {
    match of {
        None => String::new(),
        Some(OfCall { op, operand: "" }) => format!("{op}: "),
        Some(OfCall { op, operand }) => format!("{op}: {operand}: "),
    }
}

/// Names what an error of an op is about.
pub(crate) trait About {
    /// Calls [`Error::about`] on the error, if there is one.
    fn about(self, op: &'static str, operand: &'static str) -> Self;
}
impl<T> About for Result<T> {
    #[inline]
    fn about(self, op: &'static str, operand: &'static str) -> Self {
        self.map_err(|error| error.about(op, operand))
    }
}

impl Error {
    /// Adds the op and the operand to an error about a view, an axis or broadcasting that does not name an operand yet.
    pub fn about(mut self, op: &'static str, operand: &'static str) -> Self {
        if let Error::View { of, .. } | Error::Broadcast { of, .. } | Error::Axis { of, .. } = &mut self {
            *of = of.filter(|of| !of.operand.is_empty()).or(Some(OfCall { op, operand }));
        }
        self
    }
    /// The same error, about this call, which made the call that failed.
    pub(crate) fn of_call(mut self, call: &'static str) -> Self {
        match &mut self {
            Error::Shape { op, .. }
            | Error::DType { op, .. }
            | Error::Operand { op, .. }
            | Error::Param { op, .. }
            | Error::Index { op, .. }
            | Error::View { of: Some(OfCall { op, .. }), .. }
            | Error::Broadcast { of: Some(OfCall { op, .. }), .. }
            | Error::Axis { of: Some(OfCall { op, .. }), .. } => *op = call,
            _ => {}
        }
        self
    }
}
