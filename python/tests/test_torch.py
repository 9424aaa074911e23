"""PyTorch: plain functions, custom ops, compilation, modules. Skipped without PyTorch."""

import copy
import pickle

import numpy as np
import pytest
import rocm_ops

torch = pytest.importorskip("torch")

import rocm_ops.check  # noqa: E402
import rocm_ops.torch as ours  # noqa: E402
import test_ops  # noqa: E402

def converted(operands):
    """Tensors of PyTorch, which has no negative strides."""
    return [None if x is None else torch.from_numpy(np.ascontiguousarray(x)) for x in operands]


def sample_case(name, seed, dtype="f32"):
    operands, options = test_ops.case(test_ops.OPS[name], test_ops.Draw(seed, dtype))
    return converted(operands), options


def custom(op, options):
    """Options as the schema has them."""
    words = {key: value for key, value in options.items() if value is not None}
    kinds = {option["name"]: option["kind"] for option in op["options"]}
    for key, value in words.items():
        if kinds.get(key) in ("counts", "axes") and isinstance(value, int):
            words[key] = [value]
        elif isinstance(value, tuple):
            words[key] = list(value)
    return words


NAMES = [op["name"] for op in test_ops.TESTED]


@pytest.mark.parametrize("name", NAMES)
def test_plain_functions_take_tensors(name):
    op = test_ops.OPS[name]
    for seed in range(5):
        operands, options = sample_case(name, seed, test_ops.floats(op)[0])
        again = [None if x is None else x.clone() for x in operands]
        got = rocm_ops.call(name, tuple(operands), options)
        want = rocm_ops.call(name, tuple(again), options, backend="reference")
        if got is None:
            assert want is None
            got, want = [x for x in operands if x is not None], [x for x in again if x is not None]
        got, want = (x if isinstance(x, (tuple, list)) else (x,) for x in (got, want))
        for one, other in zip(got, want, strict=True):
            assert isinstance(one, torch.Tensor)
            test_ops.close(one.numpy(), other.numpy(), name)


@pytest.mark.parametrize("name", NAMES)
def test_custom_ops_pass_opcheck(name):
    op = test_ops.OPS[name]
    operands, options = sample_case(name, 1, "f32" if "f32" in op["types"] else test_ops.floats(op)[0])
    # `opcheck` takes NaN for different from NaN, and roots and logarithms of negative numbers are.
    operands = [x.abs() if x is not None and x.is_floating_point() else x for x in operands]
    function = getattr(torch.ops.rocm_ops, name).default
    torch.library.opcheck(function, tuple(operands), custom(op, options))


@pytest.mark.parametrize("name", ["attention", "attention_varlen", "attention_paged"])
def test_custom_ops_return_lse(name):
    operands, options = sample_case(name, 3)
    with_lse = getattr(torch.ops.rocm_ops, f"{name}_lse").default
    torch.library.opcheck(with_lse, tuple(operands), custom(test_ops.OPS[name], options))
    got = with_lse(*operands, **custom(test_ops.OPS[name], options))
    want = rocm_ops.call(name, tuple(operands), options, None, ["lse"])
    assert len(got) == 2 and all(torch.equal(one, other) for one, other in zip(got, want, strict=True))


def test_bfloat16():
    x = torch.randn(4, 64).bfloat16()
    got = rocm_ops.rms_norm(x, torch.ones(64).bfloat16(), eps=1e-5)
    assert got.dtype == torch.bfloat16
    assert torch.allclose(got.float(), torch.nn.functional.rms_norm(x.float(), (64,)), rtol=1e-2, atol=1e-2)


def test_memory_is_shared_both_ways():
    x = torch.randn(3, 4)
    tensor = rocm_ops.from_dlpack(x)
    assert tensor.data_ptr == x.data_ptr()
    assert torch.from_dlpack(tensor).data_ptr() == x.data_ptr()
    y = torch.empty(3, 4)
    assert rocm_ops.neg(x, out=y) is y and torch.equal(y, -x)
    assert torch.equal(rocm_ops.neg(x.t()), -x.t())


def test_gradients_are_refused_where_they_would_be_lost():
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(ValueError, match="x requires gradients, which these ops do not compute"):
        rocm_ops.neg(x)
    with torch.no_grad():
        assert torch.equal(rocm_ops.neg(x), -x)
        with pytest.raises(ValueError, match="y is written by this op, and requires gradients"):
            rocm_ops.neg(x.detach(), out=torch.zeros(3, requires_grad=True))
    y = torch.ops.rocm_ops.neg(x)
    with pytest.raises(RuntimeError, match="neg|autograd"):
        y.sum().backward()


