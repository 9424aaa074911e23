//! Compares a backend's results with the expected ones.
use crate::array::same;
use crate::{Array, CallError, Case, RunResult};
use ops_core::{Error, Role, Tolerance, Verdict, Wide};

/// The expected contents of an output in row-major order, and the tolerance.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) name: String,
    pub(crate) values: Array,
    pub(crate) tolerance: Tolerance,
}

/// The verdict on one output.
pub(crate) struct Judged {
    pub(crate) nmse: f64,
    pub(crate) limit: f64,
    pub(crate) exact: bool,
    /// Describes the first bad element.
    pub(crate) wrong: Option<String>,
}

impl Want {
    /// Judges the output after a call.
    pub(crate) fn judge(&self, case: &Case, ran: &RunResult) -> Result<Judged, CallError> {
        let name = &self.name;
        let layout = case.expect(name)?.layout;
        let missing = || CallError::Malformed(format!("{} has no output `{name}`", case.op));
        let got = ran.buffer(name).ok_or_else(missing)?.gather(&layout)?;
        let verdict = judge(&got, &self.values, self.tolerance).map_err(|e| e.of(name))?;
        let wrong = verdict.bad.map(|at| {
            let (index, got, want) = (layout.index_of(at), show(&got, at), show(&self.values, at));
            format!("{name}{index:?} is {got}, wanted {want}")
        });
        let exact = self.tolerance == Tolerance::Exact;
        Ok(Judged { nmse: verdict.nmse, limit: verdict.limit, exact, wrong })
    }
}

/// Compares values with expected values, which may have another type.
fn judge(got: &Array, want: &Array, tolerance: Tolerance) -> Result<Verdict, CallError> {
    if got.len() != want.len() {
        return Err(CallError::Malformed(format!("{} results, wanted {}", got.len(), want.len())));
    }
    if tolerance == Tolerance::Exact {
        let bad = match (got.to_wide(), want.to_wide()) {
            (Ok(got), Ok(want)) => got.iter().zip(want).position(|(g, w)| !same(*g, w)),
            // Blocks are compared by their bytes.
            _ => (0..got.len()).find(|&i| got.element(i) != want.element(i)),
        };
        return Ok(Verdict { nmse: 0.0, limit: 0.0, bad });
    }
    let exact = want.to_f64()?;
    let rounded = Array::from_f64(got.dtype(), &exact)?.to_f64()?;
    Ok(tolerance.judge(&got.to_f64()?, &exact, &rounded))
}

/// The first write where the op must not write: outside the views of the outputs, to an input, or anywhere if the backend
/// declined.
pub(crate) fn stray_write(case: &Case, ran: &RunResult) -> Option<String> {
    let declined = matches!(ran.result, Err(Error::Unsupported { .. }));
    case.operands.iter().find_map(|o| {
        let after = ran.buffer(&o.name)?;
        if o.role == Role::In || declined {
            let at = o.array.first_change(after)?;
            let why = if declined { "the op was declined" } else { "it is an input" };
            return Some(format!("{}: element {at} of the buffer was written, though {why}", o.name));
        }
        let at = o.array.first_change_outside(after, &o.layout)?;
        Some(format!("{}: element {at} of the buffer was written, outside the view {}", o.name, o.layout))
    })
}

/// Describes how the backend's behaviour contradicts its answer beforehand, if it does.
pub(crate) fn contradicted_support(ran: &RunResult) -> Option<String> {
    match (&ran.support, &ran.result) {
        (Ok(()), Err(e @ Error::Unsupported { .. })) => {
            Some(format!("support was promised, but the call failed: {e}"))
        }
        (Err(reason), Ok(())) => Some(format!("support was declined ({reason}), yet the op ran")),
        _ => None,
    }
}

fn show(array: &Array, at: usize) -> String {
    match array.to_wide() {
        Ok(values) => match values[at] {
            Wide::Int(v) => v.to_string(),
            Wide::Float(v) => format!("{v:?}"),
        },
        Err(_) => format!("{:02x?}", array.element(at)),
    }
}
