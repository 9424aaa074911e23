//! Attention over sequences of different lengths, concatenated and in the blocks of a paged cache.
use super::super::data::{NORMAL, values_of};
use super::super::draft::CaseBuilder;
use super::super::index::{ids, sentinel};
use super::super::placement::Placement;
use super::super::{Expect, FLOATS, INDICES, Suite};
use ops_core::DType;
use serde_json::{Value, json};

/// Numbers of heads, key heads and features, and width of the values.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) h: usize,
    pub(super) kv: usize,
    pub(super) d: usize,
    pub(super) dv: usize,
}

pub(super) const HEADS: Heads = Heads { h: 4, kv: 2, d: 16, dv: 16 };

/// Numbers of queries and keys of each sequence.
pub(super) type Lengths<'a> = &'a [[usize; 2]];

/// Sequences of each kind: one query, no queries, more queries than a tile has rows, a length that ends with
/// a block, no keys.
const MIXED: Lengths<'static> = &[[1, 33], [0, 5], [40, 48], [3, 3], [0, 0], [7, 64]];

/// More sequences than a wave has lanes.
fn many() -> Vec<[usize; 2]> {
    (0..70).map(|i| [i % 3, i % 3 + i % 7]).collect()
}

/// `unseen` are further cases of each op.
pub(super) fn cases(s: &mut Suite<'_>, unseen: [fn(&mut Suite<'_>, DType); 2]) {
    for dtype in s.asked("attention_varlen", FLOATS) {
        varlen(s, dtype);
        starts(s, dtype);
        unseen[0](s, dtype);
    }
    for dtype in s.asked("attention_paged", FLOATS) {
        paged(s, dtype);
        layouts(s, dtype);
        unread(s, dtype);
        outside(s, dtype);
        unseen[1](s, dtype);
    }
}

