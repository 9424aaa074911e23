//! Softmax over rows that arrive in pieces.

use super::fold::{LargestNumber, fold};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::math::exp_down;
use crate::simd::{Simd, VectorFn};

/// The running state of a softmax over the pieces of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// The largest number so far; −∞ at the start.
    pub largest: f32,
    /// Σ e^(x − largest) over the numbers so far.
    pub total: f32,
}

impl Running {
    /// The state before the first piece.
    pub const START: Self = Self { largest: f32::NEG_INFINITY, total: 0.0 };

    /// The factor for sums weighted under `self` after the maximum has changed to `largest`.
    pub fn factor(self, largest: f32) -> f32 {
        if largest == self.largest { 1.0 } else { (self.largest - largest).exp() }
    }
}

/// Processes the next `n` numbers of each row: x = e^(x − m), where m is the largest number of the row so far, which
/// `running` then holds. Multiply the sums weighted by earlier pieces by `factors`. A piece of only −∞ has weights of 0; a
/// NaN reaches the total.
///
/// # Errors
/// [`Error::Length`] if `x` does not have `n` numbers for each entry of `running`, or `factors` has another length.
pub fn online_softmax(
    isa: Isa,
    x: &mut [f32],
    n: usize,
    running: &mut [Running],
    factors: &mut [f32],
) -> Result<(), Error> {
    same_len("x", x.len(), n.saturating_mul(running.len()))?;
    same_len("factors", factors.len(), running.len())?;
    if n > 0 {
        isa.run(Online { x, n, running, factors });
    } else {
        factors.fill(1.0);
    }
    Ok(())
}

struct Online<'a> {
    x: &'a mut [f32],
    n: usize,
    running: &'a mut [Running],
    factors: &'a mut [f32],
}

impl VectorFn for Online<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let states = self.running.iter_mut().zip(self.factors);
        for (x, (running, factor)) in self.x.chunks_exact_mut(self.n).zip(states) {
            let here = s.reduce_maximum(fold(s, x, LargestNumber));
            if here == f32::NEG_INFINITY {
                let weight = if x.iter().any(|x| x.is_nan()) { f32::NAN } else { 0.0 };
                x.fill(weight);
                (running.total, *factor) = (running.total + weight, 1.0);
                continue;
            }
            let largest = if here > running.largest { here } else { running.largest };
            *factor = running.factor(largest);
            running.total = running.total * *factor + exp_in_place(s, x, largest);
            running.largest = largest;
        }
    }
}

/// Computes x = e^(x − largest) and returns the sum.
#[inline(always)]
fn exp_in_place<S: Simd>(s: S, x: &mut [f32], largest: f32) -> f32 {
    let shift = s.splat(largest);
    let mut sums = [s.splat(0.0); 2];
    let mut at = 0;
    while x.len() - at >= 2 * S::LANES {
        let (a, b) = x[at..at + 2 * S::LANES].split_at_mut(S::LANES);
        let e =
            [exp_down::<S, f32>(s, s.sub(s.load(a), shift)), exp_down::<S, f32>(s, s.sub(s.load(b), shift))];
        s.store(a, e[0]);
        s.store(b, e[1]);
        sums = [s.add(sums[0], e[0]), s.add(sums[1], e[1])];
        at += 2 * S::LANES;
    }
    while at < x.len() {
        let end = x.len().min(at + S::LANES);
        let e = exp_down::<S, f32>(s, s.sub(s.load_partial(&x[at..end], f32::NEG_INFINITY), shift));
        s.store_partial(&mut x[at..end], e);
        sums[0] = s.add(sums[0], e);
        at = end;
    }
    s.reduce_add(s.add(sums[0], sums[1]))
}
