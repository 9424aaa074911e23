//! How the keys of a tile are split, and how partial results are combined.
//!
//! Dao et al., "Flash-Decoding", 2023.
use super::super::rows::scratch;
use super::super::threads;
use super::super::vectors::{TaskResult, on_vector, report, unsupported_dtype};
use super::Output;
use super::tile::{Problem, TILE_KEYS, Tile, pieces};
use core::ops::Range;
use ops_core::Result;
use ops_simd::rows::Running;

/// Multiplications that take about as long as one element access.
const MULTIPLICATIONS_PER_ELEMENT: usize = 8;
/// Number of keys in a part under [`Split::ByLength`].
const PART_KEYS: usize = 1024;

/// What determines where the keys of a tile are split. In either case, parts end at multiples of a number of
/// keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Split {
    /// The work of the call: if there are few tiles, they are split until all threads are busy.
    ForThreads,
    /// Only the position of the keys. A row's result then does not depend on other rows or threads.
    ByLength,
}

/// A [`Split`] for the tiles of a call.
pub(super) struct Plan {
    split: Split,
    /// The work of a part that keeps all threads busy, in elements.
    part_cost: usize,
    /// The mean work of a tile, in elements.
    pub(super) mean_cost: usize,
    /// Whether threads process parts of tiles rather than whole tiles.
    pub(super) keys_apart: bool,
}

/// The work of a tile, in elements.
fn cost(p: &Problem<'_>, tile: &Tile) -> usize {
    p.rows(tile).saturating_mul(tile.keys.len().saturating_mul(p.d + p.dv)) / MULTIPLICATIONS_PER_ELEMENT
}

impl Split {
    /// The split that the backend was asked for.
    pub(super) fn of_call() -> Self {
        if threads::by_row() { Split::ByLength } else { Split::ForThreads }
    }
    pub(super) fn plan(self, p: &Problem<'_>, tiles: &[Tile]) -> Plan {
        let (total, largest) = tiles
            .iter()
            .map(|tile| cost(p, tile))
            .fold((0usize, 0), |(total, largest), cost| (total.saturating_add(cost), largest.max(cost)));
        let parts = 2 * threads::count();
        let part_cost = (total / parts).max(threads::MAX_SERIAL_ELEMENTS);
        let keys_apart = threads::count() > 1 && largest > part_cost;
        Plan { split: self, part_cost, mean_cost: total / tiles.len().max(1), keys_apart }
    }
}

impl Plan {
    /// Parts of the tile's keys end at multiples of this number.
    pub(super) fn step(&self, p: &Problem<'_>, tile: &Tile) -> usize {
        match self.split {
            Split::ByLength => PART_KEYS,
            Split::ForThreads if !self.keys_apart => usize::MAX,
            Split::ForThreads => {
                let keys = tile.keys.len();
                let parts = cost(p, tile).div_ceil(self.part_cost).min(keys / (2 * TILE_KEYS)).max(1);
                if parts == 1 { usize::MAX } else { keys.div_ceil(parts).next_multiple_of(TILE_KEYS) }
            }
        }
    }
}

fn run_tile(p: &Problem<'_>, tile: &Tile, o: &mut [f32], running: &mut [Running]) -> TaskResult {
    on_vector!(p.q.dtype, T => Ok(p.run::<T>(tile, o, running)?), else Err(unsupported_dtype(p.q.dtype)))
}

/// Sums and totals of the parts of one tile, kept between tiles to reuse their memory.
#[derive(Default)]
pub(super) struct Partial {
    sums: Vec<f32>,
    running: Vec<Running>,
}

