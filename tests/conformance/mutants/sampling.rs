//! Wrong draws from logits, and wrong random numbers.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::ops::*;
use rocm_ops::{DType, bf16};

const F32: DType = DType::F32;

type Draw = Sample<f32>;

/// How a wrong kernel deviates from the definition.
#[derive(Clone, Copy)]
struct Steps {
    /// The order of two logits and their ids.
    order: fn((f64, usize), (f64, usize)) -> std::cmp::Ordering,
    /// How many of the first ids are kept, given the number whose probabilities reach `top_p`.
    nucleus: fn(usize) -> usize,
    /// The index of the drawn id, given the index at which the running sum exceeds `u`.
    drawn: fn(usize) -> usize,
    /// Counter and key of Philox.
    random: fn(i64, u64) -> ([u32; 4], [u32; 2]),
    /// Which of the four words is used.
    word: usize,
    /// Whether `top_p` counts the probabilities of ids that `top_k` dropped.
    share_of_all: bool,
}

fn halves(v: u64) -> [u32; 2] {
    [v as u32, (v >> 32) as u32]
}
fn words(counter: i64, seed: u64) -> ([u32; 4], [u32; 2]) {
    let [low, high] = halves(counter as u64);
    ([low, high, 0, 0], halves(seed))
}
fn falling(a: (f64, usize), b: (f64, usize)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

const RIGHT: Steps =
    Steps { order: falling, nucleus: |n| n, drawn: |at| at, random: words, word: 0, share_of_all: false };

/// The id of a row without NaN and with a finite largest logit.
fn draw(op: &Draw, logits: &[f64], counter: i64, steps: Steps) -> usize {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|i, j| (steps.order)((logits[*i], *i), (logits[*j], *j)));
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let power = |i: &usize| ((logits[*i] - largest) / op.temperature).exp();
    let all: f64 = order.iter().map(power).sum();
    order.truncate(op.top_k.unwrap_or(order.len()));
    let mut powers: Vec<f64> = order.iter().map(power).collect();
    let reached = |powers: &[f64], bound: f64| {
        let mut sum = 0.0;
        powers.iter().position(|p| {
            sum += p;
            sum > bound
        })
    };
    let total = if steps.share_of_all { all } else { powers.iter().sum() };
    let stay =
        reached(&powers, op.top_p.unwrap_or(1.0) * total * (1.0 - 1e-12)).map_or(powers.len(), |at| at + 1);
    powers.truncate((steps.nucleus)(stay).clamp(1, powers.len()));
    let (counter, key) = (steps.random)(counter, op.seed);
    let u = (f64::from(philox4x32(counter, key)[steps.word]) + 0.5) / 2f64.powi(32);
    let at = reached(&powers, u * powers.iter().sum::<f64>()).unwrap_or(0);
    order[(steps.drawn)(at).min(powers.len() - 1)]
}

/// Another kernel, for rows in which there is something to draw.
fn instead(name: &'static str, steps: Steps) -> Mutant {
    Mutant::instead::<Draw>(name, "sample", F32, move |op, o| {
        let (v, logits, counters) = (last(&o["logits"]), values(&o["logits"]), typed::<i64>(&o["counter"]));
        let counters: Vec<i64> = counters.layout().positions().map(|p| counters.data()[p]).collect();
        let ids = logits.chunks(v).zip(counters).map(|(row, counter)| {
            let nan = row.iter().position(|x| x.is_nan());
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let greedy = op.temperature == 0.0 || largest.is_infinite();
            let first = nan.or_else(|| row.iter().position(|x| greedy && *x == largest));
            first.unwrap_or_else(|| draw(op, row, counter, steps)) as f64
        });
        set(&mut o["ids"], ids.collect::<Vec<f64>>());
    })
}

