"""AMD GPUs, on the stand-in for ROCm: run with `HIP_STANDIN=$(cargo xtask standin | tail -1)`.

Each test is a process of its own, because the stand-in is loaded once.
"""

import os
import subprocess
import sys
import textwrap

import pytest

STANDIN = os.environ.get("HIP_STANDIN")
pytestmark = pytest.mark.skipif(not STANDIN, reason="HIP_STANDIN is not set to the stand-in's folder")

HEAD = """
import ctypes, os, sys
import numpy as np

def mapped():
    return {line.split()[-1] for line in open("/proc/self/maps") if "libamdhip64" in line}

"""


def run(body, tmp_path, **env):
    env = {
        **{name: value for name, value in os.environ.items() if name not in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH")},
        "OPS_ROCM_CACHE": str(tmp_path),
        **env,
    }
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(body)], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "misuse" not in done.stderr, done.stderr
    return done.stdout


def test_a_hip_that_is_loaded_already_is_the_one_that_is_used(tmp_path):
    # As PyTorch does: by its soname, from a folder that nothing else names.
    body = f"""
    ctypes.CDLL({STANDIN!r} + "/libamdhip64.so.7", mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    before = mapped()
    assert len(before) == 1, before
    import rocm_ops
    x = rocm_ops.from_dlpack(np.ones((2, 4), np.float32)).to("rocm:0")
    y = rocm_ops.neg(x)
    assert y.device == "rocm:0" and (y.numpy() == -1).all()
    assert mapped() == before, mapped()
    """
    run(body, tmp_path)


def test_tensors_of_device_type_rocm_survive_a_round_trip(tmp_path):
    body = """
    import rocm_ops
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = rocm_ops.from_dlpack(host).to("rocm:0")
    assert x.__dlpack_device__() == (10, 0)

    class Theirs:
        "A library whose tensors are on the device."
        def __init__(self, x):
            self.x = x
        def __dlpack__(self, *, stream=None, max_version=None, **_):
            return self.x.__dlpack__(max_version=max_version)
        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    again = rocm_ops.from_dlpack(Theirs(x))
    assert again.data_ptr == x.data_ptr and again.device == "rocm:0" and again.shape == (4, 6)
    assert (again.numpy() == host).all()
    y = rocm_ops.neg(Theirs(x))
    assert (y.numpy() == -host).all()
    rocm_ops.sqr(Theirs(x), out=Theirs(y))
    assert (y.numpy() == host * host).all()
    del x
    assert (again.numpy() == host).all()
    try:
        rocm_ops.add(again, host)
    except ValueError as error:
        assert "b is on the host, and a is on GPU 0" in str(error), error
    else:
        raise AssertionError("it was accepted")
    """
    run(body, tmp_path, OPS_ROCM_PATH=STANDIN)


def test_ops_on_the_device_give_what_the_reference_gives(tmp_path):
    body = """
    import rocm_ops
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 64)).astype(np.float32), rng.standard_normal(64).astype(np.float32)
    there = lambda a: rocm_ops.from_dlpack(a).to("rocm:0")
    for name, operands, options in [
        ("rms_norm", (x, w), {"eps": 1e-5}),
        ("softmax", (x,), {}),
        ("matmul", (x, np.ascontiguousarray(x.T)), {}),
        ("add", (x, w), {}),
    ]:
        got = rocm_ops.call(name, tuple(map(there, operands)), options)
        want = rocm_ops.call(name, operands, options, backend="reference")
        assert got.device == "rocm:0" and np.allclose(got.numpy(), want, rtol=1e-5, atol=1e-5), name
    bad = rocm_ops.index_select(there(x), there(np.array([9], np.int32)), axis=0)
    try:
        rocm_ops.synchronize()
    except ValueError as error:
        assert "holds 9" in str(error), error
    else:
        raise AssertionError("the index was not reported")
    model = rocm_ops.Model(os.environ["MODEL"], backend="rocm", context=32)
    ids = model.encode("In the beginning")[:3]
    exact = rocm_ops.Model(os.environ["MODEL"], backend="reference", context=32).logits(ids)
    assert ((model.logits(ids) - exact) ** 2).sum() < 2e-2 * (exact**2).sum()
    """
    from conftest import ROOT

    run(body, tmp_path, OPS_ROCM_PATH=STANDIN, MODEL=str(ROOT / "models/tiny-llama-kjv-q8_0.gguf"))
