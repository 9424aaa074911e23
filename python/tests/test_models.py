"""Models generate, chat, embed and give logits."""

import numpy as np
import pytest
import rocm_ops

PROMPT = "Genesis 1\n1 In the beginning"


@pytest.fixture(scope="module")
def model(llama):
    return rocm_ops.Model(llama, context=256)


def test_generate_streams_what_it_returns(model):
    whole = model.generate(PROMPT, max_tokens=24, temperature=0.0)
    stream = model.generate(PROMPT, max_tokens=24, temperature=0.0, stream=True)
    pieces = list(stream)
    assert "".join(pieces) == whole and len(pieces) > 5
    assert stream.finish == "length"
    assert model.generate(model.encode(PROMPT), max_tokens=24, temperature=0.0) == whole


def test_stop_ends_the_text(model):
    whole = model.generate(PROMPT, max_tokens=24, temperature=0.0)
    word = whole.split()[2]
    stream = model.generate(PROMPT, max_tokens=24, temperature=0.0, stop=word, stream=True)
    assert "".join(stream) == whole[: whole.index(word)]
    assert stream.finish == "stop"


def test_a_stream_that_is_dropped_ends(model):
    stream = model.generate(PROMPT, max_tokens=200, stream=True)
    next(stream)
    del stream
    assert model.generate(PROMPT, max_tokens=1)


def test_greedy_tokens_are_those_of_the_logits(model):
    ids = model.encode(PROMPT)
    logits = model.logits(ids)
    assert logits.shape == (len(ids), model.vocabulary) and logits.dtype == np.float32
    text = model.generate(ids, max_tokens=1, temperature=0.0)
    assert model.decode(ids + [int(logits[-1].argmax())]).endswith(text)


def test_the_reference_agrees(model, llama):
    ids = model.encode(PROMPT)[:6]
    exact = rocm_ops.Model(llama, backend="reference", context=32).logits(ids)
    got = model.logits(ids)
    assert ((got - exact) ** 2).sum() / (exact**2).sum() < 1e-2
    half = rocm_ops.Model(llama, dtype="bf16", context=32).logits(ids)
    assert ((half - exact) ** 2).sum() / (exact**2).sum() < 5e-2


def test_errors_of_models(model, llama):
    with pytest.raises(ValueError, match="there is no option `heat`"):
        model.generate(PROMPT, heat=1.0)
    with pytest.raises(ValueError, match="temperature"):
        model.generate(PROMPT, temperature=-1.0)
    with pytest.raises(ValueError, match="chat template"):
        model.chat([{"role": "user", "content": "Hi"}])
    with pytest.raises(ValueError, match="no role"):
        model.chat([{"content": "Hi"}])
    with pytest.raises(ValueError, match="dtype"):
        rocm_ops.Model(llama, dtype="i32")
    with pytest.raises(ValueError, match="has token 1000000, but the model has 4096"):
        model.logits([10**6])


def test_embed(encoder):
    model = rocm_ops.Model(encoder)
    vectors = model.embed(["Hello world", "Hello", "Hello world"])
    assert vectors.shape[0] == 3 and vectors.dtype == np.float32
    assert np.allclose(vectors[0], vectors[2]) and not np.allclose(vectors[0], vectors[1])
    assert np.allclose(model.embed("Hello")[0], vectors[1], rtol=1e-4, atol=1e-5)


def test_tensors_of_a_file(llama):
    tensors = rocm_ops.load_gguf(llama)
    matrix = next(tensor for tensor in tensors.values() if tensor.dtype == "q8_0")
    assert matrix.read_only and len(matrix.shape) == 2
    rows = rocm_ops.dequantize(matrix).numpy()
    assert rows.shape == (matrix.shape[0], matrix.shape[1] * 32) and np.isfinite(rows).all()
    x = np.ones((1, rows.shape[1]), np.float32)
    assert np.allclose(rocm_ops.qlinear(x, matrix), x @ rows.T, rtol=2e-2, atol=1e-2)


def test_chat_uses_the_template_of_the_model(llama):
    folder = llama.parents[1] / "tests/data/folders/llama"
    model = rocm_ops.Model(folder, context=128)
    text = model.chat([{"role": "user", "content": "Hi"}], max_tokens=4, temperature=0.0)
    other = model.chat([{"role": "user", "content": "Hello there"}], max_tokens=4, temperature=0.0, stream=True)
    assert isinstance(text, str) and isinstance("".join(other), str) and other.finish in ("length", "end")
