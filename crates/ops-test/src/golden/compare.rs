//! Derives the result of a case from what the backend did.
use super::{CaseResult, Golden, Status};
use crate::judge::{Judged, Want, contradicted_support, stray_write};
use crate::{CallError, Case, RunResult};
use ops_core::Error;

impl CaseResult {
    fn ended(golden: &Golden, status: Status, reason: impl ToString) -> Self {
        CaseResult { status, reason: Some(reason.to_string()), ..Self::passed(golden) }
    }
    fn passed(golden: &Golden) -> Self {
        CaseResult {
            op: golden.op.clone(),
            dtype: golden.dtype.clone(),
            shape: golden.shape.clone(),
            status: Status::Ok,
            nmse: None,
            limit: None,
            reason: None,
        }
    }
    pub(super) fn not_run(golden: &Golden, e: &CallError) -> Self {
        let unsupported = matches!(e, CallError::Unsupported(_));
        Self::ended(golden, if unsupported { Status::Unsupported } else { Status::Error }, e)
    }
    pub(super) fn of(golden: &Golden, case: &Case, wants: &[Want], ran: &RunResult) -> Self {
        if let Some(broken) = stray_write(case, ran).or_else(|| contradicted_support(ran)) {
            return Self::ended(golden, Status::Fail, broken);
        }
        match &ran.result {
            Err(Error::Unsupported { reason, .. }) => Self::ended(golden, Status::Unsupported, reason),
            Err(e) => Self::ended(golden, Status::Error, e),
            Ok(()) => {
                let judged: Result<Vec<Judged>, _> = wants.iter().map(|w| w.judge(case, ran)).collect();
                judged.map_or_else(|e| Self::not_run(golden, &e), |judged| Self::worst(golden, judged))
            }
        }
    }

    /// The worst output counts: a wrong one, or else the one closest to its limit.
    fn worst(golden: &Golden, judged: Vec<Judged>) -> Self {
        let badness = |j: &Judged| match (&j.wrong, j.exact) {
            (Some(_), _) => f64::INFINITY,
            (None, false) => j.nmse / j.limit.max(f64::MIN_POSITIVE),
            (None, true) => -1.0,
        };
        let mut result = Self::passed(golden);
        if let Some(worst) = judged.into_iter().max_by(|a, b| badness(a).total_cmp(&badness(b))) {
            if !worst.exact {
                (result.nmse, result.limit) = (Some(worst.nmse), Some(worst.limit));
            }
            if worst.wrong.is_some() {
                (result.status, result.reason) = (Status::Fail, worst.wrong);
            }
        }
        result
    }
}
