//! Attention, paged attention, cache writes and linear attention.
use crate::compare::*;
use candle_core::{DType, Device, Tensor};
use rocm_ops::backend::Tolerance;
use rocm_ops::ops::*;
use rocm_ops::prelude::{Float, Reference};
use rocm_ops_candle::Extras;

/// Query heads, heads of keys, queries, keys, features of a key and of a value.
const DIMS: [usize; 6] = [4, 2, 3, 7, 8, 6];

fn operands<T: Number>() -> [Tensor; 3] {
    let [h, g, t, s, d, dv] = DIMS;
    [of::<T>(&[2, h, t, d], 1), of::<T>(&[2, g, s, d], 2), of::<T>(&[2, g, s, dv], 3)]
}

/// The options in the type that the adapter takes, and in that of the reference.
fn both<T: Float>(causal: bool, window: (Option<usize>, Option<usize>)) -> (Attention<()>, Attention<T>) {
    fn make<T>(causal: bool, (left, right): (Option<usize>, Option<usize>)) -> Attention<T> {
        let op = if causal { Attention::causal() } else { Attention::full() };
        op.window(left, right).scale(0.4).softcap(3.0)
    }
    (make(causal, window), make(causal, window))
}

in_every_type! {
    fn heads_windows_masks_and_sinks<T>() {
        let [q, k, v] = operands::<T>();
        let [h, _, t, s, ..] = DIMS;
        let r = Reference::new();
        let visible = (values(&[1, 1, t, s], 5).ge(-0.5)).unwrap();
        let added = of::<T>(&[2, h, t, s], 6);
        let sinks = of::<T>(&[h], 7);
        let masks = [ours::<u8>(&visible).into(), ours::<T>(&added).into()];
        let [visible_of_ours, added_of_ours]: [rocm_ops::AnyTensor<rocm_ops::Host>; 2] = masks;
        let sinks_of_ours = ours::<T>(&sinks);
        let none = AttentionExtras::new();
        let cases = [
            (Extras::default(), none),
            (Extras { mask: Some(&visible), ..Extras::default() }, none.mask(&visible_of_ours)),
            (Extras { mask: Some(&added), sinks: Some(&sinks), alibi: None }, none.mask(&added_of_ours).sinks(&sinks_of_ours)),
            (Extras { alibi: Some(&sinks), ..Extras::default() }, none.alibi(&sinks_of_ours)),
        ];
        for (causal, window) in [(false, (None, None)), (true, (None, None)), (true, (Some(2), None)), (false, (Some(1), Some(2)))] {
            let (op, same) = both::<T>(causal, window);
            for (extras, of_ours) in cases {
                let want = r.attention_with(ours::<T>(&q), ours::<T>(&k), ours::<T>(&v), of_ours, same).unwrap();
                let want = want.to_vec(&r).unwrap();
                for (layout, k) in layouts(&k) {
                    let (_, q) = layouts(&q).swap_remove(1);
                    for got in [cpu().attention(&q, &k, &v, extras, op), copying().attention(&q, &k, &v, extras, op)] {
                        let within = Tolerance::attention(<T as rocm_ops::Element>::DTYPE);
                        assert_close::<T>(&got.unwrap(), &[2, h, t, 6], &want, within, layout);
                    }
                }
            }
        }
    }
}

/// Attention of candle's ops: keys are repeated, products and softmax are separate.
fn theirs(q: &Tensor, k: &Tensor, v: &Tensor, scale: f64, mask: Option<&Tensor>) -> Tensor {
    let groups = q.dim(1).unwrap() / k.dim(1).unwrap();
    let repeat = |x: &Tensor| candle_transformers::utils::repeat_kv(x.clone(), groups).unwrap();
    let scores = (q.matmul(&repeat(k).t().unwrap()).unwrap() * scale).unwrap();
    let scores = mask.map_or(scores.clone(), |mask| scores.broadcast_add(mask).unwrap());
    candle_nn::ops::softmax(&scores, 3).unwrap().matmul(&repeat(v)).unwrap()
}

