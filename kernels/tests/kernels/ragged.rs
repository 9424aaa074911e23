//! Attention over sequences that differ in length: each against a plain loop, side by side and in blocks alike to the bit, and
//! what is recorded of indices out of range.
use crate::data::{Buffer, Element, Layout, Random, assert_close, view};
use crate::host::{Record, WAVES, device, run_plan};
use crate::matrix::device as matrix_device;
use half::{bf16, f16};
use ops_kernels::attention::ARRIVALS;
use ops_kernels::attention::ragged::{self, Keys, Ragged};
use ops_kernels::index::Report;
use ops_kernels::{Device, Matrix, Plan};

/// Query heads, key heads, features, width of the values.
type Heads = [u64; 4];

struct Call<'a> {
    heads: Heads,
    /// Queries and keys of each sequence.
    lengths: &'a [[u32; 2]],
    causal: bool,
    window: [Option<u64>; 2],
}

fn causal(heads: Heads, lengths: &[[u32; 2]]) -> Call<'_> {
    Call { heads, lengths, causal: true, window: [None, None] }
}

impl Call<'_> {
    /// The kernel if a sequence may have up to `most` keys: with a query for each sequence and few keys, a row has a block of its own.
    fn variant(&self, several: &str, most: u64) -> String {
        let sequences = self.lengths.len() as u64;
        let queries: u64 = self.lengths.iter().map(|[q, _]| u64::from(*q)).sum();
        let right = if self.causal { Some(0) } else { self.window[1] };
        let visible = match (self.window[0], right) {
            (Some(left), Some(right)) => most.min(left + right + queries),
            _ => most,
        };
        let short = queries <= sequences && sequences * visible <= 3072;
        if short { several.replace("rows4", "rows1") } else { several.to_owned() }
    }
}

/// The numbers of the call: rows of q, k and v.
struct Inputs<T> {
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
}

fn random<T: Element>(n: u64, seed: u64) -> Vec<T> {
    let mut random = Random::new(seed);
    (0..n).map(|_| T::from_f64(random.normal())).collect()
}

fn sums(lengths: &[[u32; 2]], which: usize) -> Vec<u32> {
    let mut sum = 0;
    let ends = lengths.iter().map(|length| {
        sum += length[which];
        sum
    });
    std::iter::once(0).chain(ends).collect()
}

impl Call<'_> {
    fn rows(&self, which: usize) -> u64 {
        self.lengths.iter().map(|length| u64::from(length[which])).sum()
    }
    fn inputs<T: Element>(&self) -> Inputs<T> {
        let [h, kv, d, dv] = self.heads;
        let (n, m) = (self.rows(0), self.rows(1));
        Inputs { q: random(n * h * d, 1), k: random(m * kv * d, 2), v: random(m * kv * dv, 3) }
    }
    /// The contract, one query at a time, scaled by 0.3.
    fn reference<T: Element>(&self, x: &Inputs<T>) -> Vec<f64> {
        let [h, kv, d, dv] = self.heads.map(|n| n as usize);
        let (mut out, mut first_query, mut first_key) = (Vec::new(), 0, 0);
        for [t, s] in self.lengths.iter().map(|length| length.map(|n| n as usize)) {
            for (i, head) in (0..t).flat_map(|i| (0..h).map(move |head| (i, head))) {
                let row = ((first_query + i) * h + head) * d;
                let line = |j: usize| (first_key + j) * kv + head / (h / kv);
                let position = s as i64 - t as i64 + i as i64;
                let visible = |j: usize| {
                    let distance = j as i64 - position;
                    (!self.causal || distance <= 0)
                        && self.window[0].is_none_or(|left| -distance <= left as i64)
                        && self.window[1].is_none_or(|right| distance <= right as i64)
                };
                let score = |j: usize| {
                    let dot = |e: usize| x.q[row + e].to_f64() * x.k[line(j) * d + e].to_f64();
                    (j, 0.3 * (0..d).map(dot).sum::<f64>())
                };
                let scores: Vec<(usize, f64)> = (0..s).filter(|j| visible(*j)).map(score).collect();
                let most = scores.iter().map(|s| s.1).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|s| (s.1 - most).exp()).sum();
                out.extend((0..dv).map(|e| {
                    let weighed =
                        scores.iter().map(|s| (s.1 - most).exp() * x.v[line(s.0) * dv + e].to_f64());
                    if scores.is_empty() { 0.0 } else { weighed.sum::<f64>() / sum }
                }));
            }
            (first_query, first_key) = (first_query + t, first_key + s);
        }
        out
    }
}