def block(x, weight, gate):
    h = torch.ops.rocm_ops.rms_norm(x, weight, eps=1e-5)
    h = torch.ops.rocm_ops.swiglu(torch.ops.rocm_ops.linear(h, gate), h)
    return torch.ops.rocm_ops.add(x, h) + 1


def test_compiled_functions_compute_the_same():
    x, weight, gate = torch.randn(4, 16), torch.randn(16), torch.randn(16, 16)
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(x, weight, gate), block(x, weight, gate))
    assert torch.allclose(compiled(x[:3], weight, gate), block(x[:3], weight, gate))
    cache = torch.zeros(4, 2, 4)
    write = torch.compile(lambda k, s, c: torch.ops.rocm_ops.cache_write(k, s, c), fullgraph=True, backend="aot_eager")
    write(torch.ones(1, 2, 4), torch.tensor([2]), cache)
    assert cache[2].eq(1).all() and cache[1].eq(0).all()


def test_inductor():
    x, weight, gate = torch.randn(4, 16), torch.randn(16), torch.randn(16, 16)
    assert torch.allclose(torch.compile(block)(x, weight, gate), block(x, weight, gate), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quant_linear(dtype):
    plain = torch.nn.Linear(256, 12)
    module = ours.QuantLinear.from_linear(plain, "q8_0")
    x = torch.randn(2, 5, 256)
    got, want = module(x.to(dtype)), plain(x)
    assert got.dtype == dtype and got.shape == want.shape
    assert torch.allclose(got.float(), want, rtol=5e-2, atol=5e-2)
    other = ours.QuantLinear(torch.zeros_like(module.rows()), "q8_0", torch.zeros(12))
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(x), module(x))
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), module(x))
    with pytest.raises(ValueError, match="expected uint8 rows of blocks of 34 bytes"):
        ours.QuantLinear(torch.zeros(3, 35, dtype=torch.uint8), "q8_0")


def test_quant_linear_keeps_its_weight_packed():
    plain = torch.nn.Linear(256, 48)
    rows, x = ours.quantize(plain.weight, "q8_0"), torch.randn(3, 256)
    module = ours.QuantLinear(rows.clone(), "q8_0", plain.bias.detach())
    assert module.weight.dim() == 1, "it is large enough to be packed"
    want = torch.ops.rocm_ops.qlinear(x, rows, plain.bias.detach(), format="q8_0")
    arguments = {"format": "q8_0", "out_features": 48, "in_features": 256}
    torch.library.opcheck(torch.ops.rocm_ops.qlinear_packed.default, (x, module.weight, module.bias), arguments)

    def same(module):
        assert torch.equal(module.rows(), rows)
        assert torch.allclose(module(x), want, rtol=1e-5, atol=1e-5)
        assert torch.allclose(module(x.double()).float(), want, rtol=5e-2, atol=5e-2)

    same(module)
    same(copy.deepcopy(module))
    same(pickle.loads(pickle.dumps(module)))
    same(torch.nn.Sequential(module).cpu()[0])
    assert torch.equal(pickle.loads(pickle.dumps(module.state_dict()))["weight"], rows)
    other = ours.QuantLinear(torch.zeros_like(rows), "q8_0", torch.zeros(48))
    assert not torch.equal(other(x), want)
    other.load_state_dict(module.state_dict())
    same(other)
    assert torch.equal(torch.compile(module, fullgraph=True, backend="aot_eager")(x), module(x))
    with pytest.raises(ValueError, match="got 48x256|expected|256"):
        module(torch.randn(3, 128))


def test_load_gguf(llama):
    parts = ours.load_gguf(llama)
    linear = next(part for part in parts.values() if isinstance(part, ours.QuantLinear))
    norm = next(part for name, part in parts.items() if "norm" in name)
    assert isinstance(norm, torch.Tensor) and norm.dtype == torch.float32
    assert linear(torch.randn(2, linear.in_features)).shape == (2, linear.out_features)
    norm += 1  # a copy, which may be written


def test_torch_is_checked_against_the_definitions():
    lines = []
    assert rocm_ops.check.check_torch(torch, "cpu", lines.append) == 0, lines
    assert len(lines) == 24
    nn = torch.nn.functional
    real = nn.softmax
    try:
        nn.softmax = lambda x, axis: real(x * 1.01, axis)
        assert rocm_ops.check.check_torch(torch, "cpu", lines.append) >= 2
    finally:
        nn.softmax = real