#[test]
fn agrees_with_candles_products_and_softmax() {
    fn of_type<T: Number>() {
        let ([q, k, v], [_, _, t, s, ..]) = (operands::<T>(), DIMS);
        let hidden = |i: usize, j: usize| if j > s - t + i { f32::NEG_INFINITY } else { 0.0 };
        let mask: Vec<f32> = (0..t * s).map(|n| hidden(n / s, n % s)).collect();
        let mask = Tensor::from_vec(mask, (t, s), &Device::Cpu).unwrap();
        let mask = mask.to_dtype(<T as candle_core::WithDType>::DTYPE).unwrap();
        let scale = 1.0 / (8f64).sqrt();
        let got = cpu().attention(&q, &k, &v, Extras::default(), Attention::full()).unwrap();
        matches_candle::<T>(&got, &theirs(&q, &k, &v, scale, None), "full");
        let got = cpu().attention(&q, &k, &v, Extras::default(), Attention::causal()).unwrap();
        matches_candle::<T>(&got, &theirs(&q, &k, &v, scale, Some(&mask)), "causal");
        let with = Extras { mask: Some(&mask), ..Extras::default() };
        let got = cpu().attention(&q, &k, &v, with, Attention::full()).unwrap();
        matches_candle::<T>(&got, &theirs(&q, &k, &v, scale, Some(&mask)), "masked");
    }
    of_type::<f32>();
    of_type::<f64>();
}

in_every_type! {
    fn paged<T>() {
        // Two sequences: three keys in blocks 2 and 0, one key in block 3.
        let (q, k, v) = (of::<T>(&[3, 4, 8], 1), of::<T>(&[4, 2, 2, 8], 2), of::<T>(&[4, 2, 2, 6], 3));
        let (table, lengths) = (indices(&[2, 2], &[2, 0, 3, 9]), indices(&[2], &[3, 1]));
        let cu_q = indices(&[3], &[0, 2, 3]);
        let sinks = of::<T>(&[4], 4);
        let with = Extras { sinks: Some(&sinks), ..Extras::default() };
        let r = Reference::new();
        let (table_of_ours, lengths_of_ours, cu_q_of_ours) =
            (ours::<u32>(&table), ours::<u32>(&lengths), ours::<u32>(&cu_q));
        let pages = Paging { block_table: &table_of_ours, lengths: &lengths_of_ours, cu_q: &cu_q_of_ours };
        let sinks_of_ours = ours::<T>(&sinks);
        let extras = AttentionExtras::new().sinks(&sinks_of_ours);
        let want = r
            .attention_paged(ours::<T>(&q), ours::<T>(&k), ours::<T>(&v), pages, extras, Attention::causal())
            .unwrap()
            .to_vec(&r)
            .unwrap();
        let pages = Paging { block_table: &table, lengths: &lengths, cu_q: &cu_q };
        for (layout, k) in layouts(&k) {
            for got in [
                cpu().attention_paged(&q, &k, &v, pages, with, Attention::causal()),
                copying().attention_paged(&q, &k, &v, pages, with, Attention::causal()),
            ] {
                let within = Tolerance::attention(<T as rocm_ops::Element>::DTYPE);
                assert_close::<T>(&got.unwrap(), &[3, 4, 6], &want, within, layout);
            }
        }
        // The first sequence alone, its keys gathered, as candle computes it.
        let rows = |cache: &Tensor| {
            let flat = cache.reshape((8, 2, cache.dim(3).unwrap())).unwrap();
            let keys = flat.index_select(&indices(&[3], &[4, 5, 0]), 0).unwrap();
            keys.transpose(0, 1).unwrap().unsqueeze(0).unwrap().contiguous().unwrap()
        };
        let one = q.narrow(0, 1, 1).unwrap().transpose(0, 1).unwrap().unsqueeze(0).unwrap().contiguous().unwrap();
        let theirs = theirs(&one, &rows(&k), &rows(&v), 1.0 / (8f64).sqrt(), None);
        let got = cpu().attention_paged(&q, &k, &v, pages, Extras::default(), Attention::causal()).unwrap();
        let got = got.narrow(0, 1, 1).unwrap().reshape((1, 4, 1, 6)).unwrap();
        matches_candle::<T>(&got, &theirs, "paged");
    }
}