pub(super) fn mutants() -> Vec<Mutant> {
    let option = |name, f: fn(&mut Draw)| Mutant::before::<Draw>(name, "sample", F32, move |op, _| f(op));
    vec![
        option("temperature ignored", |op| {
            if op.temperature != 0.0 {
                op.temperature = 1.0;
            }
        }),
        option("top_k ignored", |op| op.top_k = None),
        option("one id too many kept by top_k", |op| op.top_k = op.top_k.map(|k| k + 1)),
        option("top_p ignored", |op| op.top_p = None),
        option("always the largest", |op| op.temperature = 0.0),
        option("seed ignored", |op| op.seed = 0),
        option("the seed's upper word ignored", |op| op.seed = u64::from(op.seed as u32)),
        instead(
            "the higher id first among equals",
            Steps { order: |a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)), ..RIGHT },
        ),
        instead("summed in the order of ids", Steps { order: |a, b| a.1.cmp(&b.1), ..RIGHT }),
        instead(
            "the counter's words exchanged",
            Steps { random: |counter, seed| words(counter.rotate_left(32), seed), ..RIGHT },
        ),
        instead(
            "the key's words exchanged",
            Steps { random: |counter, seed| words(counter, seed.rotate_left(32)), ..RIGHT },
        ),
        instead(
            "the counter in the upper words",
            Steps {
                random: |counter, seed| {
                    let ([low, high, ..], key) = words(counter, seed);
                    ([0, 0, low, high], key)
                },
                ..RIGHT
            },
        ),
        instead(
            "the counter in 32 bits",
            Steps { random: |counter, seed| words(i64::from(counter as u32), seed), ..RIGHT },
        ),
        instead("the second random word", Steps { word: 1, ..RIGHT }),
        instead("the next id of the running sum", Steps { drawn: |at| at + 1, ..RIGHT }),
        instead("the id before that of the running sum", Steps { drawn: |at| at.saturating_sub(1), ..RIGHT }),
        instead("one id too few kept by top_p", Steps { nucleus: |n| n - 1, ..RIGHT }),
        instead("one id too many kept by top_p", Steps { nucleus: |n| n + 1, ..RIGHT }),
        instead("top_p of all ids", Steps { share_of_all: true, ..RIGHT }),
        Mutant::before::<Draw>("the first counter for all rows", "sample", F32, |_, o| {
            let counters: Vec<i64> = typed::<i64>(&o["counter"]).data().to_vec();
            let first = o["counter"].layout().positions().next().map(|p| counters[p]);
            edit::<i64>(&mut o["counter"], |_, counter| first.unwrap_or(counter));
        }),
        Mutant::before::<Draw>("logits read without their strides", "sample", F32, |_, o| {
            relayout(&mut o["logits"], forget_strides)
        }),
        Mutant::before::<Draw>("NaN is the smallest", "sample", F32, |_, o| {
            edit::<f32>(&mut o["logits"], |_, v| if v.is_nan() { f32::NEG_INFINITY } else { v });
        }),
        Mutant::before::<Draw>("infinity is a large number", "sample", F32, |_, o| {
            edit::<f32>(&mut o["logits"], |_, v| if v == f32::NEG_INFINITY { -3.0 } else { v });
        }),
        Mutant::before::<Draw>("logits rounded to bf16", "sample", F32, |_, o| {
            edit::<f32>(&mut o["logits"], |_, v| bf16::from_f32(v).to_f32());
        }),
        Mutant::overrun("sample", F32),
        Mutant::declines("sample", F32),
    ]
    .into_iter()
    .chain(random())
    .collect()
}

fn block(at: u64, upper: u32) -> [u32; 4] {
    [at as u32, (at >> 32) as u32, upper, 0]
}

fn random() -> Vec<Mutant> {
    type Numbers = Random<f32>;
    let option = |name, f: fn(&mut Numbers)| {
        Mutant::before::<Numbers>(name, "random_uniform", F32, move |op, _| f(op))
    };
    // Another block and place for an element, or another number of bits.
    let uniform = |name, counter: fn(u64, u64) -> ([u32; 4], usize), bits: u32| {
        Mutant::instead::<Numbers>(name, "random_uniform", F32, move |op, o| {
            let word = |i| {
                let (counter, place) = counter(i, op.offset);
                philox4x32(counter, halves(op.seed))[place]
            };
            let words = (0..o["y"].layout().len() as u64).map(word);
            let numbers = words.map(|word| f64::from(word >> (32 - bits)) / f64::from(1u32 << bits));
            set(&mut o["y"], numbers.collect::<Vec<f64>>());
        })
    };
    let normal = |name, change: fn(f64) -> f64, keep: usize| {
        Mutant::instead::<Numbers>(name, "random_normal", F32, move |op, o| {
            let numbers = (0..o["y"].layout().len() as u64)
                .map(|i| change(op.block(i / 4)[i as usize % 4 / keep * keep]));
            set(&mut o["y"], numbers.collect::<Vec<f64>>());
        })
    };
    vec![
        option("the seed's upper word ignored", |op| op.seed = u64::from(op.seed as u32)),
        option("offset ignored", |op| op.offset = 0),
        option("the offset in 32 bits", |op| op.offset = u64::from(op.offset as u32)),
        uniform(
            "the counters of sample",
            |i, offset| (block(offset.wrapping_add(i / 4), 0), i as usize % 4),
            24,
        ),
        uniform("a block for each number", |i, offset| (block(offset.wrapping_add(i), 1), 0), 24),
        uniform("a bit too few", |i, offset| (block(offset.wrapping_add(i / 4), 1), i as usize % 4), 23),
        normal("the cosine twice", |y| y, 2),
        normal("another variance", |y| y * 1.00001, 1),
        normal("negative", |y| -y, 1),
        Mutant::overrun("random_uniform", F32),
        Mutant::declines("random_normal", F32),
    ]
}