/// Where the keys of a test are.
enum Place<'a> {
    /// Entries of `cu_k`.
    SideBySide(&'a [u32]),
    /// Keys of a block; blocks of the cache; rows of the table, and lengths.
    Blocks(u64, u64, &'a [i32], &'a [i32]),
}

/// Runs a call; `o` is n rows. What it records is the report's to see.
fn execute<T: Element>(
    call: &Call<'_>,
    x: &Inputs<T>,
    (cu_q, place): (&[u32], &Place<'_>),
    device: &Device,
    report: Report,
) -> (Vec<T>, Plan) {
    let [heads, kv_heads, d, dv] = call.heads;
    let (n, m) = (call.rows(0), (x.k.len() as u64) / (kv_heads * d));
    let contiguous = |dims: &[u64]| Layout::contiguous(dims);
    let rows = |dims: [u64; 2]| match place {
        Place::SideBySide(_) => contiguous(&[m, dims[0], dims[1]]),
        Place::Blocks(block, blocks, ..) => contiguous(&[*blocks, *block, dims[0], dims[1]]),
    };
    let (of_q, of_o) = (contiguous(&[n, heads, d]), contiguous(&[n, heads, dv]));
    let (of_k, of_v) = (rows([kv_heads, d]), rows([kv_heads, dv]));
    let (q, k, v) = (Buffer::new(&x.q, 0), Buffer::new(&x.k, 0), Buffer::new(&x.v, 0));
    let o = Buffer::filled(T::from_f64(77.0), (n * heads * dv) as usize, 0);
    let starts = Buffer::new(cu_q, 0);
    let (cu_k, table, lengths) = match place {
        Place::SideBySide(cu_k) => (Buffer::new(cu_k, 0), Buffer::new(&[], 0), Buffer::new(&[], 0)),
        Place::Blocks(_, _, table, lengths) => {
            (Buffer::new(&[], 0), Buffer::new(table, 0), Buffer::new(lengths, 0))
        }
    };
    let sequences = cu_q.len() as u64 - 1;
    let (along, width) = (contiguous(&[sequences]), table.slice().len() as u64 / sequences.max(1));
    let of_table = contiguous(&[sequences, width]);
    let keys = match place {
        Place::SideBySide(_) => Keys::SideBySide { cu_k: view(&cu_k, &along), rows: m },
        Place::Blocks(block, blocks, ..) => Keys::Blocks {
            table: view(&table, &of_table),
            lengths: view(&lengths, &along),
            width,
            blocks: *blocks,
            block: *block,
        },
    };
    let ragged = Ragged {
        sequences,
        heads,
        kv_heads,
        n,
        d,
        dv,
        q: view(&q, &of_q),
        k: view(&k, &of_k),
        v: view(&v, &of_v),
        o: view(&o, &of_o),
        cu_q: view(&starts, &along),
        keys,
        slopes: None,
        sinks: None,
        lse: None,
        scale: 0.3,
        causal: call.causal,
        window: call.window,
        softcap: None,
        reports: [report, Report { op: 2, ..report }, Report { op: 3, ..report }],
    };
    let mut plan = Plan::default();
    ragged::prepare(&ragged, device, &mut plan).expect("a kernel");
    let partial = Buffer::filled(f64::NAN, plan.workspace.div_ceil(8) as usize, 0);
    let arrivals = Buffer::filled(0u32, ARRIVALS as usize, 0);
    run_plan(device, &mut plan, [partial.address(), arrivals.address()]);
    partial.check_guards();
    arrivals.check_guards();
    assert!(arrivals.slice().iter().all(|n| *n == 0), "counters are 0 again");
    o.check_guards();
    (o.slice().to_vec(), plan)
}

/// The keys of a call in blocks, in reverse order behind one block that no sequence uses.
fn in_blocks<T: Element>(call: &Call<'_>, x: &Inputs<T>, block: u64) -> (Inputs<T>, Vec<i32>, u64) {
    let [_, kv, d, dv] = call.heads;
    let of = |s: u32| u64::from(s).div_ceil(block);
    let width = call.lengths.iter().map(|[_, s]| of(*s)).max().unwrap_or(0) + 1;
    let blocks = 1 + call.lengths.iter().map(|[_, s]| of(*s)).sum::<u64>();
    let nan = T::from_f64(f64::NAN);
    let (mut k, mut v) =
        (vec![nan; (blocks * block * kv * d) as usize], vec![nan; (blocks * block * kv * dv) as usize]);
    let (mut next, mut row, mut table) = (blocks, 0, Vec::new());
    for [_, s] in call.lengths {
        let begin = table.len();
        for j in 0..u64::from(*s) {
            if j % block == 0 {
                next -= 1;
                table.push(next as i32);
            }
            let to = next * block + j % block;
            let line = |row: u64, width: u64| (row * width) as usize..((row + 1) * width) as usize;
            k[line(to, kv * d)].copy_from_slice(&x.k[line(row, kv * d)]);
            v[line(to, kv * dv)].copy_from_slice(&x.v[line(row, kv * dv)]);
            row += 1;
        }
        table.resize(begin + width as usize, i32::MIN);
    }
    (Inputs { q: x.q.clone(), k, v }, table, blocks)
}

/// Computed by this variant, in parts or not, side by side and in blocks.
fn check<T: Element>(call: &Call<'_>, (variant, parts): (&str, bool), compute_units: u32) {
    let x = call.inputs::<T>();
    let (want, cu_q, cu_k) = (call.reference(&x), sums(call.lengths, 0), sums(call.lengths, 1));
    let lengths: Vec<i32> = call.lengths.iter().map(|[_, s]| *s as i32).collect();
    let devices = if variant.starts_with("ragged_mma") {
        Matrix::ALL.map(|matrix| matrix_device(matrix, compute_units)).to_vec()
    } else {
        WAVES.map(|wave| Device { compute_units, ..device(wave) }).to_vec()
    };
    for device in devices {
        let Device { wave, matrix, .. } = device;
        let what =
            format!("{variant} {:?} {:?}, waves of {wave}, units {matrix:?}", call.heads, call.lengths);
        let record = Record::default();
        let slot = record.slot();
        let report = Report { error: slot.address(), op: 1, operand: 0 };
        let planned = |plan: &Plan| plan.main().expect("a launch").instance.variant;
        let (got, plan) = execute(call, &x, (&cu_q, &Place::SideBySide(&cu_k)), &device, report);
        let side_by_side = call.variant(variant, call.lengths.iter().map(|[_, s]| u64::from(*s)).sum());
        assert_eq!((planned(&plan), plan.workspace > 0), (side_by_side.as_str(), parts), "{what}");
        assert_close(&what, &got, &want, true, 4.0);
        for block in [1, 5, 16] {
            let (x, table, blocks) = in_blocks(call, &x, block);
            let place = Place::Blocks(block, blocks, &table, &lengths);
            let (in_blocks, plan) = execute(call, &x, (&cu_q, &place), &device, report);
            let width = table.len() as u64 / call.lengths.len().max(1) as u64;
            assert_eq!(planned(&plan), call.variant(variant, width * block), "{what}");
            // The table holds more keys than are used, so there may be more parts, or another kernel.
            if parts || plan.workspace > 0 || planned(&plan) != side_by_side {
                assert_close(&what, &in_blocks, &want, true, 4.0);
            } else {
                assert!(in_blocks == got, "{what}: blocks of {block}");
            }
        }
        assert_eq!(record.get().state, 0, "{what}");
    }
}

const MIXED: &[[u32; 2]] = &[[1, 33], [0, 5], [50, 60], [3, 3], [0, 0], [7, 64]];

fn every_kernel<T: Element>() {
    let f64 = T::DTYPE == ops_kernels::ElementType::F64;
    let few = |widest: u64| match (widest, f64) {
        (..=64, true) => "ragged_decode64_rows1",
        (..=64, false) => "ragged_decode64_rows4",
        (..=128, true) => "ragged_decode128_rows1",
        (..=128, false) => "ragged_decode128_rows4",
        (_, true) => "ragged_decode256_rows1",
        (_, false) => "ragged_decode256_rows4",
    };
    check::<T>(&causal([4, 2, 16, 16], MIXED), ("ragged_head64", false), 1);
    check::<T>(&causal([6, 2, 33, 100], MIXED), ("ragged_head128", false), 1);
    check::<T>(&causal([4, 2, 260, 264], MIXED), ("ragged_head256", false), 1);
    check::<T>(&Call { causal: false, ..causal([4, 2, 16, 16], MIXED) }, ("ragged_head64", false), 1);
    let decode: &[[u32; 2]] = &[[1, 60], [1, 1], [0, 7], [2, 90], [1, 17]];
    check::<T>(&causal([8, 2, 64, 40], decode), (few(64), false), 1);
    check::<T>(&causal([6, 2, 20, 20], decode), (few(20), false), 1);
    check::<T>(
        &Call { window: [Some(9), Some(3)], ..causal([8, 1, 128, 256], decode) },
        (few(256), false),
        1,
    );
    check::<T>(&causal([3, 3, 40, 40], &[[1, 60], [1, 9], [0, 3]]), ("ragged_decode64_rows1", false), 1);
    check::<T>(&causal([8, 2, 64, 64], &[[1, 900], [1, 30], [2, 400]]), (few(64), true), 64);
    check::<T>(&causal([8, 2, 128, 128], &[[1, 150], [1, 64], [2, 67]]), (few(128), false), 1);
    // More sequences than a wave has lanes, and than the square of 32 lanes.
    for n in [70, 1100] {
        let many: Vec<[u32; 2]> = (0..n).map(|i| [i % 3, i % 3 + i % 5]).collect();
        check::<T>(&causal([2, 1, 8, 8], &many), (few(8), false), 1);
    }
}

#[test]
fn f16_sequences() {
    every_kernel::<f16>();
}
#[test]
fn bf16_sequences() {
    every_kernel::<bf16>();
}
#[test]
fn f32_sequences() {
    every_kernel::<f32>();
}
#[test]
fn f64_sequences() {
    every_kernel::<f64>();
}

/// Heads of every size, sequences that end within a tile of queries or of keys, and windows, of which the first keys are no tile's.
fn on_matrix_units<T: Element>() {
    let long: &[[u32; 2]] = &[[70, 140], [1, 1], [33, 65]];
    check::<T>(&causal([4, 2, 16, 16], MIXED), ("ragged_mma64", false), 1);
    check::<T>(&Call { causal: false, ..causal([4, 2, 64, 40], MIXED) }, ("ragged_mma64", false), 1);
    check::<T>(&causal([3, 1, 64, 64], long), ("ragged_mma64", false), 1);
    check::<T>(&causal([6, 2, 33, 100], MIXED), ("ragged_mma128", false), 1);
    check::<T>(
        &Call { window: [Some(9), Some(3)], ..causal([2, 1, 128, 72], long) },
        ("ragged_mma128", false),
        1,
    );
    check::<T>(&causal([4, 2, 160, 256], MIXED), ("ragged_mma256", false), 1);
    check::<T>(
        &Call { window: [Some(40), None], ..causal([1, 1, 192, 130], long) },
        ("ragged_mma256", false),
        1,
    );
}

#[test]
fn f16_sequences_on_matrix_units() {
    on_matrix_units::<f16>();
}
#[test]
fn bf16_sequences_on_matrix_units() {
    on_matrix_units::<bf16>();
}

/// The rows of a call with the level *batch*, side by side.
fn by_row<T: Element>(call: &Call<'_>, x: &Inputs<T>, wave: u32) -> Vec<T> {
    let tuning = device(wave).tuning.by_row(true);
    let device = Device { tuning, compute_units: 8, ..device(wave) };
    let (cu_q, cu_k) = (sums(call.lengths, 0), sums(call.lengths, 1));
    execute(call, x, (&cu_q, &Place::SideBySide(&cu_k)), &device, Report::default()).0
}

/// With the level *batch*, rows have the same bits in a call with all sequences, with only their own, and wherever a prefill is cut.
fn bits_of_rows<T: Element>() {
    let lengths = [[1, 300], [40, 48], [0, 4], [7, 7], [1, 1]];
    for (heads, wave) in
        [([4, 2, 24, 40], 32), ([4, 2, 24, 40], 64), ([2, 1, 264, 8], 32), ([2, 1, 264, 8], 64)]
    {
        let [h, kv, d, dv] = heads;
        let all = causal(heads, &lengths);
        let x = all.inputs::<T>();
        let whole = by_row(&all, &x, wave);
        let (mut query, mut key) = (0, 0);
        for [t, s] in lengths {
            // The first queries see the keys before those of the others.
            for cut in [0, 1, 5, t / 2, t].into_iter().filter(|cut| *cut <= t) {
                for (from, to) in [(0, cut), (cut, t)] {
                    let keys = s - (t - to);
                    let take = |x: &[T], first: u32, n: u32, width: u64| {
                        let at = |row: u32| (u64::from(row) * width) as usize;
                        x[at(first)..at(first + n)].to_vec()
                    };
                    let part = Inputs {
                        q: take(&x.q, query + from, to - from, h * d),
                        k: take(&x.k, key, keys, kv * d),
                        v: take(&x.v, key, keys, kv * dv),
                    };
                    let alone = [[to - from, keys]];
                    let got = by_row(&causal(heads, &alone), &part, wave);
                    let want = take(&whole, query + from, to - from, h * dv);
                    assert!(got == want, "{heads:?}, {t} queries, rows {from} to {to}, waves of {wave}");
                }
            }
            (query, key) = (query + t, key + s);
        }
    }
}

#[test]
fn f16_rows_have_the_same_bits_alone() {
    bits_of_rows::<f16>();
}
#[test]
fn f32_rows_have_the_same_bits_alone() {
    bits_of_rows::<f32>();
}

/// Numbers that are no places are recorded; sequences that they belong to are not computed, and nothing outside is touched.
#[test]
fn hostile_sequences() {
    const LENGTHS: &[[u32; 2]] = &[[2, 5], [3, 8]];
    for (heads, wave) in [([4, 2, 8, 8], 32), ([4, 2, 8, 8], 64), ([2, 1, 300, 8], 32)] {
        let call = causal(heads, LENGTHS);
        let (x, cu_q, cu_k) = (call.inputs::<f32>(), [0, 2, 5], [0, 5, 13]);
        let (blocked, table, blocks) = in_blocks(&call, &x, 4);
        let lengths = [5, 8];
        // Op of the report, position, index, bound.
        let run = |x: &Inputs<f32>, cu_q: &[u32], place: Place<'_>, want: (u32, u64, i64, u64)| {
            let record = Record::default();
            let slot = record.slot();
            let report = Report { error: slot.address(), op: 1, operand: 0 };
            execute(&call, x, (cu_q, &place), &device(wave), report);
            let got = record.get();
            assert_eq!((got.state, (got.op, got.position, got.index, got.bound)), (2, want));
        };
        for (cu_q, want) in [
            ([1, 2, 5], (1, 0, 1, 1)),
            ([u32::MAX, 2, 5], (1, 0, u32::MAX.into(), 1)),
            ([0, 6, 5], (1, 1, 6, 6)),
            ([0, u32::MAX, 5], (1, 1, u32::MAX.into(), 6)),
            ([0, 2, 4], (1, 2, 4, 6)),
            ([0, 2, 6], (1, 2, 6, 6)),
        ] {
            run(&x, &cu_q, Place::SideBySide(&cu_k), want);
            run(&blocked, &cu_q, Place::Blocks(4, blocks, &table, &lengths), want);
        }
        run(&x, &cu_q, Place::SideBySide(&[0, 14, 13]), (2, 1, 14, 14));
        run(&x, &cu_q, Place::SideBySide(&[0, 5, u32::MAX]), (2, 2, u32::MAX.into(), 14));
        let bound = table.len() as u64 / 2 * 4 + 1;
        for (at, length) in [(0, 1), (1, -1), (1, i32::MAX), (0, bound as i32)] {
            let mut lengths = lengths;
            lengths[at] = length;
            let want = (2, at as u64, length.into(), bound);
            run(&blocked, &cu_q, Place::Blocks(4, blocks, &table, &lengths), want);
        }
        for (at, block) in [(0, blocks as i32), (1, -1), (table.len() / 2 + 1, i32::MAX), (0, i32::MIN)] {
            let mut table = table.clone();
            table[at] = block;
            let want = (3, at as u64, block.into(), blocks);
            run(&blocked, &cu_q, Place::Blocks(4, blocks, &table, &lengths), want);
        }
    }
}