in_every_type! {
    fn cache_writes_change_the_slots_and_nothing_else<T>() {
        let x = of::<T>(&[3, 2, 4], 1);
        let slots = indices(&[3], &[4, u32::MAX, 0]);
        let before = of::<T>(&[5, 2, 4], 2);
        let mut want = elements::<T>(&before);
        want[4 * 8..].copy_from_slice(&elements::<T>(&x)[..8]);
        want[..8].copy_from_slice(&elements::<T>(&x)[16..]);
        for (layout, x) in layouts(&x) {
            let write: [&dyn Fn(&Tensor); 2] = [
                &|cache| cpu().cache_write(&x, &slots, cache).unwrap(),
                &|cache| copying().cache_write(&x, &slots, cache).unwrap(),
            ];
            for write in write {
                let cache = before.copy().unwrap();
                write(&cache);
                assert_eq!(elements::<T>(&cache), want, "{layout}");
                // A cache `[heads, tokens, d]`, of which a part is the cache of this layer.
                let wide = Tensor::zeros((2, 9, 4), before.dtype(), &Device::Cpu).unwrap();
                let part = wide.narrow(1, 2, 5).unwrap().transpose(0, 1).unwrap();
                let others = indices(&[5], &[0, 1, 2, 3, 4]);
                cpu().cache_write(&before, &others, &part).unwrap();
                write(&part);
                assert_eq!(elements::<T>(&part), want, "{layout}");
                let rest = wide.narrow(1, 0, 2).unwrap().to_dtype(DType::F64).unwrap();
                assert!(elements::<f64>(&rest).iter().all(|v| *v == 0.0));
            }
        }
        for dtype in [DType::U8, DType::I32, DType::I64] {
            let cache = before.copy().unwrap();
            let slots = indices(&[1], &[4]).to_dtype(dtype).unwrap();
            cpu().cache_write(&x.narrow(0, 0, 1).unwrap(), &slots, &cache).unwrap();
            assert_eq!(elements::<T>(&cache)[4 * 8..], want[4 * 8..], "slots of {dtype:?}");
        }
        let none = of::<T>(&[0, 2, 4], 1);
        let cache = before.copy().unwrap();
        cpu().cache_write(&none, &indices(&[0], &[]), &cache).unwrap();
        assert_eq!(elements::<T>(&cache), elements::<T>(&before));
    }
}

in_every_type! {
    fn gated_delta_rule<T>() {
        let (q, k, v) = (of::<T>(&[2, 3, 2, 4], 1), of::<T>(&[2, 3, 2, 4], 2), of::<T>(&[2, 3, 2, 6], 3));
        let (decay, beta) = (values(&[2, 3, 2], 4).affine(0.5, -0.6).unwrap(), values(&[2, 3, 2], 5).abs().unwrap());
        let [decay, beta] = [decay, beta].map(|x| x.to_dtype(DType::F32).unwrap());
        let before = of::<f32>(&[2, 2, 4, 6], 6);
        let (r, mut want_state) = (Reference::new(), ours::<f32>(&before));
        let gates = (&ours::<f32>(&decay), &ours::<f32>(&beta));
        let mut op = GatedDeltaRule::new();
        op.scale = Some(0.3);
        let want = r
            .gated_delta_rule(ours::<T>(&q), ours::<T>(&k), ours::<T>(&v), gates, &mut want_state, op)
            .unwrap();
        for (layout, k) in layouts(&k) {
            for (_, state) in layouts(&before) {
                let states = [state.copy().unwrap(), state.copy().unwrap()];
                let got = [
                    cpu().gated_delta_rule(&q, &k, &v, (&decay, &beta), &states[0], op.scale).unwrap(),
                    copying().gated_delta_rule(&q, &k, &v, (&decay, &beta), &states[1], op.scale).unwrap(),
                ];
                for (o, state) in got.iter().zip(states) {
                    matches::<T>(o, &want, layout);
                    matches::<f32>(&state.force_contiguous().unwrap(), &want_state, "state");
                }
            }
        }
    }
}

#[test]
fn no_queries_and_no_keys() {
    let (q, k) = (of::<f32>(&[1, 2, 0, 4], 1), of::<f32>(&[1, 1, 3, 4], 2));
    let none = Extras::default();
    assert_eq!(cpu().attention(&q, &k, &k, none, Attention::causal()).unwrap().dims(), [1, 2, 0, 4]);
    // Without a visible key a row is zeros.
    let o = copying().attention(
        &k,
        &q.narrow(1, 0, 1).unwrap(),
        &q.narrow(1, 0, 1).unwrap(),
        none,
        Attention::full(),
    );
    assert_eq!(elements::<f32>(&o.unwrap()), [0.0; 12]);
}
