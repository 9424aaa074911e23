"""Custom ops and modules for PyTorch.

Importing this module registers every op as ``torch.ops.rocm_ops.NAME``, with what ``torch.compile`` needs to know of its
results. Operands come first, options are keywords. An op on blocks takes a ``uint8`` tensor and ``format=``. Windows
are two integers, of which -1 means no limit. A custom op has a fixed number of results, so an op with an optional one is
two: ``attention`` and ``attention_lse``, which also returns ``lse``.

There are no gradients: a backward pass through these ops is an error of PyTorch that names the op.
"""

from contextlib import contextmanager

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
    """An op of the registry as a custom op, with the optional outputs in ``wanted``."""

    def __init__(self, op, wanted):
        self.name, self.wanted = op["name"], wanted
        self.reads = [operand for operand in op["operands"] if operand["role"] != "out"]
        outputs = [operand for operand in op["operands"] if operand["role"] == "out"]
        self.outputs = [operand for operand in outputs if not operand["optional"] or operand["name"] in wanted]
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
        result = _native.call(self.name, tuple(operands), self._options(words), None, self.wanted)
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
        outputs = _native.infer(self.name, outlines, self._options(words), self.wanted)
        results = [torch.empty(shape, dtype=_TYPES[dtype], device=device) for shape, dtype in outputs]
        return results[0] if len(results) == 1 else tuple(results)


def _register():
    for op in _native.ops():
        if op["name"] == "quantize":
            continue
        optional = [operand["name"] for operand in op["operands"] if operand["role"] == "out" and operand["optional"]]
        for wanted in [[], *([name] for name in optional)]:
            custom = _Custom(op, wanted)
            registered = torch.library.custom_op(
                "rocm_ops::" + "_".join([custom.name, *wanted]),
                custom.run,
                mutates_args=custom.mutates,
                schema=custom.schema,
            )
            registered.register_fake(custom.fake)


_register()


def _shape(format, rows, width):
    """The shape of a weight in blocks."""
    return [rows, width // _native.block(format)[0]]


@torch.library.custom_op("rocm_ops::qlinear_packed", mutates_args=())
def _qlinear_packed(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, format: str, out_features: int, in_features: int
) -> torch.Tensor:
    """``qlinear`` with the bytes of a packed weight."""
    weight = _native.packed(weight.detach(), format, _shape(format, out_features, in_features))
    # Kernels for packed weights are not for this type.
    weight = weight.unpacked() if x.dtype == torch.float64 else weight
    return _native.call("qlinear", (x.detach(), weight, None if bias is None else bias.detach()))


@_qlinear_packed.register_fake
def _(x, weight, bias, *, format, out_features, in_features):
    return x.new_empty((*x.shape[:-1], out_features))


def quantize(x, format):
    """The rows of ``x`` as blocks of a format such as ``"q8_0"``: a ``uint8`` tensor."""
    return torch.from_dlpack(_native.call("quantize", (x.detach().float().contiguous(),), {"to": format}))


class QuantLinear(nn.Module):
    """``y = x · weightᵀ + bias`` with a quantized weight, ``[out_features, bytes of a row]``, as GGUF files have it.

    ``x`` and ``y`` are of any float type. The weight has no gradient and is no parameter. On the CPU, the module keeps it in the
    order in which this processor multiplies fastest, unless it is small: then ``weight`` has one axis of bytes. ``rows()`` and
    ``state_dict()`` have its rows. To change it, use ``load_state_dict`` or make another module.
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
        self.register_buffer("weight", self._packed(weight))
        self.register_buffer("bias", bias)

    @classmethod
    def from_linear(cls, linear, format):
        """Quantizes an ``nn.Linear``."""
        bias = None if linear.bias is None else linear.bias.detach()
        return cls(quantize(linear.weight, format), format, bias)

    def _packed(self, rows):
        if rows.device.type != "cpu":
            return rows
        weight = _native.pack_weight(_native.blocks(rows.contiguous(), self.format))
        return torch.from_dlpack(weight) if weight.packed else rows

    def rows(self):
        """The weight as GGUF files have it: a copy, if it is kept in another order."""
        if self.weight.dim() == 2:
            return self.weight
        shape = _shape(self.format, self.out_features, self.in_features)
        return torch.from_dlpack(_native.packed(self.weight, self.format, shape).unpacked())

    @contextmanager
    def _in_rows(self):
        """The weight in its usual order, in which it may be saved, loaded and moved."""
        self.weight = self.rows()
        try:
            yield
        finally:
            self.weight = self._packed(self.weight)

    def _apply(self, fn, recurse=True):
        with self._in_rows():
            return super()._apply(fn, recurse)

    def _save_to_state_dict(self, *arguments):
        with self._in_rows():
            super()._save_to_state_dict(*arguments)

    def _load_from_state_dict(self, *arguments):
        with self._in_rows():
            super()._load_from_state_dict(*arguments)

    def __getstate__(self):
        return {**self.__dict__, "_buffers": {**self._buffers, "weight": self.rows()}}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.weight = self._packed(self.weight)

    def forward(self, x):
        if self.weight.dim() == 1:
            out, width = self.out_features, self.in_features
            return torch.ops.rocm_ops.qlinear_packed(
                x, self.weight, self.bias, format=self.format, out_features=out, in_features=width
            )
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
