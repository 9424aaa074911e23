//! Properties that hold for any numbers.
use crate::model::{nmse, values};
use proptest::collection::vec;
use proptest::prelude::*;
use rocm_ops::ops::*;
use rocm_ops::quant::{Block, BlockQ4_0, BlockQ8_0};
use rocm_ops::{
    Backend, Cpu, DType, Element, Float, Host, HostBuffer, Layout, Scalar, Tensor, TensorOf, bf16, f16,
};

type On<T> = TensorOf<Cpu, T>;

/// A tensor of repeating values, rounded to `T`.
fn fill<T: Scalar>(dims: &[usize], numbers: &[f64]) -> On<T> {
    let n: usize = dims.iter().product();
    let data: Vec<T> = numbers.iter().cycle().take(n).map(|v| T::from_f64(*v)).collect();
    Cpu::new().tensor(dims, &data).unwrap()
}

/// Irregular numbers, so that cycling through them gives no pattern.
fn numbers() -> impl Strategy<Value = Vec<f64>> {
    vec(-4.0f64..4.0, 61..=61)
}

/// Half a unit in the last place of 1, in `T`.
fn half_ulp<T: Element>() -> f64 {
    (-f64::from(T::DTYPE.precision().unwrap())).exp2()
}

/// The sum, to which the rounding errors of its additions are added: 300 terms in f64 would otherwise lose more than softmax may.
fn precise_sum(x: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0, 0.0);
    for v in x {
        let next: f64 = sum + v;
        let part = next - sum;
        lost += (sum - (next - part)) + (v - part);
        sum = next;
    }
    sum + lost
}

fn softmax_sums_to_one<T: Float>(rows: usize, n: usize, x: &[f64], scale: f64) {
    let x: Vec<f64> = x.iter().map(|v| v * scale).collect();
    let y = Cpu::new().softmax(fill::<T>(&[rows, n], &x).as_ref(), Softmax::axis(-1)).unwrap();
    for row in values(&Cpu::new(), y.as_ref()).chunks(n) {
        assert!(row.iter().all(|p| (0.0..=1.0).contains(p)));
        // Terms of 16-bit types are rounded once, and no finer than a subnormal. Wider types add the error of exp
        // and of the sum.
        let terms = if T::DTYPE.precision() < Some(24) { 2.0 } else { 16.0 };
        let finest = if T::DTYPE == DType::F16 { (-25f64).exp2() } else { 0.0 };
        let allowed = terms * half_ulp::<T>() + n as f64 * finest;
        let sum = precise_sum(row);
        assert!((sum - 1.0).abs() <= allowed, "{sum} over {n}, allowed {allowed:e}");
    }
}

fn rope_keeps_norms<T: Float>(x: &[f64], angles: &[f64], form: RopeForm, dims: [usize; 4]) {
    let [b, h, t, d] = dims;
    let b_ = Cpu::new();
    let shape = if form == RopeForm::HalfThd { [b, t, h, d] } else { dims };
    let x = fill::<T>(&shape, x);
    let (cos, sin): (Vec<f64>, Vec<f64>) = angles.iter().map(|a| (a.cos(), a.sin())).unzip();
    let (cos, sin) = (fill::<f64>(&[t, d / 2], &cos), fill::<f64>(&[t, d / 2], &sin));
    let y = b_.rope(x.as_ref(), cos.as_ref(), sin.as_ref(), Rope::new(form)).unwrap();
    let (x, y) = (values(&b_, x.as_ref()), values(&b_, y.as_ref()));
    for (x, y) in x.chunks(d).zip(y.chunks(d)) {
        for i in 0..d / 2 {
            let (p, q) = if form == RopeForm::Interleaved { (2 * i, 2 * i + 1) } else { (i, i + d / 2) };
            let norm = |v: &[f64]| v[p].hypot(v[q]);
            assert!((norm(x) - norm(y)).abs() <= 4.0 * half_ulp::<T>() * norm(x).max(1e-3), "{p} and {q}");
        }
    }
}

/// `q[b, h, t, d]` and `k`, `v[b, h_kv, s, d]`.
fn operands<T: Float>([h, kv, t, s, d]: [usize; 5], x: &[f64]) -> [On<T>; 3] {
    let rotated: Vec<f64> = x.iter().rev().copied().collect();
    [fill(&[2, h, t, d], x), fill(&[2, kv, s, d], &x[3..]), fill(&[2, kv, s, d], &rotated)]
}

