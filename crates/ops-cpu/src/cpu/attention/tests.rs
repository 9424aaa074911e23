//! Splits of the keys: what they may change, and what they must not.
use super::super::Cpu;
use super::attention;
use super::split::Split;
use super::tile::{Problem, pieces};
use crate::host::raw::{Raw, RawMut};
use crate::host::sequences::Sequences;
use ops_core::ops::AttentionMethods;
use ops_core::{DType, Element, Layout, Scalar, bf16};

/// Numbers without a pattern in −1 .. 1.
fn numbers<T: Scalar>(seed: u64, n: usize) -> Vec<T> {
    let mut state = seed | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        T::from_f64((state >> 33) as f64 / (1u64 << 30) as f64 - 1.0)
    };
    (0..n).map(next).collect()
}

fn raw<'a, T: Element>(x: &'a [T], dims: &[usize]) -> Raw<'a> {
    let layout = Layout::contiguous(dims).unwrap();
    Raw { bytes: bytemuck::cast_slice(x), size: size_of::<T>(), dtype: DType::of::<T>(), layout }
}

const HEADS: usize = 4;
const WIDTH: usize = 64;

/// Causal attention of concatenated sequences of `[queries, keys]`. Sequence `i` uses the last queries of the
/// numbers with seed `seeds[i]`.
fn attend<T: Scalar + Element>(split: Split, threads: usize, sequences: &[([usize; 2], u64)]) -> Vec<Vec<T>> {
    let (mut q, mut k, mut v) = (Vec::new(), Vec::new(), Vec::new());
    let (mut cu_q, mut cu_k) = (vec![0u32], vec![0u32]);
    for ([t, s], seed) in sequences {
        let all: Vec<T> = numbers(*seed, s * HEADS * WIDTH);
        q.extend_from_slice(&all[(s - t) * HEADS * WIDTH..]);
        k.extend(numbers::<T>(seed + 1, s * WIDTH));
        v.extend(numbers::<T>(seed + 2, s * WIDTH));
        cu_q.push(cu_q[cu_q.len() - 1] + *t as u32);
        cu_k.push(cu_k[cu_k.len() - 1] + *s as u32);
    }
    let (n, m) = (cu_q[sequences.len()] as usize, cu_k[sequences.len()] as usize);
    let entries = [cu_q.len()];
    let starts = (raw(&cu_q, &entries), raw(&cu_k, &entries));
    let sequences = Sequences::varlen("attention_varlen", (starts.0, n), (starts.1, m)).unwrap();
    let problem = Problem {
        op: "attention_varlen",
        q: raw(&q, &[1, n, HEADS, WIDTH]),
        k: raw(&k, &[1, m, 1, WIDTH]),
        v: raw(&v, &[1, m, 1, WIDTH]),
        sequences: &sequences,
        mask: None,
        alibi: None,
        sinks: None,
        scale: 0.125,
        softcap: None,
        visible: &|i, t, s| 0..s - t + i + 1,
        heads: HEADS,
        kv_heads: 1,
        d: WIDTH,
        dv: WIDTH,
    };
    let mut o = vec![T::from_f64(0.0); n * HEADS * WIDTH];
    let layout = Layout::contiguous(&[1, n, HEADS, WIDTH]).unwrap();
    let out = RawMut {
        bytes: bytemuck::cast_slice_mut(&mut o),
        size: size_of::<T>(),
        dtype: DType::of::<T>(),
        layout,
    };
    let cpu = Cpu::builder().threads(threads).build().unwrap();
    super::super::threads::with_pool(cpu.pool.as_ref(), || attention(&problem, split, out, None)).unwrap();
    let of = |sequence: &crate::host::sequences::Sequence| {
        o[sequence.queries.start * HEADS * WIDTH..sequence.queries.end * HEADS * WIDTH].to_vec()
    };
    sequences.list.iter().map(of).collect()
}

#[test]
fn pieces_end_at_multiples() {
    let of = |range, step| pieces(&range, step).map(|piece| (piece.start, piece.end)).collect::<Vec<_>>();
    assert_eq!(of(5..21, 8), [(5, 8), (8, 16), (16, 21)]);
    assert_eq!(of(8..9, 8), [(8, 9)]);
    assert_eq!(of(5..21, usize::MAX), [(5, 21)]);
    assert_eq!(of(5..5, 8), []);
}

/// With the split by length, a sequence gives the same bits alone and among others, on any number of threads.
#[test]
fn split_by_length_depends_on_nothing_else() {
    fn check<T: Scalar + Element>() {
        let same = |a: &[T], b: &[T]| bytemuck::cast_slice::<T, u8>(a) == bytemuck::cast_slice::<T, u8>(b);
        let sequences = [([1, 3000], 1), ([1, 40], 20), ([2, 1024], 40), ([1, 1025], 60), ([1, 3000], 1)];
        let alone = sequences.map(|sequence| attend::<T>(Split::ByLength, 1, &[sequence]).concat());
        for threads in [1, 3] {
            let together = attend::<T>(Split::ByLength, threads, &sequences);
            assert!(together.iter().zip(&alone).all(|(a, b)| same(a, b)), "{threads} threads");
        }
        assert!(same(&alone[0], &alone[4]));
        let few = attend::<T>(Split::ByLength, 3, &sequences[..1]);
        assert!(same(&few[0], &alone[0]), "parts of one sequence on three threads");
    }
    check::<f32>();
    check::<bf16>();
}

/// Whatever determines the split, results differ only by rounding.
#[test]
fn splits_agree() {
    let sequences = [([1, 5000], 3), ([1, 7], 30), ([70, 300], 50)];
    let want = attend::<f32>(Split::ForThreads, 1, &sequences);
    for (split, threads) in
        [(Split::ForThreads, 2), (Split::ForThreads, 5), (Split::ByLength, 1), (Split::ByLength, 4)]
    {
        let got = attend::<f32>(split, threads, &sequences);
        let far =
            got.iter().flatten().zip(want.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-6, "{split:?} on {threads} threads: {far}");
    }
}

/// Products of pairs flush subnormal numbers to zero; such results are computed again.
#[test]
fn tiny_and_infinite_values_are_not_lost() {
    use ops_core::Backend;
    use ops_core::ops::Attention;
    let (cpu, keys) = (Cpu::new(), 40);
    let q = cpu.zeros::<bf16>(&[1, HEADS, 1, WIDTH]).unwrap();
    let k = cpu.zeros::<bf16>(&[1, 1, keys, WIDTH]).unwrap();
    let tiny = bf16::from_bits(3);
    for first in [tiny, bf16::INFINITY, bf16::NAN] {
        let mut v = vec![tiny; keys * WIDTH];
        v[0] = first;
        let v = cpu.tensor(&[1, 1, keys, WIDTH], &v).unwrap();
        let o = cpu.attention(&q, &k, &v, Attention::full()).unwrap().to_vec(&cpu).unwrap();
        for row in o.chunks(WIDTH) {
            assert!(
                row[0].to_bits() == first.to_bits() || row[0].is_nan() && first.is_nan(),
                "{first}: {}",
                row[0]
            );
            assert!(row[1..].iter().all(|o| *o == tiny), "{first}: {:?}", &row[1..]);
        }
    }
}
