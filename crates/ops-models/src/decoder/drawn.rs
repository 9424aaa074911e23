//! Drawn tokens, checked for NaN among the logits that they were drawn from.
use crate::Result;
use ops_core::{Backend, TensorOf, View};

/// The token drawn from each row of `logits[texts, vocabulary]`, or `None` if the row has a NaN.
///
/// [`Sample`](ops_core::ops::Sample) draws the first NaN of a row that has one, at every temperature. So the logit of the drawn
/// token tells, and only that number is copied to the host.
pub(super) fn checked<B: Backend>(
    b: &B,
    logits: &TensorOf<B, f32>,
    ids: Vec<u32>,
) -> Result<Vec<Option<u32>>> {
    let check = |(row, id): (usize, u32)| {
        let logit = logits.as_ref().narrow(0, row, 1)?.narrow(1, id as usize, 1)?.to_vec(b)?;
        Ok(logit.iter().all(|v| !v.is_nan()).then_some(id))
    };
    ids.into_iter().enumerate().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::ops::{Sample, SamplingOps};
    use ops_cpu::Cpu;

    #[test]
    fn one_nan_among_the_logits_is_found_at_every_temperature() {
        const NAN: f32 = f32::NAN;
        let b = Cpu::new();
        let rows =
            [[0.0, 9.0, NAN], [NAN, NAN, NAN], [0.0, 9.0, 0.0], [NAN, 0.0, 9.0], [f32::NEG_INFINITY; 3]];
        let logits = b.tensor(&[5, 3], rows.as_flattened()).unwrap();
        let counters = b.tensor(&[5], &[0i64; 5]).unwrap();
        for sample in [Sample::greedy(), Sample::temperature(1e-3), Sample::temperature(1e-2).seed(7)] {
            let ids = b.sample(&logits, &counters, sample).unwrap().to_vec(&b).unwrap();
            assert_eq!(
                checked(&b, &logits, ids).unwrap(),
                [None, None, Some(1), None, Some(0)],
                "{sample:?}"
            );
        }
    }
}
