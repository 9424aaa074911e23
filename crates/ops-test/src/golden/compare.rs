//! What a backend computed against what a file wants.
use super::{Comparison, Status, Want};
use crate::array::same;
use crate::{Array, CallError, Case, Ran};
use ops_core::{Error, Role, Tolerance, Verdict};

pub(super) fn compare(case: &Case, wants: &[Want], ran: &Ran) -> Comparison {
    if let Some(touched) = stray_write(case, ran) {
        return Comparison::ended(Status::Fail, touched);
    }
    match (&ran.support, &ran.result) {
        (Ok(()), Err(e @ Error::Unsupported { .. })) => {
            Comparison::ended(Status::Fail, format!("support was promised, then: {e}"))
        }
        (_, Err(Error::Unsupported { reason, .. })) => {
            Comparison::ended(Status::Unsupported, reason.to_string())
        }
        (_, Err(e)) => Comparison::ended(Status::Error, e.to_string()),
        (Err(reason), Ok(())) => {
            Comparison::ended(Status::Fail, format!("support was declined ({reason}), yet it ran"))
        }
        (Ok(()), Ok(())) => results(case, wants, ran).unwrap_or_else(|e| Comparison::of(&e)),
    }
}

/// The first sign of a write outside the views of the outputs; anywhere, if the backend declined.
pub(crate) fn stray_write(case: &Case, ran: &Ran) -> Option<String> {
    let declined = matches!(ran.result, Err(Error::Unsupported { .. }));
    case.operands.iter().find_map(|o| {
        let after = ran.buffer(&o.name)?;
        if o.role == Role::In || declined {
            let at = (0..after.len()).find(|&i| after.element(i) != o.array.element(i))?;
            let why = if declined { "the op was declined" } else { "it is an input" };
            return Some(format!("{}: element {at} of the buffer was written, though {why}", o.name));
        }
        let at = o.array.first_change_outside(after, &o.layout)?;
        Some(format!("{}: element {at} of the buffer was written, outside the view {}", o.name, o.layout))
    })
}

fn results(case: &Case, wants: &[Want], ran: &Ran) -> Result<Comparison, CallError> {
    let mut worst = Comparison { status: Status::Ok, nmse: None, limit: None, reason: None };
    for want in wants {
        let layout = case.expect(&want.name)?.layout;
        let missing = || CallError::Malformed(format!("{} has no output `{}`", case.op, want.name));
        let got = ran.buffer(&want.name).ok_or_else(missing)?.gather(&layout)?;
        let verdict = judge(&got, &want.values, want.tolerance)?;
        let excess = |nmse: Option<f64>, limit: Option<f64>| match (nmse, limit) {
            (Some(nmse), Some(limit)) => nmse / limit.max(f64::MIN_POSITIVE),
            _ => -1.0,
        };
        let measured = (want.tolerance != Tolerance::Exact).then_some(verdict.nmse);
        let limit = measured.map(|_| verdict.limit);
        let worse = excess(measured, limit) > excess(worst.nmse, worst.limit);
        if let Some(at) = verdict.bad {
            let index = layout.index_of(at);
            let (name, got, wanted) = (&want.name, show(&got, at), show(&want.values, at));
            let reason = Some(format!("{name}{index:?} is {got}, wanted {wanted}"));
            return Ok(Comparison { status: Status::Fail, nmse: measured, limit, reason });
        }
        if worse {
            (worst.nmse, worst.limit) = (measured, limit);
        }
    }
    Ok(worst)
}

/// Judges a result against values that need not be of its type.
pub(crate) fn judge(got: &Array, want: &Array, tolerance: Tolerance) -> Result<Verdict, CallError> {
    if got.len() != want.len() {
        return Err(CallError::Malformed(format!("{} results for {} wanted", got.len(), want.len())));
    }
    if tolerance == Tolerance::Exact {
        let bad = match (got.to_wide(), want.to_wide()) {
            (Ok(got), Ok(want)) => got.iter().zip(want).position(|(g, w)| !same(*g, w)),
            // Blocks have no values; their bytes decide.
            _ => (0..got.len()).find(|&i| got.element(i) != want.element(i)),
        };
        return Ok(Verdict { nmse: 0.0, limit: 0.0, bad });
    }
    let exact = want.to_f64()?;
    let rounded = Array::from_f64(got.dtype(), &exact)?.to_f64()?;
    Ok(tolerance.judge(&got.to_f64()?, &exact, &rounded))
}

/// One element for a message.
pub(crate) fn show(array: &Array, at: usize) -> String {
    match array.to_wide() {
        Ok(values) => match values[at] {
            ops_core::Wide::Int(v) => v.to_string(),
            ops_core::Wide::Float(v) => format!("{v:?}"),
        },
        Err(_) => format!("{:02x?}", array.element(at)),
    }
}
