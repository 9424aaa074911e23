//! Exact mode: operands are small integers, and results must be equal, not only close.
//!
//! Sums and products of the operands are exact in every float type, in any order: the magnitudes of all terms
//! of a result add up to at most 2 to the power of the type's significant bits (2⁸ in bf16, 2¹¹ in f16). A
//! correct kernel therefore never rounds, and bugs far below the op's tolerance are detected: one wrong
//! element among thousands, a lost bit in f32, a factor of 1 + 10⁻⁶.
//!
//! The mode covers only what the contract implies. Copies, `where`, `index_select`, casts and integers are
//! compared exactly elsewhere, on all bit patterns. Norms, softmax and activations are excluded, because
//! their roots, exponentials and quotients may be approximate within the tolerance.
use super::data::{NORMAL, Random, values_of};
use super::draft::CaseBuilder;
use super::placement::Placement;
use super::{Expect, FLOATS, Suite};
use crate::Array;
use ops_core::quant::{BlockQ4_0, BlockQ8_0};
use ops_core::{DType, Tolerance, f16};
use serde_json::json;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in FLOATS {
        if s.wants("matmul", dtype) {
            matmul(s, dtype);
        }
        if s.wants("linear", dtype) {
            linear(s, dtype);
        }
        arithmetic(s, dtype);
        if s.wants("attention", dtype) {
            attention(s, dtype);
        }
        if s.wants("qlinear", dtype) {
            quantized(s, dtype);
        }
    }
}

/// Integers up to this magnitude are exact.
fn limit(dtype: DType) -> f64 {
    2f64.powi(dtype.precision().unwrap_or(1) as i32)
}

/// The largest factor of a product. In f32 it has only as many bits as f16: kernels may split operands for
/// matrix units, and may then omit the products of the lower parts.
fn largest_factor(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 2047.0,
        DType::F64 => 2f64.powi(26),
        half => limit(half),
    }
}

/// Magnitudes of the factors in sums of `k` products, and the distance between nonzero factors.
#[derive(Clone, Copy, Debug)]
struct Magnitudes {
    x: f64,
    weight: f64,
    every: usize,
}

impl Magnitudes {
    /// Chooses magnitudes such that those of the products add up to at most `sum`.
    fn of(k: usize, sum: f64, [x, weight]: [DType; 2]) -> Self {
        let each = sum / k.max(1) as f64;
        if each >= 2.0 {
            let weight = each.sqrt().floor().min(largest_factor(weight));
            return Magnitudes { x: (each / weight).floor().min(largest_factor(x)), weight, every: 1 };
        }
        // Few nonzero factors, twos times ones; the first and the last are always nonzero.
        let every = (2.0 * k as f64 / (sum - 4.0)).ceil() as usize;
        Magnitudes { x: 2.0, weight: 1.0, every }
    }

    /// `rows` rows of `k` first factors.
    fn rows(self, random: &mut Random, rows: usize, k: usize) -> Vec<f64> {
        let kept = |at: usize| {
            let (i, l) = (at / k, at % k);
            l == 0 || l + 1 == k || (l + i * 5).is_multiple_of(self.every)
        };
        (0..rows * k).map(|at| if kept(at) { integer(random, self.x) } else { 0.0 }).collect()
    }
}

/// An integer of either sign from 1 to `most` in magnitude.
fn integer(random: &mut Random, most: f64) -> f64 {
    let magnitude = 1 + random.next() % most as u64;
    let sign = if random.next() >> 40 & 1 == 0 { 1.0 } else { -1.0 };
    sign * magnitude as f64
}

/// Magnitudes of the two factors in a sum of `terms` products and an integer up to 4.
pub(super) fn factors(terms: usize, dtype: DType) -> [f64; 2] {
    let most = Magnitudes::of(terms, limit(dtype) - 4.0, [dtype; 2]);
    assert!(most.every == 1, "too many terms for {dtype}");
    [most.x, most.weight]
}

pub(super) fn integers(random: &mut Random, n: usize, most: f64) -> Vec<f64> {
    (0..n).map(|_| integer(random, most)).collect()
}

