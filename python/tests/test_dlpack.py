"""Tensors go in and out without a copy, and live exactly as long as they must."""

import gc
import sys
import weakref

import numpy as np
import pytest
import rocm_ops
from conftest import Legacy
from rocm_ops import Tensor


def address(array):
    return array.__array_interface__["data"][0]


def f32(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) + 1


def test_out_is_written_in_place_and_returned():
    x, y = f32(2, 3), np.zeros((2, 3), np.float32)
    assert rocm_ops.sqr(x, out=y) is y
    assert (y == x * x).all()


def test_tensors_share_memory_both_ways():
    x = f32(2, 3)
    tensor = rocm_ops.from_dlpack(x)
    assert (tensor.shape, tensor.dtype, tensor.device, tensor.data_ptr) == ((2, 3), "f32", "cpu", address(x))
    back = np.from_dlpack(tensor)
    assert address(back) == address(x)
    assert back.flags.writeable
    own = rocm_ops.empty([4], "f32")
    view = own.numpy()
    assert address(view) == own.data_ptr
    rocm_ops.fill(own, value=3.0)
    assert (view == 3).all()


def test_a_tensor_of_ours_gives_one_of_ours():
    y = rocm_ops.sqr(rocm_ops.from_dlpack(f32(3)))
    assert isinstance(y, Tensor)
    assert y.numpy().tolist() == [1, 4, 9]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, ::2],
        lambda x: x[::-1],
        lambda x: x[1:, ::-2],
        lambda x: x.T,
        lambda x: x[:0],
        lambda x: x[1, 2, ...],
        lambda x: np.broadcast_to(x[:1], (3, 6)),
    ],
)
def test_views_are_read_as_they_are(view):
    x = view(f32(4, 6))
    assert np.array_equal(rocm_ops.neg(x), -x)
    tensor = rocm_ops.from_dlpack(x)
    assert np.array_equal(np.from_dlpack(tensor), x)


def test_strided_outputs_are_written_where_they_are():
    y = np.zeros((4, 6), np.float32)
    rocm_ops.neg(f32(4, 3), out=y[:, ::2])
    assert (y[:, ::2] == -f32(4, 3)).all() and (y[:, 1::2] == 0).all()


def test_memory_lives_as_long_as_something_refers_to_it():
    x = f32(1000)
    before, gone = sys.getrefcount(x), weakref.ref(x)
    tensor = rocm_ops.from_dlpack(x)
    again = np.from_dlpack(tensor)
    del tensor, x
    gc.collect()
    assert gone() is not None and again[999] == 1000
    del again
    gc.collect()
    assert gone() is None
    x = f32(10)
    for _ in range(100):
        rocm_ops.sqr(x)
        rocm_ops.sqr(x, out=np.empty_like(x))
    assert sys.getrefcount(x) == before
    unused = rocm_ops.from_dlpack(x).__dlpack__(max_version=(1, 0))
    assert sys.getrefcount(x) == before + 1
    del unused
    assert sys.getrefcount(x) == before


def test_a_capsule_is_used_once():
    class Once:
        def __init__(self, x):
            self.capsule = x.__dlpack__()

        def __dlpack__(self, **_):
            return self.capsule

    once = Once(f32(3))
    rocm_ops.neg(once)
    with pytest.raises(TypeError, match="not used before"):
        rocm_ops.neg(once)


def test_older_producers_and_consumers():
    x = f32(3)
    assert rocm_ops.neg(Legacy(x)).numpy().tolist() == [-1, -2, -3]
    assert np.from_dlpack(Legacy(rocm_ops.from_dlpack(x))).tolist() == [1, 2, 3]


def test_read_only_memory_is_read_and_not_written():
    x = f32(3)
    x.flags.writeable = False
    assert rocm_ops.neg(x).tolist() == [-1, -2, -3]
    with pytest.raises(ValueError, match="neg: y is written by this op, and is read-only; pass a copy"):
        rocm_ops.neg(f32(3), out=x)
    with pytest.raises(ValueError, match="affine_inplace: x is written"):
        rocm_ops.affine_inplace(x, mul=1.0, add=0.0)
    assert not np.from_dlpack(rocm_ops.from_dlpack(x)).flags.writeable


def test_truth_values_are_bytes():
    cond = np.array([True, False])
    assert rocm_ops.where(cond, f32(2), -f32(2)).tolist() == [1, -2]


def test_overlap_is_refused():
    x = f32(4)
    with pytest.raises(ValueError, match="neg: y shares memory with x"):
        rocm_ops.neg(x, out=x)
    with pytest.raises(ValueError, match="shares memory"):
        rocm_ops.neg(x[:3], out=x[1:])
    with pytest.raises(ValueError, match="topk: values shares memory with indices"):
        both = np.zeros((1, 1), np.float32)
        rocm_ops.topk(f32(1, 4), k=1, out=(both, both.view(np.uint32)))
    rocm_ops.neg(x[:2], out=x[2:])
    assert x.tolist() == [1, 2, -1, -2]


def test_misaligned_memory_is_refused():
    odd = np.zeros(9, np.uint8)[1:].view(np.float32)
    with pytest.raises(ValueError, match="not a multiple of 4"):
        rocm_ops.neg(odd)


def test_blocks_are_bytes_without_a_copy():
    x = f32(2, 64)
    q = rocm_ops.quantize(x, to="q8_0")
    assert (q.dtype, q.shape) == ("q8_0", (2, 2))
    raw = np.from_dlpack(q)
    assert (raw.dtype, raw.shape, address(raw)) == (np.uint8, (2, 68), q.data_ptr)
    again = rocm_ops.blocks(raw, "q8_0")
    assert again.data_ptr == q.data_ptr
    got = rocm_ops.dequantize(again)
    # The result is of the kind of the first operand.
    assert np.abs(got.numpy() - x).max() <= 0.505  # half a step of 128 / 127
    y = rocm_ops.qlinear(x, again)
    assert np.allclose(y, x @ got.numpy().T, rtol=1e-2)
    with pytest.raises(ValueError, match="multiple of 34"):
        rocm_ops.blocks(np.zeros((2, 35), np.uint8), "q8_0")


def test_types_that_numpy_lacks():
    half = rocm_ops.cast(f32(4), to="bf16")
    assert isinstance(half, Tensor) and half.dtype == "bf16"
    assert rocm_ops.cast(half, to="f32").numpy().tolist() == [1, 2, 3, 4]
    small = rocm_ops.cast(f32(4), to="f8e4m3")
    assert rocm_ops.cast(small, to="f32").numpy().tolist() == [1, 2, 3, 4]
