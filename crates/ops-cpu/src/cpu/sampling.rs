//! Drawing tokens from logits, and random numbers.
//!
//! Only ids near a bound are sorted: those that `top_k` keeps, or those in the bin of the id being searched.
//! Bins divide logits by their distance from the largest.
use super::Cpu;
use super::rows::{for_each_part, for_each_row, row};
use super::vectors::{on_vector, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_float};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use core::cmp::Ordering;
use ops_core::ops::{Masses, Random, Sample};
use ops_core::{Call, DType, Float, Layout, Op, Result, Scalar, Wide};
use ops_simd::{Isa, Store};

/// The largest `top_k` for which ids are kept in a list instead of bins.
const MAX_LIST: usize = 1024;
/// Number of logits that are compared with the list's smallest one in a single branch.
const CHUNK: usize = 64;
/// Number of bins per power of two of the probability, of which there are 64.
const BINS_PER_POWER: usize = 32;

/// A logit in the type that differences are computed in.
trait Logit: Copy + PartialOrd {
    /// The difference to the row's largest logit.
    fn below(self, largest: Self) -> f32;
    /// The id of the largest logit of a row: of the first NaN, otherwise of the first among equals.
    fn first_largest(row: &[Self]) -> usize;
    /// Whether nothing can be drawn if this is the row's largest logit: NaN, or −∞.
    fn is_degenerate(self) -> bool;
    const LOWEST: Self;
}
impl Logit for f32 {
    const LOWEST: f32 = f32::NEG_INFINITY;
    #[inline]
    fn below(self, largest: f32) -> f32 {
        // The difference of equal infinities is NaN.
        if self == largest { 0.0 } else { largest - self }
    }
    fn first_largest(row: &[f32]) -> usize {
        ops_simd::rows::arg(Isa::best(), false, row)
    }
    fn is_degenerate(self) -> bool {
        self.is_nan() || self == Self::LOWEST
    }
}
impl Logit for f64 {
    const LOWEST: f64 = f64::NEG_INFINITY;
    #[inline]
    fn below(self, largest: f64) -> f32 {
        if self == largest { 0.0 } else { (largest - self) as f32 }
    }
    fn first_largest(row: &[f64]) -> usize {
        let better = |best: usize, at: usize| {
            let (old, new) = (row[best], row[at]);
            if !old.is_nan() && (new > old || new.is_nan()) { at } else { best }
        };
        (1..row.len()).fold(0, better)
    }
    fn is_degenerate(self) -> bool {
        self.is_nan() || self == Self::LOWEST
    }
}

/// An id and its logit.
type Entry<L> = (L, u32);

/// Descending logits, the lower id first among equals. There is no NaN.
fn order<L: Logit>(a: &Entry<L>, b: &Entry<L>) -> Ordering {
    b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1))
}

/// A number of ids, and their mass.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    mass: u64,
}
impl Sum {
    fn plus(self, other: Sum) -> Sum {
        Sum { count: self.count + other.count, mass: self.mass + other.mass }
    }
}

/// A row, and the masses of its logits.
struct Row<'r, L> {
    logits: &'r [L],
    largest: L,
    masses: Masses,
}

impl<L: Logit> Row<'_, L> {
    fn mass(&self, logit: L) -> u64 {
        self.masses.of(logit.below(self.largest))
    }

    /// The first `k` entries in order, without logits of −∞.
    fn first(&self, k: usize) -> Vec<Entry<L>> {
        let mut list: Vec<Entry<L>> = Vec::with_capacity(2 * k + CHUNK);
        let shorten = |list: &mut Vec<Entry<L>>| {
            if list.len() > k {
                list.select_nth_unstable_by(k - 1, order);
                list.truncate(k);
            }
        };
        // Among equals the later one has the higher id, so it is not taken.
        let mut bar = L::LOWEST;
        for (at, chunk) in self.logits.chunks(CHUNK).enumerate() {
            // No branch per logit, so that the compiler uses vectors.
            if !chunk.iter().fold(false, |any, logit| any | (*logit > bar)) {
                continue;
            }
            let ids = (at * CHUNK) as u32..;
            list.extend(chunk.iter().copied().zip(ids).filter(|(logit, _)| *logit > bar));
            if list.len() >= 2 * k {
                shorten(&mut list);
                bar = list[k - 1].0;
            }
        }
        shorten(&mut list);
        list.sort_unstable_by(order);
        list
    }

    /// The entry at which the running sum first passes a bound, starting from `before`: its id and the sum
    /// including it.
    fn walk(&self, sorted: &[Entry<L>], before: Sum, passes: impl Fn(Sum) -> bool) -> Option<(u32, Sum)> {
        let mut sum = before;
        sorted.iter().find_map(|(logit, id)| {
            sum = sum.plus(Sum { count: 1, mass: self.mass(*logit) });
            passes(sum).then_some((*id, sum))
        })
    }
}

/// A row whose logits are in bins, in descending order.
struct Bins<'r, L> {
    row: Row<'r, L>,
    sums: Vec<Sum>,
}

impl<'r, L: Logit> Bins<'r, L> {
    fn new(row: Row<'r, L>) -> Self {
        let mut bins = Bins { row, sums: vec![Sum::default(); 64 * BINS_PER_POWER] };
        for logit in bins.row.logits {
            if let Some(at) = bins.of(*logit) {
                bins.sums[at] = bins.sums[at].plus(Sum { count: 1, mass: bins.row.mass(*logit) });
            }
        }
        bins
    }

