//! Blocks of any format as test data.
//!
//! Most are quantized normal values, whose scales and minima are like those of real weights. The rest are
//! random bits, which reach every code and every scale. A read-only format has only random bits.
use super::data::{NORMAL, Random, draw};
use crate::Array;
use ops_core::{BlockInfo, DType};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Distinct blocks per format. Decoding random bits until they are usable takes time, so cases draw from a pool.
const POOL: usize = 128;
/// How many of these have random bits.
const RANDOM: usize = 32;

/// `n` blocks with values of ordinary size.
pub(super) fn blocks(format: DType, n: usize) -> Array {
    static POOLS: Mutex<BTreeMap<DType, Array>> = Mutex::new(BTreeMap::new());
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = pools.entry(format).or_insert_with(|| pool(info(format)));
    let mut random = Random::of(format.name());
    pick(format, n, |_| pool.element(random.next() as usize % POOL).to_vec())
}

/// `n` blocks of random bits whose values are finite.
pub(super) fn any_bits(format: DType, n: usize) -> Array {
    let mut random = Random::of(format.name());
    pick(format, n, |_| random_block(info(format), &mut random, |largest| largest.is_finite()))
}

fn info(format: DType) -> &'static BlockInfo {
    match format {
        DType::Block(info) => info,
        other => unreachable!("the suite's own data: {other} is not a block format"),
    }
}

fn pick(format: DType, n: usize, mut block: impl FnMut(usize) -> Vec<u8>) -> Array {
    let bytes: Vec<u8> = (0..n).flat_map(&mut block).collect();
    Array::from_bytes(format, &bytes).unwrap_or_else(|e| unreachable!("the suite's own data: {e}"))
}

fn pool(info: &'static BlockInfo) -> Array {
    let mut random = Random::of(info.name());
    let values = draw(&mut random, DType::F32, POOL * info.values(), NORMAL);
    let values = values.slice::<f32>().unwrap_or_default();
    pick(DType::Block(info), POOL, |at| {
        let mut block = vec![0; info.bytes()];
        let values = &values[at * info.values()..][..info.values()];
        if at < POOL - RANDOM && info.encode(values, &mut block) {
            return block;
        }
        random_block(info, &mut random, |largest| (0.25..4.0).contains(&largest))
    })
}

/// Random bits whose largest magnitude is accepted; NaN counts as infinite.
fn random_block(info: &BlockInfo, random: &mut Random, accepts: impl Fn(f32) -> bool) -> Vec<u8> {
    let (mut block, mut values) = (vec![0; info.bytes()], vec![0.0f32; info.values()]);
    loop {
        block.iter_mut().for_each(|b| *b = (random.next() >> 32) as u8);
        info.decode(&block, &mut values);
        if accepts(values.iter().fold(0.0, |m, v| if v.is_nan() { f32::INFINITY } else { v.abs().max(m) })) {
            return block;
        }
    }
}
