"""Errors are exceptions that say what is wrong, and nothing is written."""

import numpy as np
import pytest
import rocm_ops


def f32(*shape):
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    "kind, message, call",
    [
        (ValueError, r"rms_norm: weight has shape \[3\], expected", lambda: rocm_ops.rms_norm(f32(2, 4), f32(3), eps=0.0)),
        (ValueError, r"rms_norm: eps is -1, expected 0 or more", lambda: rocm_ops.rms_norm(f32(2, 4), f32(4), eps=-1.0)),
        (ValueError, r"rms_norm: eps is \"x\", expected a number", lambda: rocm_ops.rms_norm(f32(4), f32(4), eps="x")),
        (ValueError, r"add: b is of f64, expected a tensor of f32", lambda: rocm_ops.add(f32(2), np.ones(2))),
        (ValueError, r"do not broadcast", lambda: rocm_ops.add(f32(2), f32(3))),
        (ValueError, r"exp.*not available in i32", lambda: rocm_ops.exp(np.ones(2, np.int32))),
        (ValueError, r"neg: y has shape \[3\]", lambda: rocm_ops.neg(f32(2), out=f32(3))),
        (ValueError, r"there is no option `epsilon`", lambda: rocm_ops.call("neg", (f32(2),), {"epsilon": 1})),
        (ValueError, r"`no_such_op` is not an op", lambda: rocm_ops.call("no_such_op", (f32(2),))),
        (ValueError, r"add: b is missing", lambda: rocm_ops.call("add", (f32(2),))),
        (ValueError, r"axis 2 does not exist", lambda: rocm_ops.softmax(f32(2), axis=2)),
        (ValueError, r"holds 7", lambda: rocm_ops.index_select(f32(2), np.array([7], np.int32), axis=0)),
        (ValueError, r"cast: to is \"f12\"", lambda: rocm_ops.cast(f32(2), to="f12")),
        (ValueError, r"element type of DLPack's code 5", lambda: rocm_ops.neg(np.ones(2, np.complex64))),
        (ValueError, r"backend is \"gpu\"|backend is 'gpu'", lambda: rocm_ops.call("neg", (f32(2),), backend="gpu")),
        (TypeError, r"neg: x is of type list; expected a tensor", lambda: rocm_ops.neg([1.0])),
        (TypeError, r"neg: 2 operands were given, expected at most 1", lambda: rocm_ops.call("neg", (f32(1), f32(1)))),
        (TypeError, r"neg: out has 2 tensors", lambda: rocm_ops.neg(f32(1), out=(f32(1), f32(1)))),
        (RuntimeError, r"HIP runtime|no device|ROCm", lambda: rocm_ops.empty([1], device="rocm:0")),
        (ValueError, r"device is \"tpu\"|device is 'tpu'", lambda: rocm_ops.empty([1], device="tpu")),
        (OSError, r"no/such", lambda: rocm_ops.Model("/no/such.gguf")),
    ],
)
def test_error(kind, message, call):
    with pytest.raises(kind, match=message):
        call()


def test_unsupported_is_an_error_of_its_own():
    assert issubclass(rocm_ops.Unsupported, RuntimeError)


def test_nothing_is_written_by_a_call_that_is_refused():
    y = f32(2, 3)
    with pytest.raises(ValueError):
        rocm_ops.rms_norm(f32(2, 4), f32(4), eps=0.0, out=y)
    assert (y == 1).all()