/// Options, sinks and slopes in the combinations in which one can hide another. The sinks of some heads exceed every score.
fn combinations(dtype: DType, h: usize) -> Vec<impl Fn(CaseBuilder) -> CaseBuilder> {
    let params: [&[(&str, Value)]; 7] = [
        &[],
        &[("causal", json!(true))],
        &[("causal", json!(true)), ("window", json!([5, null]))],
        &[("window", json!([3, 2])), ("scale", json!(0.4))],
        &[("window", json!([null, 1])), ("causal", json!(false))],
        &[("softcap", json!(0.5)), ("scale", json!(1.0)), ("causal", json!(true))],
        &[("softcap", json!(2.0)), ("causal", json!(true)), ("window", json!([20, 0]))],
    ];
    let slopes = values_of(dtype, &(0..h).map(|i| 0.5f64.powi(i as i32 + 1)).collect::<Vec<_>>());
    let sinks = values_of(dtype, &(0..h).map(|i| [0.5, 9.0, -3.0, 2.0][i % 4]).collect::<Vec<_>>());
    let extras = [(false, false), (true, false), (false, true), (true, true)];
    let each = |params: &[(&'static str, Value)]| {
        let (params, slopes, sinks) = (params.to_vec(), slopes.clone(), sinks.clone());
        extras.map(move |(with_sinks, with_slopes)| {
            let (params, slopes, sinks) = (params.clone(), slopes.clone(), sinks.clone());
            move |mut draft: CaseBuilder| {
                for (name, value) in &params {
                    draft = draft.param(name, value.clone());
                }
                if with_sinks {
                    draft = draft.given("sinks", &sinks, &[h], Placement::Plain);
                }
                if with_slopes { draft.given("alibi", &slopes, &[h], Placement::Plain) } else { draft }
            }
        })
    };
    params.into_iter().flat_map(each).collect()
}

fn sums(lengths: Lengths<'_>, which: usize) -> Vec<i64> {
    let mut sums = vec![0];
    for length in lengths {
        sums.push(sums[sums.len() - 1] + length[which] as i64);
    }
    sums
}

/// Adds outputs, including denominators, with these placements.
fn outputs(draft: CaseBuilder, [n, h, dv]: [usize; 3], [o, lse]: [Placement; 2]) -> CaseBuilder {
    draft.write("o", &[n, h, dv], o).write_as("lse", DType::F32, &[n, h], lse)
}

fn of_varlen(dtype: DType, heads: Heads, lengths: Lengths<'_>, hows: [Placement; 5]) -> CaseBuilder {
    let (queries, keys) = (sums(lengths, 0), sums(lengths, 1));
    let last = |sums: &[i64]| sums[sums.len() - 1] as usize;
    let ([n, m], Heads { h, kv, d, dv }) = ([last(&queries), last(&keys)], heads);
    let draft = CaseBuilder::new("attention_varlen", dtype).read("q", &[n, h, d], hows[0], NORMAL);
    let draft = draft.read("k", &[m, kv, d], hows[1], NORMAL).read("v", &[m, kv, dv], hows[2], NORMAL);
    let entries = [queries.len()];
    let draft = draft.given("cu_q", &ids(DType::U32, &queries), &entries, hows[3]);
    draft.given("cu_k", &ids(DType::U32, &keys), &entries, hows[4])
}

pub(super) fn plain_varlen(dtype: DType, heads: Heads, lengths: Lengths<'_>) -> CaseBuilder {
    let n = lengths.iter().map(|[t, _]| t).sum();
    let draft = of_varlen(dtype, heads, lengths, [Placement::Plain; 5]);
    outputs(draft, [n, heads.h, heads.dv], [Placement::Plain; 2])
}

const CAUSAL: &str = "causal";

fn varlen(s: &mut Suite<'_>, dtype: DType) {
    for with in combinations(dtype, HEADS.h) {
        s.run(with(plain_varlen(dtype, HEADS, MIXED)));
    }
    // Sequences of more queries than keys; none at all; none with rows.
    for lengths in [
        &[[6, 4], [70, 3], [2, 0]][..],
        &[],
        &[[0, 0], [0, 0]],
        &[[0, 9]],
        &[[3, 0]],
        &[[1, 1100], [33, 200]],
    ] {
        for causal in [false, true] {
            s.run(plain_varlen(dtype, HEADS, lengths).param(CAUSAL, causal));
        }
    }
    for heads in [
        Heads { h: 1, kv: 1, d: 1, dv: 1 },
        Heads { h: 6, kv: 2, d: 33, dv: 40 },
        Heads { h: 3, kv: 3, d: 128, dv: 128 },
        Heads { h: 8, kv: 1, d: 64, dv: 24 },
        Heads { h: 2, kv: 1, d: 250, dv: 256 },
        Heads { h: 2, kv: 1, d: 576, dv: 512 },
        Heads { h: 2, kv: 1, d: 8, dv: 0 },
        Heads { h: 0, kv: 0, d: 8, dv: 8 },
    ] {
        s.run(plain_varlen(dtype, heads, &[[1, 37], [20, 29], [2, 2]]).param(CAUSAL, true));
    }
    // More sequences than a wave has lanes; one query each, where queries share no keys; wide values of some queries.
    for (heads, lengths) in [
        (HEADS, &many()[..]),
        (Heads { h: 6, ..HEADS }, &many()),
        (Heads { h: 3, kv: 3, d: 40, dv: 40 }, &[[1, 37], [0, 3], [1, 5], [1, 700]]),
        (Heads { h: 2, kv: 2, d: 96, dv: 128 }, &[[1, 150], [1, 64]]),
        (Heads { h: 2, kv: 2, d: 160, dv: 256 }, &[[1, 37], [1, 90]]),
        (Heads { h: 2, kv: 1, d: 24, dv: 100 }, MIXED),
        (Heads { h: 2, kv: 1, d: 24, dv: 130 }, MIXED),
    ] {
        s.run(plain_varlen(dtype, heads, lengths).param(CAUSAL, true));
    }
    let n = MIXED.iter().map(|[t, _]| t).sum();
    let places =
        [Placement::Offset, Placement::Gaps, Placement::Strided, Placement::Transposed, Placement::Reversed];
    for how in places {
        for operand in 0..7 {
            let mut hows = [Placement::Plain; 7];
            hows[operand] = how;
            let [q, k, v, cu_q, cu_k, o, lse] = hows;
            let draft = of_varlen(dtype, HEADS, MIXED, [q, k, v, cu_q, cu_k]).param(CAUSAL, true);
            s.run(outputs(draft, [n, HEADS.h, HEADS.dv], [o, lse]));
        }
    }
    // Without denominators.
    let draft = of_varlen(dtype, HEADS, MIXED, [Placement::Plain; 5]).param(CAUSAL, true);
    s.run(draft.write("o", &[n, HEADS.h, HEADS.dv], Placement::Plain));
}

/// Entries that do not begin with 0, fall, go beyond the rows, or end before them.
fn starts(s: &mut Suite<'_>, dtype: DType) {
    let good: [i64; 4] = [0, 3, 3, 5];
    let all_ones = i64::from(u32::MAX);
    let bad = [
        (0, 1, 1),
        (1, 6, 6),
        (1, all_ones, 6),
        (2, 2, 6),
        (2, all_ones - 1, 6),
        (3, 4, 6),
        (3, 6, 6),
        (3, all_ones, 6),
    ];
    for operand in ["cu_q", "cu_k"] {
        for (position, index, bound) in bad {
            let mut wrong = good;
            wrong[position] = index;
            let entries = |name| ids(DType::U32, if name == operand { &wrong } else { &good });
            let mut draft = CaseBuilder::new("attention_varlen", dtype);
            for name in ["q", "k", "v"] {
                draft = draft.read(name, &[5, 1, 8], Placement::Plain, NORMAL);
            }
            for name in ["cu_q", "cu_k"] {
                draft = draft.given(name, &entries(name), &[4], Placement::Plain);
            }
            let note = format!("{operand}[{position}] = {index}");
            let draft = draft.note(&note).write("o", &[5, 1, 8], Placement::Plain);
            s.expect(draft, Expect::Index { operand, position, index, bound });
        }
    }
}

/// A cache and the sequences in it.
pub(super) struct Cache<'a> {
    pub(super) lengths: Lengths<'a>,
    pub(super) block: usize,
    pub(super) index: DType,
    /// Whether sequences use the first sequence's first block, if it is full, instead of their own.
    pub(super) shared: bool,
}