impl Partial {
    /// Computes a tile part by part on this thread.
    pub(super) fn run(&mut self, p: &Problem<'_>, tile: &Tile, step: usize, out: &Output<'_>) -> TaskResult {
        let (rows, parts) = (p.rows(tile), pieces(&tile.keys, step).count().max(1));
        self.sums.clear();
        self.running.clear();
        self.sums.resize(parts * rows * p.dv, 0.0);
        self.running.resize(parts * rows, Running::START);
        let states = self.sums.chunks_exact_mut(rows * p.dv).zip(self.running.chunks_exact_mut(rows));
        for (keys, (sums, running)) in pieces(&tile.keys, step).zip(states) {
            run_tile(p, &Tile { keys, ..tile.clone() }, sums, running)?;
        }
        merge(rows, p.dv, &mut self.sums, &mut self.running);
        out.store(p, tile, &mut self.sums[..rows * p.dv], &self.running[..rows])
    }
}

/// Adds the results of all parts of a tile to those of its first part, in the order of the keys.
fn merge(rows: usize, width: usize, sums: &mut [f32], running: &mut [Running]) {
    let ((total, sums), (all, running)) = (sums.split_at_mut(rows * width), running.split_at_mut(rows));
    for (r, (all, total)) in all.iter_mut().zip(total.chunks_exact_mut(width)).enumerate() {
        let parts = || running.chunks_exact(rows).map(|part| part[r]).zip(sums.chunks_exact(rows * width));
        let largest = parts().fold(all.largest, |m, (part, _)| m.max(part.largest));
        let factor = all.factor(largest);
        if factor != 1.0 {
            total.iter_mut().for_each(|t| *t *= factor);
        }
        (all.total, all.largest) = (all.total * factor, largest);
        for (part, sums) in parts() {
            let factor = part.factor(largest);
            all.total += factor * part.total;
            total.iter_mut().zip(&sums[r * width..]).for_each(|(t, s)| *t += factor * s);
        }
    }
}

/// A part of a tile, and the memory for its results.
struct Part<'m> {
    tile: usize,
    keys: Range<usize>,
    sums: &'m mut [f32],
    running: &'m mut [Running],
}

/// Computes parts of tiles on threads, then combines them.
pub(super) fn run_parts(p: &Problem<'_>, tiles: &[Tile], plan: &Plan, out: &Output<'_>) -> Result<()> {
    let keys_of = |tile: &Tile| pieces(&tile.keys, plan.step(p, tile));
    // A tile without keys has a single part, to which nothing is added.
    let rows_of = |tile: &Tile| keys_of(tile).count().max(1) * p.rows(tile);
    let rows: usize = tiles.iter().map(rows_of).sum();
    let (mut sums, mut running) = (scratch::<f32>(rows * p.dv)?, super::super::rows::reserve(rows)?);
    running.resize(rows, Running::START);
    let sums = sums.as_mut_slice();
    sums.fill(0.0);

    let (mut parts, mut rest) = (Vec::new(), (&mut *sums, &mut running[..]));
    for (at, tile) in tiles.iter().enumerate() {
        let rows = p.rows(tile);
        let mut keys = keys_of(tile);
        for _ in 0..rows_of(tile) / rows {
            let (sums, running);
            (sums, rest.0) = rest.0.split_at_mut(rows * p.dv);
            (running, rest.1) = rest.1.split_at_mut(rows);
            parts.push(Part { tile: at, keys: keys.next().unwrap_or(0..0), sums, running });
        }
    }
    let one = |part: Part<'_>| {
        run_tile(p, &Tile { keys: part.keys, ..tiles[part.tile].clone() }, part.sums, part.running)
    };
    report(p.op, threads::for_each_part(parts, &one))?;

    let mut rest = (sums, &mut running[..]);
    for tile in tiles {
        let (rows, all) = (p.rows(tile), rows_of(tile));
        let (sums, running);
        (sums, rest.0) = rest.0.split_at_mut(all * p.dv);
        (running, rest.1) = rest.1.split_at_mut(all);
        merge(rows, p.dv, sums, running);
        report(p.op, out.store(p, tile, &mut sums[..rows * p.dv], &running[..rows]))?;
    }
    Ok(())
}
