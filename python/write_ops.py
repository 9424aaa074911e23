"""Writes rocm_ops/_ops.py: one function for each op of the registry, with the documentation of its Rust type.

    python write_ops.py            writes it
    python write_ops.py --check    exits with 1 if it is out of date

Needs an installed rocm_ops, whose registry it reads.
"""

import keyword
import re
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The package in this folder has no extension.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
RUST = HERE.parent / "crates/ops-core/src/ops"
TARGET = HERE / "rocm_ops/_ops.py"

HEAD = '''"""Ops as functions. Written by python/write_ops.py from the registry: do not edit."""

from collections.abc import Sequence
from typing import Any, Literal

from ._native import call

'''

KINDS = {
    "number": "float",
    "value": "float",
    "count": "int",
    "axis": "int",
    "counts": "int | Sequence[int]",
    "axes": "int | Sequence[int]",
    "flag": "bool",
    "window": "tuple[int | None, int | None]",
    "dtype": "str",
}


class Docs:
    """What the Rust sources say about types, their fields and the variants of functions."""

    def __init__(self):
        self.structs, self.variants, self.fields, self.families = {}, {}, {}, {}
        for file in sorted(RUST.rglob("*.rs")):
            if file.name != "registry.rs":
                self.read(file.read_text())
        registry = (RUST / "registry.rs").read_text()
        body = registry[registry.index("\nregistry! {") :]
        for family, struct, rest in re.findall(r"^    (\w+): (\w+)(?:<T>)?, ([^;]*);", body, re.M):
            for name in re.findall(r'Name::of\("(\w+)"', rest) or [family]:
                self.families.setdefault(name, struct)
            table = re.search(r"\b([A-Z]{4,})\b", rest)
            if table:
                self.families[table[1]] = struct
        names = (RUST / "registry/names.rs").read_text()
        tables = dict(re.findall(r"^    (\w+): (\w+Fn|ConvForm)\b", names, re.M))
        tables |= {"PARAMETRIC": "ParametricFn", "UPSAMPLE": "UpsampleFn"}
        self.of_enum = {enum: self.families.get(table) for table, enum in tables.items()}

    def read(self, text):
        docs, inside = [], None
        for line in text.splitlines():
            stripped = line.strip()
            if stripped.startswith("///"):
                docs.append(stripped[3:].strip())
                continue
            if found := re.match(r"pub (?:struct|enum) (\w+)", stripped):
                inside = found[1]
                self.structs[inside] = docs
            elif inside and (found := re.match(r"(?:pub(?:\(\w+\))? )?(\w+):", stripped)):
                if docs:
                    self.fields.setdefault((inside, found[1]), docs)
            elif inside and (found := re.match(r"([A-Z]\w+)(?: \{.*)?[,{]?$", stripped)):
                self.variants[inside, found[1]] = docs
            if found := re.match(r"(\w+)::(\w+)(?: \{[^}]*\})? => \"(\w+)\"", stripped):
                self.variants[found[3]] = (found[1], found[2])
            if not stripped.startswith("#["):
                docs = []

    def of(self, name):
        """Paragraphs about the op, and its struct."""
        if name in self.families:
            struct = self.families[name]
            return self.structs.get(struct, []), [struct]
        if name in self.variants:
            enum, variant = self.variants[name]
            struct = self.of_enum.get(enum)
            return self.variants.get((enum, variant), []), [enum, struct]
        return [], []

    def option(self, structs, name):
        for struct in structs:
            if (struct, name) in self.fields:
                return self.fields[struct, name]
        return []


