"""Transformer operations for AMD GPUs and CPUs.

Every op is a function on anything with ``__dlpack__``: arrays of NumPy, tensors of PyTorch, ``rocm_ops.Tensor``. It
reads them without a copy, runs where they are, and returns what the first of them is. ``out=`` writes into a tensor of
yours. While an op runs, other threads of Python run too; they must not use its operands.

    >>> import numpy as np, rocm_ops
    >>> rocm_ops.rms_norm(np.array([[1.0, 7.0]], np.float32), np.array([1.0, 2.0], np.float32), eps=0.0)
    array([[0.2, 2.8]], dtype=float32)

``rocm_ops.call`` calls an op by its name; ``rocm_ops.ops()`` describes all of them. ``Model`` runs language models and
sentence encoders, ``load_gguf`` reads their files, and ``rocm_ops.torch`` has custom ops and modules for PyTorch.

Errors are exceptions: ``ValueError`` for shapes, types and options, ``TypeError`` for what is no tensor,
``rocm_ops.Unsupported`` if a backend has no kernel, ``MemoryError``, and ``RuntimeError`` for what a device reports.
"""

from . import _ops
from ._native import Stream, Tensor, Unsupported, blocks, call, empty, from_dlpack, load_gguf, ops, pack_weight, synchronize
from ._native import Model as _Model
from ._ops import *  # noqa: F403

__all__ = [
    "Model",
    "Stream",
    "Tensor",
    "Unsupported",
    "blocks",
    "call",
    "empty",
    "from_dlpack",
    "load_gguf",
    "ops",
    "pack_weight",
    "synchronize",
    *_ops.__all__,
]


class Model(_Model):
    __doc__ = _Model.__doc__
    __slots__ = ()

    def embed(self, texts):
        """The vectors of these texts, ``[texts, width]``: a NumPy array, or a ``Tensor`` without NumPy."""
        return _array(super().embed([texts] if isinstance(texts, str) else list(texts)))

    def logits(self, ids):
        """The logits after each of these tokens, ``[tokens, vocabulary]``: a NumPy array, or a ``Tensor`` without NumPy."""
        return _array(super().logits(list(ids)))


def _array(tensor):
    try:
        return tensor.numpy()
    except ModuleNotFoundError:
        return tensor
