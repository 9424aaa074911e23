//! `kernels.json` beside the code objects: what a program other than this project needs to launch them.
use super::layouts::{self, Layout};
use ops_kernels::source::Family;
use ops_kernels::{Instance, instances, target};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Serialize)]
struct Table<'t> {
    compiler: String,
    /// What holds for every kernel.
    launch: &'static [&'static str],
    targets: Vec<Target<'t>>,
    families: Vec<Grid>,
    kernels: Vec<Kernel<'t>>,
    structs: BTreeMap<String, Layout>,
}

#[derive(Serialize)]
struct Target<'t> {
    name: &'t str,
    wave: u32,
    /// `FAMILY.hsaco` lies in it.
    folder: &'t str,
}

#[derive(Serialize)]
struct Grid {
    family: &'static str,
    /// Blocks in x for which no block has to take a second turn.
    blocks: &'static str,
    /// How many of them the library launches at most, by the number of compute units.
    most: &'static str,
}

#[derive(Serialize)]
struct Kernel<'t> {
    symbol: &'static str,
    family: &'static str,
    op: &'static str,
    variant: &'static str,
    types: Vec<&'static str>,
    block: u32,
    lds: u32,
    args: &'static str,
    args_size: usize,
    /// The targets of this table that have it: some kernels need instructions that not all have.
    targets: Vec<&'t str>,
}

const LAUNCH: &[&str] = &[
    "One argument, passed by value: the struct named in `args`, at offset 0 of the kernel's arguments; the hidden \
     arguments that the code object's metadata lists follow it.",
    "Exactly `block` threads in x, 1 in y and z. `lds` bytes of LDS are static; none is dynamic.",
    "The grid is one-dimensional. Kernels step over what exceeds it: any number of blocks from 1 gives the same result. \
     An empty problem is not launched.",
    "Waves are as wide as the target's `wave`.",
    "Element counts, strides and offsets are in elements, of a block type in blocks; addresses are byte addresses.",
    "Dimensions are right-aligned: of six, the last is the innermost. `magic` and `shift` are the divider of the same \
     dimension: for n below 2^63, n / dim = (high 64 bits of 2 n * magic) >> shift.",
];

/// How the grid follows from the arguments; see the functions `prepare` of the families' modules.
const fn grid(family: Family) -> Grid {
    let name = family.name();
    let elementwise = "ceil(ceil(shape.count / shape.pack) / block)";
    let (blocks, most) = match family {
        Family::Unary | Family::Binary | Family::Copy | Family::Cast | Family::Index | Family::Rope => {
            (elementwise, "32 for each compute unit")
        }
        Family::Norm => (
            "rows of a block each, or a wave's lanes to a row: ceil(rows / rows of a block); group_norm: one for each \
             group of a batch; `parts`: group_rows * parts; `apply`: group_rows * shares",
            "64 for each compute unit",
        ),
        Family::Softmax => (
            "contiguous axis: ceil(rows / rows of a block); `column`: ceil(rows / block), a thread to a row",
            "64 for each compute unit; `column` 32",
        ),
        Family::MatmulMma => ("ceil(m / tile) * ceil(n / tile) * batch", "64 for each compute unit"),
        Family::Matmul => (
            "tiles: ceil(m / tile) * ceil(n / tile) * batch; `rows*`: ceil(groups of columns / waves of a block)",
            "64 for each compute unit",
        ),
        Family::AttentionMma => ("ceil(t * group / 128) * batch * kv_heads", "all of them"),
        Family::Attention => ("ceil(t * group / tile rows) * batch * kv_heads", "all of them"),
        Family::AttentionDecode => (
            "rows*: ceil(t * group / rows) * batch * kv_heads * splits; combine: batch * heads * t",
            "rows*: all of them; combine: 64 for each compute unit",
        ),
        Family::Quant => {
            ("ceil(shape.count / (block / 8)): eight lanes to a block of values", "64 for each compute unit")
        }
        Family::MmaUnit => ("1", "1"),
        Family::QlinearMma => ("ceil(rows / tile) * ceil(n / tile)", "64 for each compute unit"),
        Family::QlinearDot => (
            "`split`: ceil(plane_rows * k / 32 / (block / 8)), before any other; dot*: ceil(groups of columns * lanes / block)",
            "64 for each compute unit",
        ),
        Family::Qlinear => (
            "tile*: ceil(rows / tile) * ceil(n / tile); rows*: ceil(groups of columns * lanes / block)",
            "64 for each compute unit",
        ),
    };
    Grid { family: name, blocks, most }
}

fn kernel<'t>(k: &'static Instance, targets: &'t [String]) -> Kernel<'t> {
    Kernel {
        symbol: &k.symbol,
        family: k.family.name(),
        op: k.op,
        variant: k.variant,
        types: k.types.iter().map(|t| t.name()).collect(),
        block: k.block,
        lds: k.lds,
        args: k.args,
        args_size: k.args_size,
        targets: targets.iter().map(String::as_str).filter(|target| k.runs_on(target)).collect(),
    }
}

/// Writes the table for code objects that lie in `folder`.
pub(super) fn write(clang: &str, version: &str, targets: &[String], folder: &Path) -> Result<(), String> {
    if targets.is_empty() {
        return Ok(());
    }
    let table = Table {
        compiler: format!("clang {version}"),
        launch: LAUNCH,
        targets: targets
            .iter()
            .map(|t| Target { name: t, wave: target::wave_of(t).unwrap_or_default(), folder: t })
            .collect(),
        families: Family::ALL.iter().map(|&family| grid(family)).collect(),
        kernels: instances().iter().map(|k| kernel(k, targets)).collect(),
        structs: layouts::of_all(clang, targets, folder)?,
    };
    let path = folder.join("kernels.json");
    let text = serde_json::to_string_pretty(&table).map_err(|e| e.to_string())?;
    std::fs::write(&path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))
}