def plain(lines):
    """Markdown of rustdoc as a docstring has it."""
    text = "\n".join(lines)
    text = re.sub(r"\[(`[^`]*`)\](?:\([^)]*\))?", r"\1", text)
    text = re.sub(r"\[([^\]`]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"`([^`]*)`", r"``\1``", text)
    # Items of lists are paragraphs of their own.
    text = re.sub(r"\n(- |\d+\. )", r"\n\n\1", text)
    return [re.sub(r"\s+", " ", part).strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def parameters(op):
    """Positional parameters, keywords, the entries of the dictionary of options, and wanted outputs."""
    reads = [operand for operand in op["operands"] if operand["role"] != "out"]
    last = max((at for at, operand in enumerate(reads) if not operand["optional"]), default=-1)
    positional = []
    for at, operand in enumerate(reads):
        default = " = None" if operand["optional"] and at > last else ""
        positional.append(f"{operand['name']}: Any{default}")
    options = sorted(op["options"], key=lambda option: not option["needed"])
    words, entries = [], []
    for option in options:
        kind = KINDS.get(option["kind"]) or "Literal[" + ", ".join(f'"{word}"' for word in option["words"]) + "]"
        default = option["default"]
        if option["needed"]:
            words.append(f"{option['name']}: {kind}")
        else:
            shown = f'"{default}"' if isinstance(default, str) else repr(default)
            kind = kind if default is not None else f"{kind} | None"
            words.append(f"{option['name']}: {kind} = {shown}")
        entries.append(option["name"])
    if op["output_type"]:
        name, default = op["output_type"]
        words.insert(0 if default is None else len(words), f"{name}: str" + (f' = "{default}"' if default else ""))
        entries.append(name)
    outputs = [operand for operand in op["operands"] if operand["role"] == "out"]
    wanted = [operand["name"] for operand in outputs if operand["optional"]]
    words += [f"{name}: bool = False" for name in wanted]
    if outputs:
        words.append("out: Any = None")
    return positional, words, entries, wanted, outputs


def kind_of(operand):
    kind = operand["kind"]
    kind = ", ".join(kind) if isinstance(kind, list) else kind
    return {"runs": "", "any": "", "blocks": "blocks"}.get(kind, kind)


def function(op, docs):
    name = op["name"]
    positional, words, entries, wanted, outputs = parameters(op)
    star = ["*"] if words else []
    signature = f"def {name}({', '.join(positional + star + words)}) -> Any:"
    if len(signature) > 118:
        inner = "".join(f"    {one},\n" for one in positional + star + words)
        signature = f"def {name}(\n{inner}) -> Any:"
    about, structs = docs.of(name)
    paragraphs = [part for part in plain(about) if not part.startswith("Operands:")] or [f"The op ``{name}``."]
    if op["broadcasts"]:
        paragraphs.append("Operands of different extents are broadcast together.")
    lines = []
    for operand in op["operands"]:
        notes = [operand["extents"] and f"``[{operand['extents']}]``", kind_of(operand)]
        notes.append({"out": "written", "inout": "read and written"}.get(operand["role"]))
        notes.append("optional" if operand["optional"] else None)
        notes = "; ".join(note for note in notes if note)
        lines.append(f"- ``{operand['name']}``" + (f": {notes}" if notes else ""))
    for option in op["options"]:
        said = " ".join(plain(docs.option(structs, option["name"]))[:1])
        lines.append(f"- ``{option['name']}``" + (f": {said}" if said else ""))
    lines.append(f"- element types: {', '.join(op['types']) if len(op['types']) < 12 else 'all'}")
    text = ""
    for part in paragraphs:
        item = re.match(r"(- |\d+\. )", part)
        gap = "\n" if item and part != paragraphs[0] else "\n\n"
        text += gap + textwrap.fill(part, 112, subsequent_indent=" " * len(item[0]) if item else "", break_long_words=False)
    text += "\n\n" + "\n".join(
        textwrap.fill(line, 112, subsequent_indent="  ", break_long_words=False) for line in lines
    )
    text = textwrap.indent(text, "    ").strip().replace("\\", "\\\\")
    items = ", ".join(f'"{entry}": {entry}' for entry in entries)
    operands = ", ".join(one.split(":")[0] for one in positional) + ("," if len(positional) == 1 else "")
    arguments = [f'"{name}"', f"({operands})", "{" + items + "}" if entries else "None"]
    arguments.append("out" if outputs else "None")
    if wanted:
        (one,) = wanted
        arguments.append(f'["{one}"] if {one} else None')
    body = f"    return call({', '.join(arguments)})"
    for one in positional + words:
        assert not keyword.iskeyword(one.split(":")[0]), one
    return f'{signature}\n    """{text}\n    """\n{body}\n'


def main():
    from rocm_ops._native import ops

    docs, all_ops = Docs(), sorted(ops(), key=lambda op: op["name"])
    names = "".join(f'    "{op["name"]}",\n' for op in all_ops)
    text = HEAD + f"__all__ = [\n{names}]\n\n\n" + "\n\n".join(function(op, docs) for op in all_ops)
    if "--check" in sys.argv:
        if TARGET.read_text() != text:
            sys.exit("rocm_ops/_ops.py is out of date: run python/write_ops.py")
        return
    TARGET.write_text(text)
    silent = [op["name"] for op in all_ops if not docs.of(op["name"])[0]]
    print(f"{len(all_ops)} functions" + (f"; without documentation: {', '.join(silent)}" if silent else ""))


if __name__ == "__main__":
    main()