    /// The bin of a logit; none if its mass is certainly 0. Bins descend as logits rise, because every step
    /// rounds monotonically.
    fn of(&self, logit: L) -> Option<usize> {
        let y = logit.below(self.row.largest) * self.row.masses.rate();
        (y < 64.0).then_some((y * BINS_PER_POWER as f32) as usize)
    }

    fn total(&self) -> Sum {
        self.sums.iter().copied().fold(Sum::default(), Sum::plus)
    }

    /// The entry at which the running sum first passes a bound.
    fn find(&self, passes: impl Fn(Sum) -> bool) -> Option<(u32, Sum)> {
        let mut before = Sum::default();
        let at = self.sums.iter().position(|sum| {
            let after = before.plus(*sum);
            let passed = passes(after);
            before = if passed { before } else { after };
            passed
        })?;
        let entries = self.row.logits.iter().copied().zip(0..);
        let mut entries: Vec<Entry<L>> = entries.filter(|(logit, _)| self.of(*logit) == Some(at)).collect();
        entries.sort_unstable_by(order);
        self.row.walk(&entries, before, passes)
    }
}

/// The id of one row; `None` if its masses do not add up, which would be a bug.
fn draw<L: Logit>(op: &Sample<f32>, logits: &[L], counter: i64) -> Option<u32> {
    let first = L::first_largest(logits);
    let largest = logits[first];
    if op.temperature == 0.0 || largest.is_degenerate() {
        return u32::try_from(first).ok();
    }
    let row = Row { logits, largest, masses: op.masses(logits.len()) };
    let k = op.top_k.unwrap_or(usize::MAX);
    if k <= MAX_LIST.min(logits.len()) {
        let list = row.first(k);
        let mass = list.iter().map(|(logit, _)| row.mass(*logit)).sum();
        return choose(op, counter, mass, |passes| row.walk(&list, Sum::default(), passes));
    }
    let bins = Bins::new(row);
    let total = bins.total();
    let kept = if total.count > k as u64 { bins.find(|sum| sum.count >= k as u64)?.1 } else { total };
    choose(op, counter, kept.mass, |passes| bins.find(passes))
}

/// The id drawn from the first ids, whose total mass is given; `find` is that of [`Bins`].
fn choose(
    op: &Sample<f32>,
    counter: i64,
    mut mass: u64,
    find: impl Fn(&dyn Fn(Sum) -> bool) -> Option<(u32, Sum)>,
) -> Option<u32> {
    if op.top_p.is_some() {
        let needed = op.needed(mass);
        mass = find(&|sum| sum.mass >= needed)?.1.mass;
    }
    let target = op.target(counter, mass);
    find(&|sum| sum.mass > target).map(|(id, _)| id)
}

fn sample(op: &Sample<f32>, logits: Raw<'_>, counters: &[i64], ids: RawMut<'_>) -> Result<()> {
    let (v, dtype) = (logits.layout.last(), logits.dtype);
    // Rows consist of one id.
    let (n, stride) = (ids.layout.len(), ids.layout.last_stride());
    let column = Layout::strided(&[n, 1], &[stride, 1], ids.layout.offset())?;
    for_each_row("sample", ids.with_layout(column), v.saturating_mul(4), &|[scratch, wide, _], i, id| {
        let (row, counter) = (row(&logits, i, scratch), counters[i]);
        let drawn = match dtype {
            DType::F32 => draw(op, cast_slice::<u8, f32>(row), counter),
            DType::F64 => draw(op, cast_slice::<u8, f64>(row), counter),
            _ => on_vector!(dtype, E => {
                let wide = &mut cast_slice_mut::<u64, f32>(wide.words(v.div_ceil(2)))[..v];
                ops_simd::cast(Isa::best(), cast_slice::<u8, E>(row), wide, Store::Cached)?;
                draw(op, &*wide, counter)
            }, else return Err(unsupported_dtype(dtype))),
        };
        cast_slice_mut::<u8, u32>(id).fill(drawn.ok_or("the masses of a row do not add up")?);
        Ok(())
    })
}

impl<T: Float> Kernel<Sample<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Sample<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let counter = Raw::of(&a.counter);
        let all = counter.slice::<i64>();
        let counters: Vec<i64> = counter.layout.positions().map(|p| all[p]).collect();
        sample(&op.of_type(), Raw::of(&a.logits), &counters, RawMut::of(&mut a.ids))
    }
}

/// Numbers of a row that one task writes: whole blocks.
const PART: usize = 4096;

fn random(op: Random<f32>, y: RawMut<'_>) -> Result<()> {
    let (n, dtype) = (y.layout.last(), y.dtype);
    for_each_part(op.name(), y, PART, 32, &|_, (row, start), y| {
        let first = row as u64 * n as u64 + start as u64;
        on_float!(dtype, T => {
            let (op, per) = (op.of_type::<T>(), Random::<T>::PER_BLOCK);
            let (mut at, mut block) = (u64::MAX, [0.0; 4]);
            for (i, y) in (first..).zip(cast_slice_mut::<u8, T>(y)) {
                if i / per != at {
                    at = i / per;
                    block = op.block(at);
                }
                *y = T::from_wide(Wide::Float(block[(i % per) as usize]));
            }
        }, else return Err(unsupported_dtype(dtype)));
        Ok(())
    })
}

impl<T: Float> Kernel<Random<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Random<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        random(op.of_type(), RawMut::of(&mut a.y))
    }
}