/// The keys, or values, in another order.
fn reordered<T: Float>(x: &On<T>, order: &[u32]) -> On<T> {
    let ids = Cpu::new().tensor(&[order.len()], order).unwrap();
    Cpu::new().index_select(x.as_ref(), ids.as_ref(), IndexSelect::axis(2)).unwrap()
}

/// A view with these extents, cut from a larger tensor: axes permuted, narrowed or reversed.
fn place(dims: &[usize], order: usize, steps: &[usize], lead: usize) -> (Layout, usize) {
    let mut axes: Vec<usize> = (0..dims.len()).collect();
    axes.rotate_left(order % dims.len().max(1));
    let (mut strides, mut offset, mut step) = (vec![0isize; dims.len()], lead, 1);
    for (i, axis) in axes.into_iter().enumerate() {
        let stride = step * (1 + steps[i] % 3);
        strides[axis] = stride as isize;
        if steps[i].is_multiple_of(2) {
            offset += stride * (dims[axis] - 1);
            strides[axis] = -strides[axis];
        }
        step = stride * dims[axis] + steps[i] % 2;
    }
    let layout = Layout::strided(dims, &strides, offset).unwrap();
    (layout, layout.extent().end + 3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_of_a_softmax_sum_to_one(rows in 1usize..4, n in 1usize..300, x in numbers(), scale in 0.0f64..20.0) {
        softmax_sums_to_one::<f64>(rows, n, &x, scale);
        softmax_sums_to_one::<f32>(rows, n, &x, scale);
        softmax_sums_to_one::<f16>(rows, n, &x, scale);
        softmax_sums_to_one::<bf16>(rows, n, &x, scale);
    }

    #[test]
    fn log_softmax_is_the_logarithm(n in 1usize..200, x in numbers()) {
        let (b, x) = (Cpu::new(), fill::<f64>(&[2, n], &x));
        let y = values(&b, b.softmax(x.as_ref(), Softmax::axis(-1)).unwrap().as_ref());
        let log = values(&b, b.softmax(x.as_ref(), Softmax::axis(-1).log()).unwrap().as_ref());
        for (y, log) in y.iter().zip(log) {
            prop_assert!((y.ln() - log).abs() < 1e-12);
        }
    }

    #[test]
    fn rotations_keep_the_length_of_pairs(
        x in numbers(), angles in numbers(), h in 1usize..4, t in 1usize..6, half in 1usize..40,
    ) {
        for form in [RopeForm::Half, RopeForm::Interleaved, RopeForm::HalfThd] {
            rope_keeps_norms::<f64>(&x, &angles, form, [2, h, t, 2 * half]);
            rope_keeps_norms::<f32>(&x, &angles, form, [1, h, t, 2 * half]);
            rope_keeps_norms::<f16>(&x, &angles, form, [1, h, t, 2 * half]);
        }
    }

    #[test]
    fn attention_to_one_key_is_its_value(kv in 1usize..3, group in 1usize..4, t in 1usize..5, d in 1usize..70, x in numbers()) {
        fn go<T: Float>(dims: [usize; 5], x: &[f64]) {
            let ([h, kv, t, _, d], b) = (dims, Cpu::new());
            let [q, k, v] = operands::<T>(dims, x);
            let o = b.attention(q.as_ref(), k.as_ref(), v.as_ref(), Attention::<T>::full()).unwrap();
            // Broadcast over the queries, and over the heads that share it.
            let v = v.as_ref().reshape(&[2, kv, 1, 1, d]).unwrap().broadcast(&[2, kv, h / kv, t, d]).unwrap();
            assert_eq!(values(&b, o.as_ref()), values(&b, v));
        }
        let dims = [kv * group, kv, t, 1, d];
        go::<f32>(dims, &x);
        go::<f16>(dims, &x);
        go::<bf16>(dims, &x);
        go::<f64>(dims, &x);
    }

    #[test]
    fn the_order_of_keys_does_not_matter(s in 2usize..40, turn in 1usize..40, t in 1usize..5, d in 1usize..40, x in numbers()) {
        let b = Cpu::new();
        let [q, k, v] = operands::<f64>([2, 1, t, s, d], &x);
        let mut order: Vec<u32> = (0..s as u32).collect();
        order.rotate_left(turn % s);
        order.swap(0, s - 1);
        let op = Attention::<f64>::full();
        let plain = b.attention(q.as_ref(), k.as_ref(), v.as_ref(), op).unwrap();
        let (k, v) = (reordered(&k, &order), reordered(&v, &order));
        let turned = b.attention(q.as_ref(), k.as_ref(), v.as_ref(), op).unwrap();
        prop_assert!(nmse(&values(&b, turned.as_ref()), &values(&b, plain.as_ref())) < 1e-24);
    }

    #[test]
    fn queries_may_come_in_any_number_of_passes(s in 1usize..40, cuts in vec(1usize..8, 1..6), d in 1usize..40, x in numbers()) {
        let b = Cpu::new();
        let [q, k, v] = operands::<f32>([4, 2, s, s, d], &x);
        let op = Attention::<f32>::causal();
        let whole = b.attention(q.as_ref(), k.as_ref(), v.as_ref(), op).unwrap();
        let mut done = 0;
        for n in cuts {
            let n = n.min(s - done);
            if n == 0 { break; }
            // The keys up to the last of these queries, as in a cache.
            let [k, v] = [&k, &v].map(|x| x.as_ref().narrow(2, 0, done + n).unwrap());
            let part = b.attention(q.as_ref().narrow(2, done, n).unwrap(), k, v, op).unwrap();
            let want = values(&b, whole.as_ref().narrow(2, done, n).unwrap());
            prop_assert!(nmse(&values(&b, part.as_ref()), &want) < 1e-11);
            done += n;
        }
    }

    #[test]
    fn rms_norm_ignores_the_scale(rows in 1usize..4, n in 1usize..300, x in numbers(), power in -9i32..10) {
        fn go<T: Float>(rows: usize, n: usize, x: &[f64], scale: f64) -> f64 {
            let (b, weight) = (Cpu::new(), fill::<T>(&[n], &x[7..]));
            let norm = |x: On<T>| {
                let y = b.rms_norm(x.as_ref(), weight.as_ref(), RmsNorm::eps(0.0)).unwrap();
                values(&b, y.as_ref())
            };
            // Rounded first, so that scaling by a power of two is exact.
            let x = values(&b, fill::<T>(&[rows, n], x).as_ref());
            let scaled: Vec<f64> = x.iter().map(|v| v * scale).collect();
            nmse(&norm(fill::<T>(&[rows, n], &scaled)), &norm(fill::<T>(&[rows, n], &x)))
        }
        let scale = f64::from(power).exp2();
        prop_assert!(go::<f64>(rows, n, &x, scale) < 1e-28);
        prop_assert!(go::<f32>(rows, n, &x, scale) < 1e-12);
        prop_assert!(go::<bf16>(rows, n, &x, scale) < 1e-12);
    }

    #[test]
    fn layer_norm_has_mean_zero_and_deviation_one(n in 2usize..300, x in numbers(), mean in -1e3f64..1e3) {
        let x: Vec<f64> = x.iter().map(|v| v + mean).collect();
        let b = Cpu::new();
        let y = b.layer_norm(fill::<f32>(&[1, n], &x).as_ref(), None, None, LayerNorm::<f32>::eps(0.0)).unwrap();
        let y = values(&b, y.as_ref());
        let mean = y.iter().sum::<f64>() / n as f64;
        let variance = y.iter().map(|v| v * v).sum::<f64>() / n as f64;
        prop_assert!(mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-4, "{mean} {variance}");
    }

    #[test]
    fn matmul_with_a_transposed_weight_is_linear(m in 1usize..20, k in 1usize..70, n in 1usize..20, x in numbers()) {
        fn go<T: Float>([m, k, n]: [usize; 3], x: &[f64]) -> f64 {
            let (b, a, w) = (Cpu::new(), fill::<T>(&[m, k], x), fill::<T>(&[n, k], &x[5..]));
            let by_matmul = b.matmul(a.as_ref(), w.as_ref().transpose(0, 1).unwrap()).unwrap();
            let by_linear = b.linear(a.as_ref(), w.as_ref()).unwrap();
            nmse(&values(&b, by_linear.as_ref()), &values(&b, by_matmul.as_ref()))
        }
        prop_assert!(go::<f64>([m, k, n], &x) < 1e-20);
        prop_assert!(go::<f32>([m, k, n], &x) < 1e-10);
        prop_assert!(go::<bf16>([m, k, n], &x) < 1e-4);
    }

    #[test]
    fn casts_to_wider_types_and_back_change_nothing(bits in vec(any::<u16>(), 1..200)) {
        fn there_and_back<A: Scalar, B: Scalar>(x: &[A]) {
            let b = Cpu::new();
            let wide = b.cast::<B>(Host::view(x, &[x.len()]).unwrap()).unwrap();
            let back = b.cast::<A>(&wide).unwrap();
            assert!(back.buffer().iter().zip(x).all(|(a, b)| a.to_wide().same(b.to_wide())), "{x:?} through {}", B::DTYPE);
        }
        let halves: Vec<f16> = bits.iter().map(|b| f16::from_bits(*b)).collect();
        let brains: Vec<bf16> = bits.iter().map(|b| bf16::from_bits(*b)).collect();
        there_and_back::<f16, f32>(&halves);
        there_and_back::<f16, f64>(&halves);
        there_and_back::<bf16, f32>(&brains);
        there_and_back::<bf16, f64>(&brains);
        let integers: Vec<i16> = bits.iter().map(|b| *b as i16).collect();
        there_and_back::<i16, f32>(&integers);
        there_and_back::<i16, i64>(&integers);
        let bytes: Vec<u8> = bits.iter().map(|b| *b as u8).collect();
        there_and_back::<u8, f16>(&bytes);
        there_and_back::<u8, bf16>(&bytes);
        there_and_back::<u8, i8>(&bytes);
        let words: Vec<i32> = bits.iter().map(|b| i32::from(*b).wrapping_mul(65_537)).collect();
        there_and_back::<i32, f64>(&words);
        there_and_back::<i32, u32>(&words);
        let singles: Vec<f32> = bits.iter().map(|b| f32::from_bits(u32::from(*b).wrapping_mul(65_537))).collect();
        there_and_back::<f32, f64>(&singles);
    }

    #[test]
    fn copies_between_any_two_layouts_move_every_element(
        dims in vec(1usize..7, 1..5),
        (from, to) in (0usize..5, 0usize..5),
        (steps_from, steps_to) in (vec(0usize..6, 5), vec(0usize..6, 5)),
        lead in 0usize..5,
    ) {
        fn go<T: Scalar + From<u8>>(source: (Layout, usize), target: (Layout, usize)) {
            let b = Cpu::new();
            let data: Vec<T> = (0..source.1).map(|i| T::from((i % 251) as u8)).collect();
            let before = vec![T::from(252); target.1];
            let x: Tensor<Host, T> = Tensor::new(b.upload(&data).unwrap(), source.0).unwrap();
            let buffer: HostBuffer<T> = b.upload(&before).unwrap();
            let mut y: Tensor<Host, T> = Tensor::new(buffer, target.0).unwrap();
            b.copy_into(x.as_ref(), y.as_mut()).unwrap();
            let mut want = before;
            target.0.positions().zip(source.0.positions()).for_each(|(to, from)| want[to] = data[from]);
            assert!(y.buffer().iter().zip(&want).all(|(a, b)| a.to_wide().same(b.to_wide())), "{} to {}", source.0, target.0);
        }
        let (source, target) = (place(&dims, from, &steps_from, lead), place(&dims, to, &steps_to, lead));
        go::<u8>(source, target);
        go::<i16>(source, target);
        go::<f32>(source, target);
        go::<f64>(source, target);
    }

    #[test]
    fn quantized_values_are_within_half_a_step(rows in 1usize..4, blocks in 1usize..5, x in numbers(), scale in 0.01f64..100.0) {
        fn go<Q: Block>(rows: usize, blocks: usize, x: &[f64], steps: f64) {
            let (b, x) = (Cpu::new(), fill::<f32>(&[rows, blocks * Q::LEN], x));
            let stored = b.quantize(x.as_ref(), Q::DTYPE).unwrap();
            assert_eq!(stored.dims(), [rows, blocks]);
            let y = b.dequantize(&stored).unwrap();
            let (x, y) = (values(&b, x.as_ref()), values(&b, y.as_ref()));
            for (x, y) in x.chunks(Q::LEN).zip(y.chunks(Q::LEN)) {
                let largest = x.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                // A step is the largest value divided by the number of codes; the scale itself is rounded to f16.
                for (x, y) in x.iter().zip(y) {
                    assert!((x - y).abs() <= largest / steps, "{x} became {y} beside {largest}");
                }
            }
        }
        let x: Vec<f64> = x.iter().map(|v| v * scale).collect();
        go::<BlockQ8_0>(rows, blocks, &x, 225.0);
        // Seven steps to one side and eight to the other: the farthest code is a whole step away.
        go::<BlockQ4_0>(rows, blocks, &x, 7.9);
    }

    #[test]
    fn selecting_all_rows_in_order_is_a_copy(rows in 1usize..40, n in 1usize..40, x in numbers()) {
        let (b, x) = (Cpu::new(), fill::<f32>(&[rows, n], &x));
        let ids: Vec<u32> = (0..rows as u32).collect();
        let y = b.index_select(x.as_ref(), Host::view(&ids, &[rows]).unwrap(), IndexSelect::axis(0)).unwrap();
        prop_assert_eq!(values(&b, y.as_ref()), values(&b, x.as_ref()));
    }
}