fn run(s: &mut Suite<'_>, draft: CaseBuilder) {
    s.expect(draft, Expect::Exactly);
}

/// A case whose name marks it as exact.
fn draft(op: &str, dtype: DType) -> CaseBuilder {
    CaseBuilder::new(op, dtype).note("exact")
}

/// `m × k` times `k × n`: sizes around those of tiles, long sums, and outputs of more than 2¹⁵ elements.
const SIZES: [(usize, usize, usize); 12] = [
    (1, 1, 1),
    (5, 7, 3),
    (17, 16, 17),
    (31, 33, 63),
    (65, 127, 33),
    (64, 64, 64),
    (127, 1, 129),
    (3, 4097, 2),
    (1, 257, 130),
    (2, 1025, 66),
    (4, 128, 257),
    (181, 5, 182),
];

/// Enough columns for kernels with large tiles on a device of sixteen compute units.
const LARGE: [usize; 3] = [17, 5, 1921];

fn matmul(s: &mut Suite<'_>, dtype: DType) {
    const SWAPPED: Placement = Placement::Order(&[0, 2, 1]);
    let plain = [Placement::Plain; 3];
    for (m, k, n) in SIZES {
        run(s, product(dtype, [1, m, k, n], plain));
    }
    run(s, product(dtype, [6, 5, 33, 7], plain));
    let [m, k, n] = LARGE;
    run(s, product(dtype, [1, m, k, n], plain));
    for hows in [
        [SWAPPED, Placement::Plain, Placement::Plain],
        [Placement::Plain, SWAPPED, Placement::Plain],
        [Placement::Gaps; 3],
    ] {
        run(s, product(dtype, [2, 34, 65, 18], hows));
    }
}

fn product(dtype: DType, [batch, m, k, n]: [usize; 4], [a, b, c]: [Placement; 3]) -> CaseBuilder {
    let most = Magnitudes::of(k, limit(dtype), [dtype; 2]);
    let mut random = Random::of(&format!("exact matmul {batch} {m} {k} {n}"));
    let left = values_of(dtype, &most.rows(&mut random, batch * m, k));
    let right = values_of(dtype, &integers(&mut random, batch * k * n, most.weight));
    let draft = draft("matmul", dtype).given("a", &left, &[batch, m, k], a);
    draft.given("b", &right, &[batch, k, n], b).write("c", &[batch, m, n], c)
}

fn linear(s: &mut Suite<'_>, dtype: DType) {
    for (m, k, n) in SIZES {
        for bias in [None, Some(dtype)] {
            run(s, layer(dtype, [m, k, n], dtype, bias, Placement::Plain));
        }
    }
    for weight in FLOATS {
        for bias in [None, Some(dtype), Some(DType::F32)] {
            run(s, layer(dtype, [6, 65, 33], weight, bias, Placement::Plain));
        }
        for [rows, k, n] in [[1, 65, 33], [33, 65, 65], LARGE] {
            let draft = layer(dtype, [rows, k, n], weight, None, Placement::Plain);
            // Matrix units of 16-bit types multiply f32 in two parts. The lower part may be a trace of the upper one instead of
            // zero, so that infinite weights give infinite products.
            let in_parts = dtype == DType::F32 && matches!(weight, DType::F16 | DType::BF16);
            s.expect(
                draft,
                if in_parts { Expect::Within(Tolerance::summed(dtype)) } else { Expect::Exactly },
            );
        }
    }
    run(s, layer(dtype, [6, 65, 33], dtype, Some(dtype), Placement::Gaps));
}

fn layer(
    dtype: DType,
    [m, k, n]: [usize; 3],
    weight: DType,
    bias: Option<DType>,
    how: Placement,
) -> CaseBuilder {
    const BIAS: f64 = 5.0;
    let most = Magnitudes::of(k, limit(dtype) - BIAS, [dtype, weight]);
    let mut random = Random::of(&format!("exact linear {m} {k} {n}"));
    let x = values_of(dtype, &most.rows(&mut random, m, k));
    let w = values_of(weight, &integers(&mut random, n * k, most.weight));
    let draft = draft("linear", dtype).given("x", &x, &[m, k], how).given("weight", &w, &[n, k], how);
    let draft = match bias {
        Some(dtype) => {
            let bias = values_of(dtype, &integers(&mut random, n, BIAS));
            draft.given("bias", &bias, &[n], Placement::Plain)
        }
        None => draft,
    };
    draft.write("y", &[m, n], how)
}

