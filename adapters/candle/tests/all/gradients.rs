//! Gradients are refused, and never silently lost.
use crate::compare::*;
use candle_core::{DType, Device, Tensor, Var};
use rocm_ops::ops::{Attention, RopeForm};
use rocm_ops_candle::Extras;

fn variable(dims: &[usize]) -> Var {
    Var::from_tensor(&of::<f32>(dims, 1)).unwrap()
}

fn assert_refused(y: &Tensor, op: &str) {
    let error = y.sum_all().unwrap().backward().map(|_| ()).unwrap_err().to_string();
    let want = format!(
        "{op} of rocm-ops has no gradient; use the op of candle_nn in training, or detach() its operands"
    );
    assert!(error.starts_with(&want), "{error}");
}

#[test]
fn backward_names_the_op_whichever_operand_is_tracked() {
    let (x, weight) = (variable(&[2, 4]), variable(&[4]));
    let (plain, plain_weight) = (of::<f32>(&[2, 4], 1), of::<f32>(&[4], 1));
    for y in [
        cpu().rms_norm(&x, &plain_weight, 1e-5).unwrap(),
        cpu().rms_norm(&plain, &weight, 1e-5).unwrap(),
        // An operand that depends on a variable.
        copying().rms_norm(&(x.as_tensor() * 2.0).unwrap(), &plain_weight, 1e-5).unwrap(),
    ] {
        assert_refused(&y, "rms_norm");
    }
    assert_refused(&cpu().layer_norm(&plain, None, Some(&weight), 1e-5).unwrap(), "layer_norm");
    let (y, sum) = cpu().add_rms_norm(&plain, &x, &plain_weight, 1e-5).unwrap();
    assert_refused(&y, "add_rms_norm");
    assert_refused(&sum, "add_rms_norm");
    assert_refused(&cpu().softmax(&x, -1).unwrap(), "softmax");
    assert_refused(&cpu().swiglu(&plain, &x).unwrap(), "swiglu");
    let (q, table) = (variable(&[1, 1, 2, 4]), of::<f32>(&[2, 2], 1));
    assert_refused(&cpu().rope(&q, &table, &table, RopeForm::Half).unwrap(), "rope");
    assert_refused(&cpu().attention(&q, &q, &q, Extras::default(), Attention::full()).unwrap(), "attention");
    assert_refused(
        &cpu().linear(&x, &cpu().upload(&of::<f32>(&[3, 4], 1)).unwrap(), None).unwrap(),
        "linear",
    );
}

#[test]
fn results_of_tracked_tensors_are_the_same() {
    let (x, weight) = (variable(&[2, 4]), of::<f32>(&[4], 2));
    let got = cpu().rms_norm(&x, &weight, 1e-5).unwrap();
    let want = cpu().rms_norm(&x.as_tensor().detach(), &weight, 1e-5).unwrap();
    assert_eq!(elements::<f32>(&got), elements::<f32>(&want));
    assert!(got.track_op() && !want.track_op());
}

#[test]
fn writes_in_place_refuse_tracked_tensors() {
    let (x, slots) = (variable(&[1, 1, 4]), indices(&[1], &[0]));
    let cache = Tensor::zeros((2, 1, 4), DType::F32, &Device::Cpu).unwrap();
    let error = cpu().cache_write(&x, &slots, &cache).unwrap_err().to_string();
    let want = "cache_write: x is tracked for gradients, expected a tensor without gradients, since the op writes in place; use detach()";
    assert!(error.starts_with(want), "{error}");
    let cache = variable(&[2, 1, 4]);
    let error = cpu().cache_write(&x.as_tensor().detach(), &slots, &cache).unwrap_err().to_string();
    assert!(error.starts_with("cache_write: cache is tracked for gradients"), "{error}");
}
