//! Drawing tokens from logits.
use super::declare::{methods, ops};
use super::extents;
use crate::{DType, Error, Execute, Float, Op, Operands, Result, Shape, Tolerance};

mod masses;

pub use masses::{Masses, philox4x32};

ops! {
    /// Draws an id from each row of logits.
    ///
    /// Operands: `logits[n, v]`, with `v` from 1 to 2³²; `counter[n]` of i64; `ids[n]` of u32.
    ///
    /// With temperature 0, the result is the id of the largest logit: of the first NaN if there is one, otherwise
    /// the lowest id among equals. Otherwise, with ids in descending order of logits, the lower id first among
    /// equals:
    ///
    /// 1. The first `top_k` ids are kept, or all if there are fewer. Their probabilities are softmax(logits /
    ///    temperature).
    /// 2. Of these, the shortest prefix whose probabilities sum to at least `top_p` is kept. It has at least one
    ///    id.
    /// 3. `u = (word + ½) · 2⁻³²`, where `word` is the first word of Philox-4×32-10 with the key `seed` and the
    ///    counter `(counter, 0)`, low words first. The result is the first id whose cumulative probability,
    ///    relative to the sum over all kept ids, exceeds `u`.
    ///
    /// Ids whose logit is −∞ are never drawn. If the largest logit is +∞, one of those equal to it is drawn. If
    /// there is a NaN, or if all logits are −∞, the result is the same as with temperature 0.
    ///
    /// **Reproducibility.** The result depends only on the row, its counter and the options, not on other rows or
    /// the number of threads. Reference, Cpu and Rocm give the same ids for the same logits, because they sum
    /// probabilities as integers ([`Masses`]). These are within 10⁻⁵ of the exact cumulative probabilities. Where
    /// `u` or `top_p` is that close to one of them, a backend that computes otherwise may take the next id.
    ///
    /// Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Top-p: Holtzman et al., "The curious case of
    /// neural text degeneration", 2020.
    pub struct Sample<T: Float> {
        /// Divides the logits; 0 takes the largest.
        pub temperature: f64,
        /// Keeps this many ids; at least 1.
        pub top_k: Option<usize> = None,
        /// Keeps the first ids whose probabilities sum to this, from 0 to 1.
        pub top_p: Option<f64> = None,
        /// The key of the random numbers.
        pub seed: u64 = 0,
    }
    /// Draws from softmax(logits / temperature), with seed 0.
    fn temperature;
    operands sample { logits: in T [n, v], counter: in i64 [n], ids: out u32 [n] }
}
impl<T> Sample<T> {
    /// Takes the largest logit.
    pub fn greedy() -> Self {
        Self::temperature(0.0)
    }
    /// Keeps the `k` most likely ids.
    pub fn top_k(self, k: usize) -> Self {
        Sample { top_k: Some(k), ..self }
    }
    /// Keeps the most likely ids whose probabilities sum to `p`.
    pub fn top_p(self, p: f64) -> Self {
        Sample { top_p: Some(p), ..self }
    }
    /// Sets the key of the random numbers.
    pub fn seed(self, seed: u64) -> Self {
        Sample { seed, ..self }
    }
    /// The same options for logits of another type.
    pub fn of_type<U>(self) -> Sample<U> {
        self.typed()
    }

    fn check(&self) -> Result<()> {
        let wrong = |option, got: String, want| Err(Error::param("sample", option, got, want));
        let Sample { temperature, top_k, top_p, .. } = *self;
        if !(temperature.is_finite() && temperature >= 0.0) {
            return wrong("temperature", temperature.to_string(), "a finite number, 0 or larger");
        }
        if top_k == Some(0) {
            return wrong("top_k", "0".into(), "at least 1; leave it out to keep all ids");
        }
        match top_p {
            Some(p) if !(0.0..=1.0).contains(&p) => wrong("top_p", p.to_string(), "a number from 0 to 1"),
            _ => Ok(()),
        }
    }
}
impl<T: Float> Op for Sample<T> {
    fn infer(&self, on: &args::sample::Shapes<'_>) -> Result<[Shape; 1]> {
        let want = "[n, v] with v from 1 to 2^32, since ids are u32";
        let wrong = || Error::shape("sample", "logits", on.logits, want);
        let &[n, v] = on.logits.dims() else { return Err(wrong()) };
        if !u64::try_from(v).is_ok_and(|v| (1..=1 << 32).contains(&v)) {
            return Err(wrong());
        }
        extents("sample", "counter", on.counter, &[n])?;
        self.check()?;
        Ok([Shape::new(&[n])?])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Drawing from logits in `T`.
pub trait SamplingOps<T: Float>: Execute<Sample<T>> {
    methods! {
        /// [`Sample`] from `logits[n, v]` with `counter[n]`: `ids[n]` of u32.
        ///
        /// Count the tokens of each text and pass the count as its counter: the same seed then gives the same
        /// text, however texts are batched.
        example
        /// let logits = b.tensor(&[2, 3], &[0.0f32, 1.0, 1.0, 9.0, -9.0, 0.5])?;
        /// let counter = b.tensor(&[2], &[0i64, 1])?;
        /// assert_eq!(b.sample(&logits, &counter, Sample::greedy())?.to_vec(&b)?, [1, 0]);
        ///
        /// let ids = b.sample(&logits, &counter, Sample::temperature(0.8).top_k(2).top_p(0.95).seed(7))?;
        /// assert!(ids.to_vec(&b)?[0] != 0, "0 is not among the two most likely ids");
        fn sample, sample_into(logits: in T, counter: in i64; ids: u32; op: Sample<T>) = sample(op);
    }
}
impl<T: Float, B: Execute<Sample<T>>> SamplingOps<T> for B {}