fn arithmetic(s: &mut Suite<'_>, dtype: DType) {
    let (limit, mut random) = (limit(dtype), Random::of("exact arithmetic"));
    for op in ["add", "sub", "mul", "maximum", "minimum"] {
        let most = match op {
            "mul" => limit.sqrt().floor(),
            "add" | "sub" => limit / 2.0,
            _ => limit,
        };
        for dims in [&[1][..], &[127], &[3, 65], &[4097]] {
            for how in [Placement::Plain, Placement::Strided] {
                let n = dims.iter().product();
                let a = values_of(dtype, &integers(&mut random, n, most));
                let b = values_of(dtype, &integers(&mut random, n, most));
                let draft = draft(op, dtype).given("a", &a, dims, how).given("b", &b, dims, how);
                run(s, draft.write("y", dims, Placement::Plain));
            }
        }
    }
    for (mul, add) in [(3.0, 5.0), (-3.0, 7.0), (7.0, -1.0), (1.0, 11.0)] {
        for n in [1, 65, 4097] {
            let most = ((limit - 11.0) / 7.0).floor();
            let x = values_of(dtype, &integers(&mut random, n, most));
            let draft = |op| draft(op, dtype).param("mul", mul).param("add", add);
            run(s, draft("affine").given("x", &x, &[n], Placement::Plain).write("y", &[n], Placement::Plain));
            run(s, draft("affine_inplace").inout("x", &x, &[n], Placement::Strided));
        }
    }
}

/// If a query sees one key, its weight is e⁰ / e⁰ = 1 and the output is its value.
fn attention(s: &mut Suite<'_>, dtype: DType) {
    for [b, h, kv, t, keys, d] in
        [[1, 1, 1, 1, 1, 1], [2, 4, 2, 5, 9, 16], [1, 2, 1, 33, 40, 64], [1, 2, 2, 20, 70, 128]]
    {
        let mut random = Random::of(&format!("exact attention {t} {keys} {d}"));
        let v = values_of(dtype, &integers(&mut random, b * kv * keys * d, limit(dtype)));
        let draft = || {
            let draft = draft("attention", dtype).read("q", &[b, h, t, d], Placement::Plain, NORMAL);
            let draft = draft.read("k", &[b, kv, keys, d], Placement::Plain, NORMAL);
            draft.given("v", &v, &[b, kv, keys, d], Placement::Plain).write(
                "o",
                &[b, h, t, d],
                Placement::Plain,
            )
        };
        run(s, draft().param("window", json!([0, 0])));
        run(s, draft().param("window", json!([0, 0])).param("softcap", 3.0));
        // One visible key per row, different between rows.
        let alone = |row: usize| row * 7 % keys;
        for (flags, seen, hidden) in [(DType::U8, 1.0, 0.0), (dtype, 0.5, f64::NEG_INFINITY)] {
            let mask: Vec<f64> = (0..b * h * t * keys)
                .map(|at| if at % keys == alone(at / keys) { seen } else { hidden })
                .collect();
            let mask = values_of(flags, &mask);
            run(s, draft().given("mask", &mask, &[b, h, t, keys], Placement::Plain));
        }
    }
}