impl Cache<'_> {
    /// The width of the table: one entry more than the longest sequence uses.
    pub(super) fn width(&self) -> usize {
        1 + self.lengths.iter().map(|[_, s]| s.div_ceil(self.block)).max().unwrap_or(0)
    }
    /// The block table, and the number of blocks: those in use in scattered order, and two that no sequence
    /// uses. Unused entries are `unused`.
    pub(super) fn table(&self, unused: i64) -> (Vec<i64>, usize) {
        let used: usize = self.lengths.iter().map(|[_, s]| s.div_ceil(self.block)).sum();
        let blocks = used + 2;
        // A step that has no divisor in common with the number of blocks visits each once.
        let shared = |step: usize| (2..=blocks).any(|n| blocks.is_multiple_of(n) && step.is_multiple_of(n));
        let step = (blocks / 2..).find(|step| !shared(*step)).unwrap_or(1);
        let mut free = (1..).map(|i| (i * step % blocks) as i64);
        let mut table = Vec::new();
        for [_, keys] in self.lengths {
            let row = table.len();
            table.extend(free.by_ref().take(keys.div_ceil(self.block)));
            if self.shared && *keys >= self.block && row > 0 && self.lengths[0][1] >= self.block {
                table[row] = table[0];
            }
            table.resize(row + self.width(), unused);
        }
        (table, blocks)
    }
    fn rows(&self) -> usize {
        self.lengths.iter().map(|[t, _]| t).sum()
    }
}

fn of_cache(dtype: DType, heads: Heads, cache: &Cache<'_>, hows: [Placement; 6]) -> CaseBuilder {
    let (table, blocks) = cache.table(sentinel(cache.index));
    let (Heads { h, kv, d, dv }, b) = (heads, cache.lengths.len());
    let keys: Vec<i64> = cache.lengths.iter().map(|[_, s]| *s as i64).collect();
    let draft = CaseBuilder::new("attention_paged", dtype).read("q", &[cache.rows(), h, d], hows[0], NORMAL);
    let draft = draft.read("k", &[blocks, cache.block, kv, d], hows[1], NORMAL);
    let draft = draft.read("v", &[blocks, cache.block, kv, dv], hows[2], NORMAL);
    let draft = draft.given("block_table", &ids(cache.index, &table), &[b, cache.width()], hows[3]);
    let draft = draft.given("lengths", &ids(cache.index, &keys), &[b], hows[4]);
    let draft = draft.given("cu_q", &ids(DType::U32, &sums(cache.lengths, 0)), &[b + 1], hows[5]);
    if cache.shared { draft.note("shared blocks") } else { draft }
}

