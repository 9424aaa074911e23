//! The suite for groups: every collective, on guarded memory, against its definition.
//!
//! Sums are of integers so small that they are exact in every number type and order, so results must be equal.
//!
//! ```
//! use ops_cpu::{Cpu, HostGroup};
//! use ops_test::group::{every_type, run};
//!
//! let ranks = HostGroup::of(vec![Cpu::new(); 2])?;
//! let cases = run(&ranks, every_type(), &[0, 1, 5]).expect("every collective is right");
//! assert!(cases > 1000);
//! # Ok::<(), ops_core::Error>(())
//! ```
use ops_core::group::{Collective, Group, Reduction, SpaceOf};
use ops_core::ops::registry;
use ops_core::{AnyOf, Backend, DType, Num, Space, Wide, with_type};
use std::ops::Range;

/// Elements before and behind each operand, which must not change.
const GUARD: usize = 3;
/// What they hold, and outputs before the call.
const FILLER: u8 = 0xA5;

/// Every element type of the library.
pub fn every_type() -> &'static [DType] {
    registry::Group::Elements.members()
}

/// Runs every collective that takes the types, for these numbers of elements in a part, in place and not; each rank on a thread of its own.
/// Returns the number of cases, each counted once per rank.
///
/// # Errors
/// The first wrong result, or the error of a call, with what was called.
pub fn run<G: Group>(ranks: &[G], dtypes: &[DType], counts: &[usize]) -> Result<usize, String> {
    std::thread::scope(|scope| {
        let spawn = |group| scope.spawn(move || Rank { group, wrong: None, cases: 0 }.run(dtypes, counts));
        let threads: Vec<_> = ranks.iter().map(spawn).collect();
        let results =
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a rank panicked".to_owned())?);
        let results: Vec<Result<usize, String>> = results.collect();
        results.into_iter().sum()
    })
}

/// A collective with the number of elements in a part.
#[derive(Clone, Copy, Debug)]
struct Case {
    op: Collective,
    in_place: bool,
    dtype: DType,
    count: usize,
}

struct Rank<'g, G> {
    group: &'g G,
    /// The first wrong result. The rank goes on, since the others wait for its calls.
    wrong: Option<String>,
    cases: usize,
}

impl<G: Group> Rank<'_, G> {
    fn run(mut self, dtypes: &[DType], counts: &[usize]) -> Result<usize, String> {
        let ops = ops(self.group.size());
        for (&dtype, &count) in dtypes.iter().flat_map(|dtype| counts.iter().map(move |count| (dtype, count)))
        {
            let is_number = registry::Group::Numbers.members().contains(&dtype);
            for &(op, in_place) in ops.iter().filter(|(op, _)| is_number || op.reduction().is_none()) {
                self.collective(Case { op, in_place, dtype, count })?;
            }
            self.ring(dtype, count)?;
        }
        self.wrong.map_or(Ok(self.cases), Err)
    }

    fn collective(&mut self, case: Case) -> Result<(), String> {
        let Case { op, in_place, dtype, count } = case;
        let (rank, size) = (self.group.rank(), self.group.size());
        let given = given(case, rank, size);
        let want = expected(case, rank, size);
        let (initial, written) = match (op, in_place) {
            (Collective::AllGather, true) => {
                let mut initial = vec![FILLER; size * given.len()];
                initial[rank * given.len()..][..given.len()].copy_from_slice(&given);
                (initial, 0..want.len())
            }
            (Collective::ReduceScatter(_), true) => {
                (given.clone(), rank * want.len()..(rank + 1) * want.len())
            }
            (_, true) => (given.clone(), 0..want.len()),
            (_, false) => (vec![FILLER; want.len()], 0..want.len()),
        };
        let failed = |error: ops_core::Error| format!("rank {rank} of {size}, {case:?}: {error}");
        let x = guarded::<G>(self.group, dtype, &given).map_err(failed)?;
        let mut y = guarded::<G>(self.group, dtype, &initial).map_err(failed)?;
        let (x_len, y_len) = (given.len() / dtype.size(), initial.len() / dtype.size());
        let x_view = (!in_place).then(|| x.as_ref().narrow(0, GUARD, x_len)).transpose().map_err(failed)?;
        let y_view = y.as_mut().map(|y| y.narrow(0, GUARD, y_len)).transpose().map_err(failed)?;
        self.group.run(op, x_view, y_view).map_err(failed)?;
        self.compare(&y, written, &want, || format!("{case:?}, {count} elements")).map_err(failed)
    }

    /// Each rank sends to the next one. Even ranks send first.
    fn ring(&mut self, dtype: DType, count: usize) -> Result<(), String> {
        let (rank, size) = (self.group.rank(), self.group.size());
        if size == 1 {
            return Ok(());
        }
        let (next, former) = ((rank + 1) % size, (rank + size - 1) % size);
        let failed =
            |error: ops_core::Error| format!("rank {rank} of {size}, ring of {count} {dtype}: {error}");
        let letter = |from: usize| noise(from, count * dtype.size());
        let x = guarded::<G>(self.group, dtype, &letter(rank)).map_err(failed)?;
        let mut y = guarded::<G>(self.group, dtype, &vec![FILLER; count * dtype.size()]).map_err(failed)?;
        for step in 0..2 {
            let done = if (rank + step) % 2 == 0 {
                let x = x.as_ref().narrow(0, GUARD, count).map_err(failed)?;
                self.group.run(Collective::Send { to: next }, Some(x), None)
            } else {
                let y = y.as_mut().map(|y| y.narrow(0, GUARD, count)).transpose().map_err(failed)?;
                self.group.run(Collective::Recv { from: former }, None, y)
            };
            done.map_err(failed)?;
        }
        let want = letter(former);
        self.compare(&y, 0..want.len(), &want, || format!("ring of {count} {dtype}")).map_err(failed)
    }

    /// Compares the bytes that a call should have written, and the guards.
    fn compare(
        &mut self,
        y: &AnyOf<G::Backend>,
        written: Range<usize>,
        want: &[u8],
        what: impl Fn() -> String,
    ) -> ops_core::Result<()> {
        self.cases += 1;
        let guard = GUARD * y.dtype().size();
        let view = y.as_ref();
        let got = self.group.backend().read_vec::<u8>(view.bytes(), 0, SpaceOf::<G>::len(view.bytes()))?;
        let got = &got[..y.dims()[0] * y.dtype().size()];
        let result = &got[guard + written.start..guard + written.end];
        // Compared at once first: byte by byte takes long without optimisation.
        let differ = || result.iter().zip(want).position(|(got, want)| got != want);
        let first = if result == want { None } else { differ() };
        let guards_are_whole = got[..guard].iter().chain(&got[got.len() - guard..]).all(|b| *b == FILLER);
        let problem = match first {
            Some(at) => {
                let size = y.dtype().size();
                let at = at / size * size;
                let show = |bytes: &[u8]| y.dtype().show(&bytes[at..at + size]);
                format!("element {} is {}, expected {}", at / size, show(result), show(want))
            }
            None if !guards_are_whole => "wrote outside of its operand".to_owned(),
            None => return Ok(()),
        };
        let rank = self.group.rank();
        self.wrong.get_or_insert_with(|| format!("rank {rank}, {}: {problem}", what()));
        Ok(())
    }
}

