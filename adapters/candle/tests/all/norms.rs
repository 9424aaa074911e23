//! Norms, softmax and gated activations.
use crate::compare::*;
use candle_nn::ops as candle;
use rocm_ops::ops::*;
use rocm_ops::prelude::Reference;

const EPS: f64 = 1e-5;

in_every_type! {
    fn rms_norm<T>() {
        let (x, weight) = (of::<T>(&[3, 5, 8], 1), of::<T>(&[8], 2));
        let want = Reference::new().rms_norm(ours::<T>(&x), ours::<T>(&weight), EPS).unwrap();
        for (layout, x) in layouts(&x) {
            for (_, weight) in layouts(&weight) {
                matches::<T>(&cpu().rms_norm(&x, &weight, EPS).unwrap(), &want, layout);
            }
            matches::<T>(&copying().rms_norm(&x, &weight, EPS).unwrap(), &want, layout);
        }
        if candle_has::<T>() {
            let theirs = candle::rms_norm(&x, &weight, EPS as f32).unwrap();
            matches_candle::<T>(&cpu().rms_norm(&x, &weight, EPS).unwrap(), &theirs, "candle");
        }
        // A weight of another type.
        let widened = weight.to_dtype(candle_core::DType::F32).unwrap();
        let want = Reference::new().rms_norm(ours::<T>(&x), ours::<f32>(&widened), EPS).unwrap();
        matches::<T>(&cpu().rms_norm(&x, &widened, EPS).unwrap(), &want, "weight of f32");
        let x = repeated(&x);
        let want = Reference::new().rms_norm(ours::<T>(&x), ours::<T>(&weight), EPS).unwrap();
        matches::<T>(&cpu().rms_norm(&x, &weight, EPS).unwrap(), &want, "broadcast");
        matches::<T>(&copying().rms_norm(&x, &weight, EPS).unwrap(), &want, "broadcast and copied");
    }
}

in_every_type! {
    fn layer_norm<T>() {
        let (x, weight, bias) = (of::<T>(&[4, 3, 6], 1), of::<T>(&[6], 2), of::<T>(&[6], 3));
        let r = Reference::new();
        let want = r.layer_norm(ours::<T>(&x), &ours::<T>(&weight), &ours::<T>(&bias), EPS).unwrap();
        let plain = r.layer_norm(ours::<T>(&x), None, None, EPS).unwrap();
        let biased = r.layer_norm(ours::<T>(&x), None, &ours::<T>(&bias), EPS).unwrap();
        for (layout, x) in layouts(&x) {
            let with = (Some(&weight), Some(&bias));
            matches::<T>(&cpu().layer_norm(&x, with.0, with.1, EPS).unwrap(), &want, layout);
            matches::<T>(&copying().layer_norm(&x, with.0, with.1, EPS).unwrap(), &want, layout);
            matches::<T>(&cpu().layer_norm(&x, None, None, EPS).unwrap(), &plain, layout);
            matches::<T>(&copying().layer_norm(&x, None, Some(&bias), EPS).unwrap(), &biased, layout);
        }
        if candle_has::<T>() {
            let theirs = candle::layer_norm(&x, &weight, &bias, EPS as f32).unwrap();
            matches_candle::<T>(&cpu().layer_norm(&x, Some(&weight), Some(&bias), EPS).unwrap(), &theirs, "candle");
        }
    }
}

in_every_type! {
    fn add_rms_norm<T>() {
        let (x, residual, weight) = (of::<T>(&[3, 7], 1), of::<T>(&[3, 7], 4), of::<T>(&[7], 2));
        let r = Reference::new();
        let want = r.add_rms_norm(ours::<T>(&x), ours::<T>(&residual), ours::<T>(&weight), EPS).unwrap();
        for (layout, x) in layouts(&x) {
            for (other, residual) in layouts(&residual) {
                for (y, sum) in [
                    cpu().add_rms_norm(&x, &residual, &weight, EPS).unwrap(),
                    copying().add_rms_norm(&x, &residual, &weight, EPS).unwrap(),
                ] {
                    matches::<T>(&y, &want.0, layout);
                    matches::<T>(&sum, &want.1, other);
                }
            }
        }
        let (y, sum) = cpu().add_rms_norm(&x, &residual, &weight, EPS).unwrap();
        matches_candle::<T>(&sum, &(&x + &residual).unwrap(), "candle");
        if candle_has::<T>() {
            matches_candle::<T>(&y, &candle::rms_norm(&sum, &weight, EPS as f32).unwrap(), "candle");
        }
    }
}

in_every_type! {
    fn softmax<T>() {
        let x = of::<T>(&[3, 4, 6], 1).affine(5.0, 0.0).unwrap();
        for axis in [-1isize, 0, 1] {
            let want = Reference::new().softmax(ours::<T>(&x), axis).unwrap();
            for (layout, x) in layouts(&x) {
                matches::<T>(&cpu().softmax(&x, axis).unwrap(), &want, layout);
                matches::<T>(&copying().softmax(&x, axis).unwrap(), &want, layout);
            }
            let theirs = candle::softmax(&x, axis.rem_euclid(3) as usize).unwrap();
            matches_candle::<T>(&cpu().softmax(&x, axis).unwrap(), &theirs, "candle");
        }
    }
}

in_every_type! {
    fn swiglu<T>() {
        let (gate, up) = (of::<T>(&[5, 6], 1), of::<T>(&[5, 6], 2));
        let want = Reference::new().swiglu(ours::<T>(&gate), ours::<T>(&up)).unwrap();
        for (layout, gate) in layouts(&gate) {
            for (_, up) in layouts(&up) {
                matches::<T>(&cpu().swiglu(&gate, &up).unwrap(), &want, layout);
                matches::<T>(&copying().swiglu(&gate, &up).unwrap(), &want, layout);
            }
        }
        let theirs = (candle::silu(&gate).unwrap() * &up).unwrap();
        matches_candle::<T>(&cpu().swiglu(&gate, &up).unwrap(), &theirs, "candle");
    }
}

in_every_type! {
    fn empty_tensors_give_empty_results<T>() {
        let weight = of::<T>(&[4], 1);
        for dims in [&[0, 4][..], &[2, 0, 4]] {
            let x = of::<T>(dims, 1);
            let both = [cpu().rms_norm(&x, &weight, EPS).unwrap(), copying().rms_norm(&x, &weight, EPS).unwrap()];
            assert!(both.iter().all(|y| y.dims() == dims && y.elem_count() == 0));
            let (y, sum) = copying().add_rms_norm(&x, &x, &weight, EPS).unwrap();
            assert_eq!((y.dims(), sum.dims()), (dims, dims));
            assert_eq!(cpu().layer_norm(&x, Some(&weight), None, EPS).unwrap().dims(), dims);
            assert_eq!(cpu().swiglu(&x, &x).unwrap().dims(), dims);
            assert_eq!(cpu().softmax(&x, -1).unwrap().dims(), dims);
        }
        assert_eq!(cpu().softmax(&of::<T>(&[2, 0], 1), -1).unwrap().dims(), [2, 0]);
        // No rows, from the middle and from the end of memory.
        for first in [2, 3] {
            let x = of::<T>(&[3, 4], 1).narrow(0, first, 0).unwrap();
            assert_eq!(cpu().rms_norm(&x, &weight, EPS).unwrap().dims(), [0, 4]);
            assert_eq!(copying().rms_norm(&x, &weight, EPS).unwrap().dims(), [0, 4]);
        }
    }
}