pub(super) fn plain_cache(dtype: DType, heads: Heads, cache: &Cache<'_>) -> CaseBuilder {
    let draft = of_cache(dtype, heads, cache, [Placement::Plain; 6]);
    outputs(draft, [cache.rows(), heads.h, heads.dv], [Placement::Plain; 2])
}

fn paged(s: &mut Suite<'_>, dtype: DType) {
    for block in [1, 3, 16, 32, 64] {
        for index in INDICES {
            let cache = Cache { lengths: MIXED, block, index, shared: false };
            s.run(plain_cache(dtype, HEADS, &cache).param(CAUSAL, true));
        }
        let cache = Cache { lengths: MIXED, block, index: DType::U32, shared: true };
        for with in combinations(dtype, HEADS.h) {
            s.run(with(plain_cache(dtype, HEADS, &cache)));
        }
    }
    let many = many();
    let cache = |lengths| Cache { lengths, block: 16, index: DType::I32, shared: false };
    for lengths in
        [&[][..], &[[0, 0]], &[[0, 40]], &[[1, 1]], &[[33, 33]], &[[1, 1100], [1, 5], [2, 16]], &many]
    {
        for causal in [false, true] {
            s.run(plain_cache(dtype, HEADS, &cache(lengths)).param(CAUSAL, causal));
        }
    }
    for heads in [
        Heads { h: 1, kv: 1, d: 1, dv: 1 },
        Heads { h: 6, kv: 2, d: 33, dv: 40 },
        Heads { h: 32, kv: 8, d: 128, dv: 128 },
        Heads { h: 8, kv: 1, d: 64, dv: 24 },
        Heads { h: 2, kv: 1, d: 250, dv: 256 },
        Heads { h: 2, kv: 1, d: 576, dv: 512 },
        Heads { h: 2, kv: 1, d: 8, dv: 0 },
        Heads { h: 0, kv: 0, d: 8, dv: 8 },
    ] {
        s.run(plain_cache(dtype, heads, &cache(&[[1, 37], [20, 29], [2, 2]])).param(CAUSAL, true));
    }
}

fn layouts(s: &mut Suite<'_>, dtype: DType) {
    // The heads of a block outside its rows.
    const HEADS_FIRST: Placement = Placement::Order(&[0, 2, 1, 3]);
    let cache = Cache { lengths: MIXED, block: 16, index: DType::I64, shared: false };
    let places =
        [Placement::Offset, Placement::Gaps, Placement::Strided, Placement::Transposed, Placement::Reversed];
    let of = |hows: [Placement; 8]| {
        let [q, k, v, table, lengths, cu_q, o, lse] = hows;
        let draft = of_cache(dtype, HEADS, &cache, [q, k, v, table, lengths, cu_q]).param(CAUSAL, true);
        outputs(draft, [cache.rows(), HEADS.h, HEADS.dv], [o, lse])
    };
    for how in places {
        for operand in 0..8 {
            let mut hows = [Placement::Plain; 8];
            hows[operand] = how;
            s.run(of(hows));
        }
    }
    for operands in [&[1][..], &[2], &[1, 2]] {
        let mut hows = [Placement::Plain; 8];
        operands.iter().for_each(|at| hows[*at] = HEADS_FIRST);
        s.run(of(hows));
    }
    let cache = Cache { lengths: &[[1, 60], [1, 17]], block: 32, index: DType::U32, shared: false };
    let draft = of_cache(dtype, HEADS, &cache, [Placement::Plain; 6]).param(CAUSAL, true);
    s.run(draft.write("o", &[2, HEADS.h, HEADS.dv], Placement::Plain));
}

