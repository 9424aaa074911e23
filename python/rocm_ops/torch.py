"""Custom ops and modules for PyTorch.

Importing this module registers every op as ``torch.ops.rocm_ops.NAME``, with what ``torch.compile`` needs to know of its
results. Operands come first, options are keywords. An op on blocks takes a ``uint8`` tensor and ``format=``. Windows
are two integers, of which -1 means no limit. Optional results, such as ``lse``, have the plain functions only.

There are no gradients: a backward pass through these ops is an error of PyTorch that names the op.
"""

import torch
from torch import nn

from . import _native

__all__ = ["QuantLinear", "load_gguf", "quantize"]

_NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8e4m3",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint32: "u32",
    torch.uint8: "u8",
    torch.bool: "u8",
}
_TYPES = {name: dtype for dtype, name in _NAMES.items() if dtype != torch.bool}
_KINDS = {
    "number": "float",
    "value": "float",
    "count": "int",
    "axis": "int",
    "counts": "int[]",
    "axes": "int[]",
    "flag": "bool",
    "window": "int[]",
    "word": "str",
}


def _option(option):
    """An option in the schema of an op."""
    kind, name, default = _KINDS[option["kind"]], option["name"], option["default"]
    if option["needed"]:
        return f"{kind} {name}"
    if default is None or isinstance(default, (list, tuple)):
        return f"{kind}? {name}=None"
    return f'{kind} {name}="{default}"' if isinstance(default, str) else f"{kind} {name}={default}"


class _Custom:
    """An op of the registry as a custom op."""

    def __init__(self, op):
        self.name = op["name"]
        self.reads = [operand for operand in op["operands"] if operand["role"] != "out"]
        self.outputs = [operand for operand in op["operands"] if operand["role"] == "out" and not operand["optional"]]
        self.blocks = next((at for at, operand in enumerate(self.reads) if operand["kind"] == "blocks"), None)
        self.windows = [option["name"] for option in op["options"] if option["kind"] == "window"]
        # Results with the extents of an operand: then they may be symbols.
        like = [operand["extents"] for operand in self.reads if operand["kind"] == "runs"]
        same = all(output["extents"] in like and output["kind"] == "runs" for output in self.outputs)
        self.like = [like.index(output["extents"]) for output in self.outputs] if same and None not in like else None
        if op["broadcasts"]:
            self.like = None
        self.schema, self.mutates = self._schema(op)

    def _schema(self, op):
        last = max((at for at, operand in enumerate(self.reads) if not operand["optional"]), default=-1)
        items, mutates = [], []
        for at, operand in enumerate(self.reads):
            name = operand["name"]
            if operand["role"] == "inout":
                items.append(f"Tensor(a{at}!) {name}")
                mutates.append(name)
            elif operand["optional"]:
                items.append(f"Tensor? {name}" + (" = None" if at > last else ""))
            else:
                items.append(f"Tensor {name}")
        words = [_option(option) for option in op["options"]]
        if op["output_type"]:
            name, default = op["output_type"]
            words.append(f"str {name}" + (f'="{default}"' if default else ""))
        if self.blocks is not None:
            words.append("str format")
        result = ["()", "Tensor"][len(self.outputs)] if len(self.outputs) < 2 else None
        result = result or "(" + ", ".join(["Tensor"] * len(self.outputs)) + ")"
        return f"({', '.join(items + (['*'] if words else []) + words)}) -> {result}", mutates

    def _options(self, words):
        words = {name: value for name, value in words.items() if value is not None and name != "format"}
        for name in self.windows:
            if name in words:
                words[name] = tuple(None if side < 0 else side for side in words[name])
        return words

    def run(self, *operands, **words):
        # Autograd is done with them; without `detach`, the call would take them for tensors that need gradients.
        operands = [None if x is None else x.detach() for x in operands]
        if self.blocks is not None:
            operands[self.blocks] = _native.blocks(operands[self.blocks], words["format"])
        result = _native.call(self.name, tuple(operands), self._options(words))
        if self.blocks == 0:
            # The result is of the kind of the first operand.
            result = torch.from_dlpack(result)
        return result

    def fake(self, *operands, **words):
        if not self.outputs:
            return None
        if self.like is not None:
            results = [torch.empty_like(operands[at], memory_format=torch.contiguous_format) for at in self.like]
            return results[0] if len(results) == 1 else tuple(results)
        outlines = [None if x is None else ([int(extent) for extent in x.shape], _NAMES[x.dtype]) for x in operands]
        if self.blocks is not None:
            dims, _ = outlines[self.blocks]
            outlines[self.blocks] = ([*dims[:-1], dims[-1] // _native.block(words["format"])[1]], words["format"])
        device = next(x.device for x in operands if x is not None)
        outputs = _native.infer(self.name, outlines, self._options(words))
        results = [torch.empty(shape, dtype=_TYPES[dtype], device=device) for shape, dtype in outputs]
        return results[0] if len(results) == 1 else tuple(results)


def _register():
    for op in _native.ops():
        if op["name"] == "quantize":
            continue
        custom = _Custom(op)
        registered = torch.library.custom_op(
            f"rocm_ops::{custom.name}", custom.run, mutates_args=custom.mutates, schema=custom.schema
        )
        registered.register_fake(custom.fake)


_register()


def quantize(x, format):
    """The rows of ``x`` as blocks of a format such as ``"q8_0"``: a ``uint8`` tensor."""
    return torch.from_dlpack(_native.call("quantize", (x.detach().float().contiguous(),), {"to": format}))


class QuantLinear(nn.Module):
    """``y = x · weightᵀ + bias`` with a quantized weight, ``[out_features, bytes of a row]``, as GGUF files have it.

    ``x`` and ``y`` are of any float type. The weight has no gradient and is no parameter.
    """

    def __init__(self, weight, format, bias=None):
        super().__init__()
        values, size = _native.block(format)
        if weight.dtype != torch.uint8 or weight.dim() != 2 or weight.shape[1] % size:
            raise ValueError(
                f"QuantLinear: weight is {weight.dtype} of shape {list(weight.shape)}, expected uint8 rows of blocks of "
                f"{size} bytes for {format}"
            )
        self.format = format
        self.out_features, self.in_features = weight.shape[0], weight.shape[1] // size * values
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    @classmethod
    def from_linear(cls, linear, format):
        """Quantizes an ``nn.Linear``."""
        bias = None if linear.bias is None else linear.bias.detach()
        return cls(quantize(linear.weight, format), format, bias)

    def forward(self, x):
        return torch.ops.rocm_ops.qlinear(x, self.weight, self.bias, format=self.format)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, format={self.format}"


def load_gguf(path):
    """The tensors of a GGUF file or a Hugging Face folder by name: matrices of blocks as ``QuantLinear``, all else as tensors.

    They are copies, which may be written. Blocks that are no matrix are ``uint8``.
    """
    result = {}
    for name, tensor in _native.load_gguf(path).items():
        blocks = tensor.dtype not in _TYPES
        copy = torch.empty(_bytes(tensor), dtype=torch.uint8)
        _native.copy_bytes(tensor, copy)
        if not blocks:
            result[name] = copy.view(_TYPES[tensor.dtype]).reshape(tensor.shape)
            continue
        rows = copy.reshape(*tensor.shape[:-1], -1)
        result[name] = QuantLinear(rows, tensor.dtype) if len(tensor.shape) == 2 else rows
    return result


def _bytes(tensor):
    elements = 1
    for extent in tensor.shape:
        elements *= extent
    return elements * _native.block(tensor.dtype)[1]
