//! Drawing tokens from logits, and random numbers.
use super::declare::{family, methods, ops};
use super::extents;
use crate::{
    AsViewMut, Backend, DType, Error, Execute, Float, IntoShape, Op, Operands, Result, Shape, TensorOf,
    Tolerance,
};

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

    /// Random numbers of a distribution: `random_uniform` or `random_normal`.
    ///
    /// Operands: `y` of any shape, whose old contents are ignored.
    ///
    /// Block `b` is the output of Philox-4×32-10: four words of 32 bits, for the key `seed` of 64 bits and the counter of 128 bits whose
    /// low half is `b` and whose high half is 1. Elements 0 to 3 of `y`, in row-major order, come from block `offset`, elements 4 to
    /// 7 from the next, and so on. In f64, words 0 and 1 form one word of 64 bits, and words 2 and 3 another, the first of them being
    /// the lower half. So a block yields two elements.
    ///
    /// **Uniform,** in [0, 1): an element is the highest `p` bits of its word, times 2⁻ᵖ. Here `p` is the precision of `T`: 8 bits for
    /// bf16, 11 for f16, 24 for f32, 53 for f64. Results are equal bit for bit on all backends.
    ///
    /// **Normal,** of mean 0 and variance 1: consecutive words give `u` and `v`, uniform with 24 bits (53 in f64). They yield
    /// `r · cos(2πv)` and `r · sin(2πv)`, with `r = √(−2 ln(1 − u))`. Magnitudes are at most 5.8 (8.6 in f64). Backends may differ
    /// within the op's tolerance.
    ///
    /// An element depends only on its index, not on the size of `y`. To continue after `n` numbers, add `⌈n / 4⌉` to the offset, or
    /// `⌈n / 2⌉` in f64. The upper half of the counter of [`Sample`] is 0, so both ops may use the same seed.
    ///
    /// Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Normal numbers: Box and Muller, "A note on the
    /// generation of random normal deviates", 1958.
    pub struct Random<T: Float> {
        /// The key of the random numbers.
        pub seed: u64 [or 0],
        /// The first block.
        pub offset: u64 = 0,
    }
    variant { distribution: Distribution }
    operands random { y: inout T }
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

family! {
    /// Drawing from logits in `T`.
    pub trait SamplingOps<T: Float>: Execute<Sample<T>>;
    methods SamplingMethods;
}

/// The methods of [`SamplingOps`].
pub trait SamplingMethods: Backend {
    methods! {
        SamplingOps<T: Float>;
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
        fn sample, sample_into(logits: in T, counter: in i64; ids: u32; op: impl Into<Sample<T>>) = sample(op.into());
    }
}

/// What random numbers are distributed like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Distribution {
    /// Uniformly, from 0 to below 1.
    Uniform,
    /// Normally, with mean 0 and variance 1.
    Normal,
}

impl<T> Random<T> {
    /// Uniform numbers from 0 to below 1: the sequence of a seed, from its beginning.
    pub fn uniform(seed: u64) -> Self {
        Random { seed, offset: 0, distribution: Distribution::Uniform, types: core::marker::PhantomData }
    }
    /// Normal numbers of mean 0 and variance 1: the sequence of a seed, from its beginning.
    pub fn normal(seed: u64) -> Self {
        Random { distribution: Distribution::Normal, ..Self::uniform(seed) }
    }
    /// Sets the first block.
    pub fn offset(self, offset: u64) -> Self {
        Random { offset, ..self }
    }
    /// The same options for numbers of another type.
    pub fn of_type<U>(self) -> Random<U> {
        self.typed()
    }
    /// The distribution of the numbers.
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }
}
impl<T: Float> Random<T> {
    /// The numbers in a block: 4, or 2 in f64.
    pub const PER_BLOCK: u64 = if size_of::<T>() == 8 { 2 } else { 4 };

