"""Writes the grids of the iq2 and iq3 formats, which are constants of the public format, as tables for Rust and for the kernels.

    pip install gguf numpy
    python3 tools/generate/iq-grids.py            from the root of the repository

An entry holds the levels of its eight values (iq2, two bits each) or of its four values (iq3, three bits each), the first in the
lowest bits. What a level means is in the code that reads the tables.
"""
import gguf.quants as quants
import numpy as np

RUST, HEADER = "crates/ops-core/src/quant/iq_grids.rs", "kernels/include/ops_grids.h"
GRIDS = {"IQ2_XXS": 2, "IQ2_XS": 2, "IQ2_S": 2, "IQ3_XXS": 3, "IQ3_S": 3}


def entries(name):
    """The grid's rows as packed levels."""
    quant, bits = getattr(quants, name), GRIDS[name]
    quant.init_grid()
    levels = np.searchsorted(np.array(quant.grid_map), quant.grid.reshape(quant.grid_shape)).astype(np.int64)
    return (levels << (bits * np.arange(levels.shape[1]))).sum(axis=1)


def lines(values, indent):
    rows = (values[i:i + 16] for i in range(0, len(values), 16))
    return "".join(indent + ", ".join(f"{v:#06x}" for v in row) + ",\n" for row in rows)


rust = """//! The grids of the iq2 and iq3 formats. Written by `tools/generate/iq-grids.py`; do not edit.
//!
//! An entry holds the levels of its values, the first in the lowest bits: two bits for each of eight, or three for each of four.
"""
header = """// The grids of the iq2 and iq3 formats. Written by tools/generate/iq-grids.py; do not edit. An entry holds the levels of its
// values, the first in the lowest bits: two bits for each of eight, or three for each of four.
#pragma once
#include "ops_platform.h"

namespace ops {

"""
for name in GRIDS:
    values = entries(name)
    rust += f"\n#[rustfmt::skip]\npub(super) static {name}: [u16; {len(values)}] = [\n{lines(values, '    ')}];\n"
    header += f"OPS_TABLE u16 {name}_GRID[{len(values)}] = {{\n{lines(values, '    ')}}};\n"
with open(RUST, "w") as file:
    file.write(rust)
with open(HEADER, "w") as file:
    file.write(header + "\n}  // namespace ops\n")
