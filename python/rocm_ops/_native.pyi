from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypedDict, overload

class SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **words: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Unsupported(RuntimeError): ...

class Tensor:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def packed(self) -> bool: ...
    def unpacked(self) -> Tensor: ...
    @property
    def data_ptr(self) -> int: ...
    def to(self, device: str) -> Tensor: ...
    def numpy(self) -> Any: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Stream(Iterator[str]):
    @property
    def finish(self) -> Literal["end", "stop", "length", "context"] | None: ...
    def __iter__(self) -> Stream: ...
    def __next__(self) -> str: ...

class Model:
    def __new__(
        cls,
        path: str | PathLike[str],
        *,
        backend: Literal["cpu", "rocm", "reference"] = "cpu",
        dtype: Literal["f32", "f16", "bf16"] = "f32",
        context: int = 4096,
    ) -> Model: ...
    @overload
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        stop: str | Sequence[str] | None = None,
        stream: Literal[False] = False,
        **options: Any,
    ) -> str: ...
    @overload
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        stop: str | Sequence[str] | None = None,
        stream: Literal[True],
        **options: Any,
    ) -> Stream: ...
    @overload
    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        stop: str | Sequence[str] | None = None,
        stream: Literal[False] = False,
        **options: Any,
    ) -> str: ...
    @overload
    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        stop: str | Sequence[str] | None = None,
        stream: Literal[True],
        **options: Any,
    ) -> Stream: ...
    def embed(self, texts: Sequence[str]) -> Any: ...
    def logits(self, ids: Sequence[int]) -> Any: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def vocabulary(self) -> int: ...

class Operand(TypedDict):
    name: str
    role: Literal["in", "out", "inout"]
    optional: bool
    extents: str | None
    kind: str | list[str]

class Option(TypedDict):
    name: str
    kind: str
    words: list[str]
    needed: bool
    default: Any

class Op(TypedDict):
    name: str
    types: list[str]
    broadcasts: bool
    output_type: tuple[str, str | None] | None
    operands: list[Operand]
    options: list[Option]

def call(
    name: str,
    operands: tuple[SupportsDLPack | None, ...],
    options: Mapping[str, Any] | None = None,
    out: Any = None,
    wanted: Sequence[str] | None = None,
    backend: Literal["cpu", "reference", "rocm"] | None = None,
) -> Any: ...
def infer(
    name: str,
    operands: Sequence[tuple[Sequence[int], str] | None],
    options: Mapping[str, Any] | None = None,
    wanted: Sequence[str] | None = None,
) -> list[tuple[tuple[int, ...], str]]: ...
def ops() -> list[Op]: ...
def from_dlpack(x: SupportsDLPack) -> Tensor: ...
def blocks(x: SupportsDLPack, format: str) -> Tensor: ...
def empty(shape: Sequence[int], dtype: str = "f32", device: str = "cpu") -> Tensor: ...
def block(dtype: str) -> tuple[int, int]: ...
def pack_weight(weight: SupportsDLPack) -> Any: ...
def packed(bytes: SupportsDLPack, dtype: str, shape: Sequence[int]) -> Tensor: ...
def copy_bytes(from_: Tensor, to: SupportsDLPack) -> None: ...
def load_gguf(path: str | PathLike[str]) -> dict[str, Tensor]: ...
def synchronize() -> None: ...
def command(words: Sequence[str], start: Sequence[str], folder: str) -> int: ...
