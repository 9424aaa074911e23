//! sample: an id drawn from each row of logits; random_uniform and random_normal.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

/// Threads per block; `SAMPLE_BLOCK` in the source. There is often only one row, so a block fills a compute
/// unit.
const BLOCK: u32 = 1024;
/// `SAMPLE_BINS` in the source.
const BINS: u32 = 2048;

arguments! {
    /// Arguments of sample.
    pub struct SampleArgs {
        pub logits: u64,
        pub logits_stride: [i64; 2],
        pub counter: u64,
        pub counter_stride: i64,
        pub ids: u64,
        pub ids_stride: i64,
        pub rows: u64,
        pub columns: u64,
        pub top_k: u64,
        pub share: u64,
        pub seed: u64,
        pub rate: f32,
        pub shift: u32,
        pub greedy: u32,
        pub unused: u32,
    }
}

/// Threads per block of random numbers.
const RANDOM_BLOCK: u32 = 256;

arguments! {
    /// Arguments of random_uniform and random_normal.
    pub struct RandomArgs {
        pub shape: Shape,
        pub y: StridedPointer,
        pub seed: u64,
        pub offset: u64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut sample = table.of::<SampleArgs>(Family::Sampling, BLOCK);
    for t in ElementType::FLOATS {
        let (waves, ranked) = (BLOCK / 32, if t.bytes() == 8 { 16 } else { 8 });
        sample.add_variant("sample", "", &[t], "sample", &[], 8 * BINS + 8 * (waves + 2) + ranked * waves);
    }
    let mut random = table.of::<RandomArgs>(Family::Sampling, RANDOM_BLOCK);
    for t in ElementType::FLOATS {
        random.part("uniform").add("random_uniform", &[t], "random_uniform", &[]);
        random.part("normal").add("random_normal", &[t], "random_normal", &[]);
    }
}

/// A draw from logits\[n, v\] with counter\[n\] of i64, written to ids\[n\], u32.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Sample<'a> {
    pub logits: OperandView<'a>,
    pub counter: OperandView<'a>,
    pub ids: OperandView<'a>,
    /// Whether to take the largest logit; the following fields are then ignored.
    pub greedy: bool,
    pub top_k: Option<u64>,
    /// The share of the mass to keep, in units of 2⁻⁶³.
    pub share: u64,
    pub seed: u64,
    /// The factor from a difference of logits to a power of two.
    pub rate: f32,
    /// 2^shift is at least the length of a row.
    pub shift: u32,
}

/// Prepares the draw from `rows` rows of `columns` logits, at least one.
pub fn prepare(
    [rows, columns]: [u64; 2],
    on: &Sample<'_>,
    device: &Device,
) -> Result<(Launch, SampleArgs), Refused> {
    let max = 1 << 32;
    if columns == 0 || columns > max {
        return Err(Refused::Limit { what: "the length of a row", got: columns, max });
    }
    let (&[row, column], &[counter_stride], &[ids_stride]) =
        (on.logits.strides, on.counter.strides, on.ids.strides)
    else {
        return Err(Refused::Rank(on.logits.strides.len()));
    };
    let launch = Launch::over(need("sample", "", &[on.logits.dtype])?, rows, 1, device.row_blocks());
    let args = SampleArgs {
        logits: on.logits.data,
        logits_stride: [row, column],
        counter: on.counter.data,
        counter_stride,
        ids: on.ids.data,
        ids_stride,
        rows,
        columns,
        top_k: on.top_k.map_or(columns, |k| k.min(columns)),
        share: on.share,
        seed: on.seed,
        rate: on.rate,
        shift: on.shift,
        greedy: on.greedy.into(),
        unused: 0,
    };
    Ok((launch, args))
}

/// Prepares the numbers of `op`, random_uniform or random_normal, in `y`, each thread a block of Philox with this seed, from block `offset` on.
pub fn random(
    op: &str,
    dims: &[u64],
    y: OperandView<'_>,
    [seed, offset]: [u64; 2],
    device: &Device,
) -> Result<(Launch, RandomArgs), Refused> {
    let instance = need(op, "", &[y.dtype])?;
    let (shape, [y]) = elementwise(dims, [y])?;
    let blocks = shape.count().div_ceil(if instance.types[0].bytes() == 8 { 2 } else { 4 });
    let launch = Launch::over(instance, blocks, u64::from(RANDOM_BLOCK), device.row_blocks());
    Ok((launch, RandomArgs { shape, y, seed, offset }))
}
