//! Messages for wrong operands.
use crate::compare::*;
use candle_core::{DType, Result, Tensor};
use rocm_ops::ops::{Attention, RopeForm};
use rocm_ops_candle::Extras;

fn assert_error<T>(got: Result<T>, want: &str) {
    let error = got.map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with(want), "{error}");
}

#[test]
fn messages_name_the_op_and_the_operand() {
    let (x, weight) = (of::<f32>(&[2, 4], 1), of::<f32>(&[3], 1));
    assert_error(cpu().rms_norm(&x, &weight, 1e-5), "rms_norm: weight has shape [3], expected [4]");
    assert_error(cpu().rms_norm(&x, &weight, -1.0), "rms_norm: eps is -1, expected 0 or more");
    let bytes = x.to_dtype(DType::U8).unwrap();
    assert_error(cpu().softmax(&bytes, -1), "softmax: x is of u8, expected f16, bf16, f32 or f64");
    assert_error(cpu().softmax(&x, 2), "softmax: x: axis 2 does not exist");
    let half = x.to_dtype(DType::F16).unwrap();
    assert_error(cpu().swiglu(&x, &half), "swiglu: up is of f16, expected f32");
    let (q, k) = (of::<f32>(&[1, 4, 2, 8], 1), of::<f32>(&[1, 3, 2, 8], 1));
    let got = cpu().attention(&q, &k, &k, Extras::default(), Attention::full());
    assert_error(got, "attention: k has shape [1, 3, 2, 8], expected [1, a divisor of 4, s, 8]");
    assert_error(
        cpu().attention(&x, &k, &k, Extras::default(), Attention::full()),
        "attention: q has shape [2, 4]",
    );
    assert_error(cpu().rope(&x, &x, &x, RopeForm::Half), "rope: x has shape [2, 4]");
    let scalar = Tensor::new(1f32, &candle_core::Device::Cpu).unwrap();
    assert_error(cpu().rms_norm(&scalar, &weight, 0.0), "rms_norm: x has shape []");
}

#[test]
fn writes_refuse_shared_memory_and_other_types() {
    let cache = of::<f32>(&[4, 1, 2], 1);
    let (rows, slots) = (cache.narrow(0, 0, 1).unwrap(), indices(&[1], &[3]));
    assert_error(
        cpu().cache_write(&rows, &slots, &cache),
        "cache_write: x is in the memory of cache, expected other memory; use copy()",
    );
    let x = of::<f64>(&[1, 1, 2], 1);
    assert_error(cpu().cache_write(&x, &slots, &cache), "cache_write: cache is of f32, expected f64");
    let x = of::<f32>(&[1, 1, 2], 1);
    assert_error(cpu().cache_write(&x, &indices(&[1], &[4]), &cache), "cache_write: slots");
    let overlapping = of::<f32>(&[1, 1, 2], 1).broadcast_as((4, 1, 2)).unwrap();
    assert!(cpu().cache_write(&x, &slots, &overlapping).is_err());
}