    /// The numbers of a block, counted from the first one of the call; in f64 two, and zeros.
    pub fn block(&self, block: u64) -> [f64; 4] {
        let halves = |v: u64| [v as u32, (v >> 32) as u32];
        let [low, high] = halves(self.offset.wrapping_add(block));
        let words = philox4x32([low, high, 1, 0], halves(self.seed)).map(u64::from);
        // All words at the upper end of 64 bits.
        let words = match Self::PER_BLOCK {
            2 => [words[0] | words[1] << 32, words[2] | words[3] << 32, 0, 0],
            _ => words.map(|word| word << 32),
        };
        let bits = match (self.distribution, T::DTYPE.precision()) {
            (Distribution::Uniform, Some(precision)) => precision,
            _ if Self::PER_BLOCK == 2 => 53,
            _ => 24,
        };
        let fractions = words.map(|word| (word >> (64 - bits)) as f64 * (-f64::from(bits)).exp2());
        let [a, b, c, d] = fractions;
        match self.distribution {
            Distribution::Uniform => fractions,
            Distribution::Normal if Self::PER_BLOCK == 2 => {
                let [first, second] = normal(a, b);
                [first, second, 0.0, 0.0]
            }
            Distribution::Normal => {
                let ([first, second], [third, fourth]) = (normal(a, b), normal(c, d));
                [first, second, third, fourth]
            }
        }
    }
}

/// Two normal numbers of two uniform ones.
fn normal(u: f64, v: f64) -> [f64; 2] {
    let radius = (-2.0 * (1.0 - u).ln()).sqrt();
    // The nearest quarter of a turn; the rest is exact.
    let quarter = (4.0 * v).round();
    let (sin, cos) = ((v - quarter / 4.0) * core::f64::consts::TAU).sin_cos();
    let (sin, cos) = match quarter as u32 % 4 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    };
    [radius * cos, radius * sin]
}

impl<T: Float> Op for Random<T> {
    fn name(&self) -> &'static str {
        match self.distribution {
            Distribution::Uniform => "random_uniform",
            Distribution::Normal => "random_normal",
        }
    }
    fn infer(&self, _: &args::random::Shapes<'_>) -> Result<[Shape; 0]> {
        Ok([])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        match self.distribution {
            Distribution::Uniform => Tolerance::Exact,
            Distribution::Normal => Tolerance::rounded(dtype),
        }
    }
}

family! {
    /// Random numbers in `T`.
    pub trait RandomOps<T: Float>: Execute<Random<T>>;
    methods RandomMethods;
}

/// The methods of [`RandomOps`].
pub trait RandomMethods: Backend {
    /// [`Random`] numbers: a tensor of these extents.
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let y = b.random(&[2, 3], Random::<f32>::uniform(7))?;
    /// assert!(y.to_vec(&b)?.iter().all(|y| (0.0..1.0).contains(y)));
    /// let (begin, rest) = (b.random(&[4], Random::<f32>::normal(7))?, b.random(&[8], Random::<f32>::normal(7).offset(1))?);
    /// assert_eq!(b.random(&[12], Random::<f32>::normal(7))?.to_vec(&b)?, [begin.to_vec(&b)?, rest.to_vec(&b)?].concat());
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn random<T: Float>(&self, shape: impl IntoShape, op: impl Into<Random<T>>) -> Result<TensorOf<Self, T>>
    where
        Self: RandomOps<T>,
    {
        let op = op.into();
        let mut y = self.empty(shape)?;
        self.random_into(&mut y, op)?;
        Ok(y)
    }
    /// [`random`](Self::random) into `y`.
    ///
    /// # Errors
    /// Any error that the backend reports.
    fn random_into<T: Float>(
        &self,
        mut y: impl AsViewMut<Self::Space, T>,
        op: impl Into<Random<T>>,
    ) -> Result<()>
    where
        Self: RandomOps<T>,
    {
        let op = op.into();
        self.run(&op, args::random::Args { y: y.view_mut() })
    }
}
