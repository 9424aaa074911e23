//! Drawing tokens from logits, and random numbers.
use super::declare::{methods, ops};
use super::extents;
use crate::{AsViewMut, DType, Error, Execute, Float, Op, Operands, Result, Shape, TensorOf, Tolerance};

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

    /// Random numbers, uniformly distributed from 0 to below 1.
    ///
    /// Operands: `y` of any shape, which is only written.
    ///
    /// Element `i` in row-major order is `⌊w / 2ᵇ⁻ᵖ⌋ · 2⁻ᵖ`. Here `p` is the precision of `T`: 8 bits for bf16, 11 for f16, 24
    /// for f32, 53 for f64. `w` has `b` = 32 bits and is word `i mod 4` of block `offset + ⌊i / 4⌋`; in f64 it has 64 and is words
    /// `2 (i mod 2)`, the lower one, and `2 (i mod 2) + 1` of block `offset + ⌊i / 2⌋`. A block is the four words of
    /// Philox-4×32-10 with the key `seed` and the counter `(block, 1)`, of 64 bits each, low words first.
    ///
    /// So all backends give the same bits, and no number depends on how many there are. To go on with a sequence of `n` numbers, add
    /// `⌈n / 4⌉` to the offset, or `⌈n / 2⌉` in f64. Unlike with [`Sample`], the counter's upper half is 1, so a seed may serve both.
    ///
    /// Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    pub struct RandomUniform<T: Float> {
        /// The key of the random numbers.
        pub seed: u64,
        /// The first block.
        pub offset: u64 = 0,
    }
    /// The sequence of a seed, from its beginning.
    fn seed;
    operands random_uniform { y: inout T }
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

impl<T> RandomUniform<T> {
    /// The same options for numbers of another type.
    pub fn of_type<U>(self) -> RandomUniform<U> {
        self.typed()
    }
    /// Sets the first block.
    pub fn offset(self, offset: u64) -> Self {
        RandomUniform { offset, ..self }
    }
}
impl<T: Float> RandomUniform<T> {
    /// The numbers in a block: 4, or 2 in f64.
    pub const PER_BLOCK: u64 = 16 / if size_of::<T>() == 8 { 8 } else { 4 };

    /// The numbers of a block, counted from the first one of the call; in f64 two, and zeros.
    pub fn block(&self, block: u64) -> [f64; 4] {
        let halves = |v: u64| [v as u32, (v >> 32) as u32];
        let [low, high] = halves(self.offset.wrapping_add(block));
        let words = philox4x32([low, high, 1, 0], halves(self.seed));
        let precision = T::DTYPE.precision().unwrap_or(0);
        let number =
            |word: u64, bits: u32| (word >> (bits - precision)) as f64 * (-f64::from(precision)).exp2();
        match Self::PER_BLOCK {
            2 => {
                let wide = |i: usize| u64::from(words[i]) | u64::from(words[i + 1]) << 32;
                [number(wide(0), 64), number(wide(2), 64), 0.0, 0.0]
            }
            _ => words.map(|word| number(word.into(), 32)),
        }
    }
}
impl<T: Float> Op for RandomUniform<T> {
    fn infer(&self, _: &args::random_uniform::Shapes<'_>) -> Result<[Shape; 0]> {
        Ok([])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Random numbers in `T`.
pub trait RandomOps<T: Float>: Execute<RandomUniform<T>> {
    /// [`RandomUniform`]: a tensor of these extents, with numbers from 0 to below 1.
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, Tensor, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let y: Tensor<_, f32> = b.random_uniform(&[2, 3], RandomUniform::seed(7))?;
    /// assert!(y.to_vec(&b)?.iter().all(|y| (0.0..1.0).contains(y)));
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn random_uniform(&self, dims: &[usize], op: RandomUniform<T>) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(Shape::new(dims)?)?;
        self.random_uniform_into(&mut y, op)?;
        Ok(y)
    }
    /// [`random_uniform`](Self::random_uniform) into `y`.
    ///
    /// # Errors
    /// Any error that the backend reports.
    fn random_uniform_into(&self, mut y: impl AsViewMut<Self::Space, T>, op: RandomUniform<T>) -> Result<()> {
        self.run(&op, args::random_uniform::Args { y: y.view_mut() })
    }
}
impl<T: Float, B: Execute<RandomUniform<T>>> RandomOps<T> for B {}