/// When activations are rounded to 8 bits, a block's scale is its largest magnitude over 127. The first
/// value of each block is ±127, so the scale is one and rounding changes nothing. The weights of those
/// values are zero, so that sums stay small.
///
/// A kernel may compute that scale with a reciprocal and be off by an ulp of f32. 16-bit results hide that; f32 results show
/// it. So f32 results are judged like those of a float product, whose tolerance is a millionth of that for blocks.
fn quantized(s: &mut Suite<'_>, dtype: DType) {
    const LEN: usize = 32;
    for format in ["q4_0", "q8_0"] {
        // The last have enough rows, and enough columns, for kernels with large tiles.
        for (m, n, blocks) in [
            (1, 1, 1),
            (1, 33, 5),
            (3, 65, 2),
            (7, 17, 3),
            (33, 18, 9),
            (2, 5, 129),
            (2049, 1, 1),
            (LARGE[0], LARGE[2], 1),
        ] {
            // Scales are a half and one, so sums are multiples of a half, with up to twice the magnitude.
            let k = blocks * LEN;
            let mut most = Magnitudes::of(k, limit(dtype) / 2.0, [DType::BF16; 2]);
            most.x = most.x.min(127.0);
            most.weight = most.weight.min(7.0);
            let mut random = Random::of(&format!("exact qlinear {m} {n} {blocks}"));
            let mut x = most.rows(&mut random, m, k);
            for first in x.iter_mut().step_by(LEN) {
                *first = if *first < 0.0 { -127.0 } else { 127.0 };
            }
            let weight = blocks_of(format, &mut random, n * blocks, most.weight);
            let draft = draft("qlinear", dtype).given("x", &values_of(dtype, &x), &[m, k], Placement::Plain);
            let draft = draft.given("weight", &weight, &[n, blocks], Placement::Plain);
            let near = match dtype {
                DType::F32 => Expect::Within(Tolerance::summed(dtype)),
                _ => Expect::Exactly,
            };
            s.expect(draft.write("y", &[m, n], Placement::Plain), near);
        }
    }
}

/// Blocks of integers up to `most`, the first of each being 0, with scales of a half and one.
fn blocks_of(format: &str, random: &mut Random, n: usize, most: f64) -> Array {
    let mut block = |_| {
        let mut codes = [0i8; 32];
        codes.iter_mut().skip(1).for_each(|code| *code = integer(random, most) as i8);
        (f16::from_f64([0.5, 1.0][(random.next() >> 40) as usize % 2]), codes)
    };
    let blocks = (0..n).map(&mut block);
    let array = if format == "q8_0" {
        Array::from_slice(&blocks.map(|(scale, q)| BlockQ8_0 { scale, q }).collect::<Vec<_>>())
    } else {
        let nibble = |code: i8| (code + 8) as u8;
        let packed =
            |codes: [i8; 32]| core::array::from_fn(|i| nibble(codes[i]) | nibble(codes[i + 16]) << 4);
        let packed = blocks.map(|(scale, codes)| BlockQ4_0 { scale, q: packed(codes) });
        Array::from_slice(&packed.collect::<Vec<_>>())
    };
    array.unwrap_or_else(|e| unreachable!("the suite's own data: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_magnitudes_stay_exact_in_any_order() {
        for x in FLOATS {
            for weight in FLOATS {
                for k in [1, 2, 5, 7, 16, 33, 65, 96, 127, 128, 129, 257, 1025, 4097, 4128] {
                    for sum in [limit(x), limit(x) - 5.0, limit(x) / 2.0] {
                        let most = Magnitudes::of(k, sum, [x, weight]);
                        let rows = most.rows(&mut Random::of("rows"), 9, k);
                        for row in rows.chunks(k) {
                            let total: f64 = row.iter().map(|v| v.abs() * most.weight).sum();
                            assert!(total <= sum, "{x} {weight} {k}: {total} > {sum}, {most:?}");
                            assert!(row[0] != 0.0 && row[k - 1] != 0.0, "{x} {weight} {k}");
                        }
                        assert!(most.x <= largest_factor(x) && most.weight <= largest_factor(weight));
                    }
                }
            }
        }
    }

    #[test]
    fn integers_have_both_signs_and_are_never_zero() {
        let drawn = integers(&mut Random::of("drawn"), 1000, 3.0);
        for v in [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0] {
            assert!(drawn.contains(&v), "{v}");
        }
        assert!(drawn.iter().all(|v| v.abs() <= 3.0 && *v != 0.0));
    }
}
