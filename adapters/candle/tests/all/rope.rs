//! Rotary position embedding in its three forms.
use crate::compare::*;
use candle_core::{DType, Tensor};
use candle_nn::rotary_emb as candle;
use rocm_ops::ops::*;
use rocm_ops::prelude::Reference;

type Theirs = fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>;
const FORMS: [(RopeForm, [usize; 4], Theirs); 3] = [
    (RopeForm::Half, [2, 3, 5, 8], candle::rope),
    (RopeForm::Interleaved, [2, 3, 5, 8], candle::rope_i),
    (RopeForm::HalfThd, [2, 5, 3, 8], candle::rope_thd),
];

/// Cosines and sines of different angles for `t` tokens and `half` pairs.
fn tables(t: usize, half: usize, dtype: DType) -> (Tensor, Tensor) {
    let angles = values(&[t, half], 9).affine(3.0, 0.0).unwrap();
    (angles.cos().unwrap().to_dtype(dtype).unwrap(), angles.sin().unwrap().to_dtype(dtype).unwrap())
}

in_every_type! {
    fn all_forms<T>() {
        for (form, dims, theirs) in FORMS {
            let (x, all) = (of::<T>(&dims, 1), tables(9, 4, <T as candle_core::WithDType>::DTYPE));
            // The tables of a text that goes on, as candle's models narrow them.
            let (cos, sin) = (all.0.narrow(0, 3, 5).unwrap(), all.1.narrow(0, 3, 5).unwrap());
            let r = Reference::new();
            let want = r.rope(ours::<T>(&x), ours::<T>(&cos), ours::<T>(&sin), Rope::new(form)).unwrap();
            for (layout, x) in layouts(&x) {
                matches::<T>(&cpu().rope(&x, &cos, &sin, form).unwrap(), &want, layout);
                matches::<T>(&copying().rope(&x, &cos, &sin, form).unwrap(), &want, layout);
                let positions = indices(&[1, 5], &[3, 4, 5, 6, 7]);
                for dtype in [DType::U8, DType::U32, DType::I32, DType::I64] {
                    let positions = positions.to_dtype(dtype).unwrap();
                    matches::<T>(&cpu().rope_at(&x, &all.0, &all.1, &positions, form).unwrap(), &want, layout);
                }
                matches::<T>(&copying().rope_at(&x, &all.0, &all.1, &positions, form).unwrap(), &want, layout);
            }
            if candle_has::<T>() {
                let theirs = theirs(&x, &cos, &sin).unwrap();
                matches_candle::<T>(&cpu().rope(&x, &cos, &sin, form).unwrap(), &theirs, &format!("{form:?}"));
            }
            // Only the first four features are turned.
            let (cos, sin) = (cos.narrow(1, 0, 2).unwrap(), sin.narrow(1, 0, 2).unwrap());
            let want = r.rope(ours::<T>(&x), ours::<T>(&cos), ours::<T>(&sin), Rope::new(form)).unwrap();
            matches::<T>(&cpu().rope(&x, &cos, &sin, form).unwrap(), &want, "partial");
        }
    }
}

#[test]
fn no_tokens() {
    let (cos, sin) = tables(4, 2, DType::F32);
    let x = of::<f32>(&[1, 2, 0, 4], 1);
    assert_eq!(cpu().rope(&x, &cos, &sin, RopeForm::Half).unwrap().dims(), [1, 2, 0, 4]);
}