/// Blocks that no sequence uses, rows of a block after a sequence's last key and table entries after its last block: NaN, and far
/// out of range.
fn unread(s: &mut Suite<'_>, dtype: DType) {
    for (block, index, unused) in [
        (1, DType::U32, i64::from(u32::MAX) - 1),
        (3, DType::I32, i64::from(i32::MIN)),
        (16, DType::I64, i64::MIN),
        (16, DType::I64, -1),
        (32, DType::U32, 1_000_000),
        (64, DType::U8, 200),
    ] {
        for lengths in [&[[1, 33], [40, 47], [1, 1], [0, 0], [2, 63]][..], &[[1, 700]]] {
            if index == DType::U8 && lengths.len() == 1 {
                continue;
            }
            let cache = Cache { lengths, block, index, shared: false };
            let mut draft = plain_cache(dtype, HEADS, &cache).param(CAUSAL, true).note("NaN around the keys");
            let (table, blocks) = cache.table(unused);
            let mut rows = vec![false; blocks * block];
            for (row, [_, keys]) in table.chunks(cache.width()).zip(lengths) {
                (0..*keys).for_each(|j| rows[row[j / block] as usize * block + j % block] = true);
            }
            for name in ["k", "v"] {
                let Some(operand) = draft.case().operand_mut(name) else { continue };
                let per_row = HEADS.kv * HEADS.d;
                for (at, position) in operand.layout.positions().enumerate() {
                    if !rows[at / per_row] {
                        operand.array.element_mut(position).fill(0xff);
                    }
                }
            }
            let written = ids(index, &table);
            if let Some(operand) = draft.case().operand_mut("block_table") {
                for (at, position) in operand.layout.positions().enumerate() {
                    operand.array.element_mut(position).copy_from_slice(written.element(at));
                }
            }
            s.run(draft);
        }
    }
}

/// Out-of-range lengths, starts and used table entries.
fn outside(s: &mut Suite<'_>, dtype: DType) {
    // Two sequences of 2 and 3 queries, with 5 and 8 keys in blocks of 4, of which there are 6.
    let (table, lengths, starts) = ([5, 2, 0, 1, 4, 0], [5, 8], [0, 2, 5]);
    for index in INDICES {
        let none = sentinel(index);
        let mut bad = vec![
            ("lengths", 0, 1, 13),
            ("lengths", 1, 2, 13),
            ("lengths", 1, 13, 13),
            ("block_table", 0, 6, 6),
            ("block_table", 1, none, 6),
            ("block_table", 4, none, 6),
            ("block_table", 3, 100, 6),
            ("cu_q", 0, 2, 1),
            ("cu_q", 1, 6, 6),
            ("cu_q", 2, 4, 6),
            ("cu_q", 2, i64::from(u32::MAX), 6),
        ];
        if index != DType::U8 {
            bad.push(("lengths", 0, none, 13));
        }
        if matches!(index, DType::I32 | DType::I64) {
            bad.extend([
                ("lengths", 0, -1, 13),
                ("block_table", 3, -1, 6),
                ("block_table", 0, i64::from(i32::MIN), 6),
            ]);
        }
        if index == DType::I64 {
            // Indices whose lower halves are in range.
            bad.extend([
                ("block_table", 0, 1 << 32, 6),
                ("lengths", 1, (1 << 40) + 8, 13),
                ("block_table", 0, i64::MIN, 6),
            ]);
        }
        for (operand, position, wrong, bound) in bad {
            let with = |name, values: &[i64]| {
                let mut values = values.to_vec();
                if name == operand {
                    values[position] = wrong;
                }
                ids(if name == "cu_q" { DType::U32 } else { index }, &values)
            };
            let draft =
                CaseBuilder::new("attention_paged", dtype).read("q", &[5, 2, 8], Placement::Plain, NORMAL);
            let draft = draft.read("k", &[6, 4, 1, 8], Placement::Plain, NORMAL);
            let draft = draft.read("v", &[6, 4, 1, 8], Placement::Plain, NORMAL);
            let draft = draft.given("block_table", &with("block_table", &table), &[2, 3], Placement::Plain);
            let draft = draft.given("lengths", &with("lengths", &lengths), &[2], Placement::Plain);
            let draft = draft.given("cu_q", &with("cu_q", &starts), &[3], Placement::Plain);
            let note = format!("{operand}[{position}] = {wrong}");
            let draft = draft.note(&note).write("o", &[5, 2, 8], Placement::Plain);
            s.expect(draft, Expect::Index { operand, position, index: wrong, bound });
        }
    }
}