/// The collectives of all ranks, each with whether it is in place.
fn ops(size: usize) -> Vec<(Collective, bool)> {
    let mut ops = Vec::new();
    for in_place in [false, true] {
        for f in [Reduction::Sum, Reduction::Max] {
            ops.extend([(Collective::AllReduce(f), in_place), (Collective::ReduceScatter(f), in_place)]);
        }
        ops.extend([(Collective::AllGather, in_place), (Collective::AllToAll, in_place)]);
    }
    ops.push((Collective::Broadcast { root: 0 }, true));
    if size > 1 {
        ops.push((Collective::Broadcast { root: size - 1 }, true));
    }
    ops
}

/// A tensor with these elements between guards.
fn guarded<G: Group>(group: &G, dtype: DType, elements: &[u8]) -> ops_core::Result<AnyOf<G::Backend>> {
    let guard = vec![FILLER; GUARD * dtype.size()];
    let bytes = [&guard, elements, &guard].concat();
    group.backend().any_tensor(dtype, [bytes.len() / dtype.size()], &bytes)
}

/// What a rank gives to a collective: small numbers to add, or any bytes.
fn given(case: Case, rank: usize, size: usize) -> Vec<u8> {
    let elements = match case.op {
        Collective::ReduceScatter(_) | Collective::AllToAll => size * case.count,
        _ => case.count,
    };
    if case.op.reduction().is_none() {
        return noise(rank, elements * case.dtype.size());
    }
    with_type!(numbers, case.dtype, T => numbers::<T>(rank, elements), _ => unreachable!("only numbers are reduced"))
}

fn numbers<T: Num>(rank: usize, elements: usize) -> Vec<u8> {
    let number = |i: usize| T::from_wide(Wide::Int(((7 * rank + 3 * i + i / 11) % 13) as i64 - 6));
    let mut bytes = Vec::with_capacity(elements * size_of::<T>());
    (0..elements).for_each(|i| bytes.extend_from_slice(bytemuck::bytes_of(&number(i))));
    bytes
}

/// Bytes that differ from rank to rank.
fn noise(rank: usize, bytes: usize) -> Vec<u8> {
    let mix = |i: usize| (i as u64 ^ (rank as u64) << 40).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..bytes).map(|i| (mix(i) >> 56) as u8).collect()
}

/// What a rank gets, by the definition of the collective.
fn expected(case: Case, rank: usize, size: usize) -> Vec<u8> {
    let of = |from: usize| given(case, from, size);
    let bytes = case.count * case.dtype.size();
    let own = rank * bytes..(rank + 1) * bytes;
    match case.op {
        Collective::AllReduce(f) => reduced(f, case.dtype, (0..size).map(of)),
        Collective::ReduceScatter(f) => {
            reduced(f, case.dtype, (0..size).map(|from| of(from)[own.clone()].to_vec()))
        }
        Collective::AllGather => (0..size).flat_map(of).collect(),
        Collective::AllToAll => (0..size).flat_map(|from| of(from)[own.clone()].to_vec()).collect(),
        Collective::Broadcast { root } => of(root),
        Collective::Send { .. } | Collective::Recv { .. } => unreachable!("the ring has a check of its own"),
    }
}

fn reduced(f: Reduction, dtype: DType, ranks: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    fn join<T: Num>(f: Reduction, a: &[u8], b: &[u8]) -> Vec<u8> {
        let number = bytemuck::pod_read_unaligned::<T>;
        let joined = |a, b| if f == Reduction::Sum { Num::add(a, b) } else { Num::maximum(a, b) };
        let pairs = a.chunks_exact(size_of::<T>()).zip(b.chunks_exact(size_of::<T>()));
        let mut bytes = Vec::with_capacity(a.len());
        pairs.for_each(|(a, b)| bytes.extend_from_slice(bytemuck::bytes_of(&joined(number(a), number(b)))));
        bytes
    }
    let join = |a: Vec<u8>, b: Vec<u8>| with_type!(numbers, dtype, T => join::<T>(f, &a, &b), _ => unreachable!("only numbers are reduced"));
    ranks.reduce(join).unwrap_or_default()
}
