//! Random calls, and a count of what they returned.
use super::guarded::Guarded;
use crate::common::Random;
use ops_simd::{Element, Error, Isa, Store};
use std::collections::BTreeMap;

/// Extents around the widths of vectors, blocks and panels.
const EXTENTS: [usize; 18] = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 130];
/// Numbers that overflow in products and sums.
const HUGE: [usize; 5] = [usize::MAX, usize::MAX - 31, 1 << (usize::BITS - 1), isize::MAX as usize, 1 << 33];

/// Makes arguments.
pub(super) struct Calls {
    random: Random,
    /// By function: calls that computed, and calls that returned an error.
    seen: BTreeMap<&'static str, [usize; 2]>,
}

/// Calls `f` with each instruction set, `rounds` times. Every function that it calls must have computed and must have refused.
pub(super) fn calls(rounds: usize, mut f: impl FnMut(&mut Calls, Isa)) {
    let mut calls = Calls { random: Random::new(1), seen: BTreeMap::new() };
    for isa in Isa::available() {
        (0..rounds).for_each(|_| f(&mut calls, isa));
    }
    println!("{} calls", calls.seen.values().flatten().sum::<usize>());
    for (name, [computed, refused]) in calls.seen {
        assert!(computed > 0 && refused > 0, "{name}: {computed} calls computed, {refused} were refused");
    }
}

impl Calls {
    fn below(&mut self, bound: usize) -> usize {
        (self.random.bits() >> 33) as usize % bound
    }
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
    pub(super) fn extent(&mut self) -> usize {
        self.pick(&EXTENTS)
    }
    /// An extent, mostly a multiple of `of`.
    pub(super) fn multiple(&mut self, of: usize) -> usize {
        let blocks = self.below(4);
        if self.below(8) == 0 { self.extent() } else { blocks * of }
    }
    /// Mostly `right`, otherwise a length near it.
    pub(super) fn near(&mut self, right: usize) -> usize {
        match self.below(24) {
            0 => right + 1,
            1 => right.saturating_sub(1),
            2 => 0,
            3 => 2 * right + 3,
            _ => right,
        }
    }
    /// The same for a number that is not the length of a slice: it may be huge.
    pub(super) fn number(&mut self, right: usize) -> usize {
        if self.below(16) == 0 { self.pick(&HUGE) } else { self.near(right) }
    }
    pub(super) fn store(&mut self) -> Store {
        self.pick(&[Store::Cached, Store::Stream])
    }
    /// About as many numbers, of which some are not finite.
    pub(super) fn floats<T: Element>(&mut self, right: usize) -> Guarded<T> {
        let len = self.near(right);
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0];
        Guarded::new(len, || {
            T::from_f32(if self.below(50) == 0 { self.pick(&odd) } else { self.random.next() * 4.0 })
        })
    }
    pub(super) fn doubles(&mut self, len: usize) -> Guarded<f64> {
        Guarded::new(len, || f64::from(self.random.next()))
    }
    /// About as many random bytes.
    pub(super) fn bytes(&mut self, right: usize) -> Guarded<u8> {
        let len = self.near(right);
        Guarded::new(len, || self.random.bits() as u8)
    }
    /// About as many places, most of which are below `bound`.
    pub(super) fn places(&mut self, right: usize, bound: usize) -> Guarded<usize> {
        let len = self.near(right);
        let huge = self.below(6) == 0;
        Guarded::new(len, || if huge { self.pick(&HUGE) } else { self.below(bound.max(1)) })
    }
    /// Counts what a call returned.
    pub(super) fn saw<T>(&mut self, name: &'static str, result: Result<T, Error>) -> Option<T> {
        self.seen.entry(name).or_default()[usize::from(result.is_err())] += 1;
        result.ok()
    }
}
