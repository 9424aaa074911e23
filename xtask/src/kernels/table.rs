//! Writes `kernels.json` next to the code objects: what a program outside this project needs to launch them.
use super::layouts::{self, Layout};
use ops_kernels::source::Family;
use ops_kernels::{Instance, instances, target};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Serialize)]
struct Table<'t> {
    compiler: String,
    /// Rules for every kernel.
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
    /// The folder of its `FAMILY.hsaco`.
    folder: &'t str,
}

#[derive(Serialize)]
struct Grid {
    family: &'static str,
    /// Number of blocks in x for which each block has a single iteration.
    blocks: &'static str,
    /// Maximum number of blocks that the library launches, as a function of the compute units.
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
    /// The targets in this table that have the kernel; some kernels need instructions that not every target has.
    targets: Vec<&'t str>,
}

const LAUNCH: &[&str] = &[
    "There is one argument, passed by value: the struct named in `args`, at offset 0. The hidden arguments that the code \
     object's metadata lists follow it.",
    "A block has exactly `block` threads in x and 1 in y and z. `lds` bytes of LDS are static; there is no dynamic LDS.",
    "The grid is one-dimensional. Kernels loop over the rest if it is smaller than the problem, so any number of blocks \
     from 1 gives the same result. Do not launch an empty problem.",
    "Waves are as wide as the target's `wave`.",
    "Element counts, strides and offsets are in elements, or in blocks for block types; addresses are byte addresses.",
    "Dimensions are right-aligned: of six, the last is the innermost. `magic` and `shift` are the divider of the same \
     dimension: for n below 2^63, n / dim = (high 64 bits of 2 n * magic) >> shift.",
];

/// How to compute the grid from the arguments; see the functions `prepare` in the families' modules.
const fn grid(family: Family) -> Grid {
    let name = family.name();
    let elementwise = "ceil(ceil(shape.count / shape.pack) / block)";
    let (blocks, most) = match family {
        Family::Unary
        | Family::Binary
        | Family::Bitwise
        | Family::Compare
        | Family::Parametric
        | Family::Copy
        | Family::Cast
        | Family::Index
        | Family::BatchNorm
        | Family::Rope => (elementwise, "32 per compute unit"),
        Family::QkNormRope => ("ceil(rows / (block / lanes))", "64 per compute unit"),
        Family::Cache => (
            "cache_write: ceil(count / pack / block); rope_cache_write: ceil(2 * rows / (block / lanes))",
            "cache_write: 32 per compute unit; rope_cache_write: 64 per compute unit",
        ),
        Family::LinearAttention => (
            "conv1d_update: ceil(count / block); gated_delta_rule: batch * heads * tiles",
            "conv1d_update: 64 per compute unit; gated_delta_rule: no limit",
        ),
        Family::Pool | Family::Upsample => ("ceil(planes.count / block)", "32 per compute unit"),
        Family::Reduce => (
            "rows: ceil(items / (block / lanes)); `columns`: items; results of parts are joined by a launch of `rows` over them",
            "64 per compute unit",
        ),
        Family::Scan => ("rows: items; `columns`: ceil(rows / block)", "64 per compute unit; `columns` 32"),
        Family::Sort => (
            "`tiles`: ceil(tiles of all rows / tiles of a block); merges: ceil(results / block)",
            "64 per compute unit; merges 32",
        ),
        Family::Scatter => (
            "gather: ceil(shape.count / block); `walk`: ceil(lines / block); `sorted`: ceil(shape.count / block), after a sort of \
             the indices",
            "32 per compute unit",
        ),
        Family::Norm => (
            "rows of a block each, or a wave's lanes to a row: ceil(rows / rows of a block); group_norm: one for each \
             group of a batch; `parts`: group_rows * parts; `apply`: group_rows * shares",
            "64 per compute unit",
        ),
        Family::Gated => (
            "norms: a block, or a wave's lanes, to a row: ceil(rows / rows of a block); swiglu_clamped: \
             ceil(ceil(shape.count / shape.pack) / block)",
            "norms: 64 per compute unit; swiglu_clamped: 32",
        ),
        Family::Routing => (
            "router_topk: ceil(rows / waves of a block); combine_experts: ceil(ceil(shape.count / shape.pack) / block)",
            "router_topk: 64 per compute unit; combine_experts: 32",
        ),
        Family::Sampling => (
            "sample: a block to a row; random numbers: ceil(count / 4 / block), f64: ceil(count / 2 / block)",
            "64 per compute unit",
        ),
        Family::Experts => ("ceil(rows * groups * lanes / block)", "64 per compute unit"),
        Family::ExpertsSort => (
            "`choices`: ceil(rows / block), then `sort`: experts + 1, before a kernel of tiles",
            "`choices`: 32 per compute unit; `sort`: 64",
        ),
        Family::ExpertsDot => {
            ("`split`: ceil(slots * d / 32 / (block / 8)), then `dot1`: rows * groups", "64 per compute unit")
        }
        Family::ExpertsTile | Family::ExpertsMma => ("slots * ceil(outputs / tile)", "64 per compute unit"),
        Family::Softmax => (
            "contiguous axis: ceil(rows / rows of a block); `column`: ceil(rows / block), one thread per row",
            "64 per compute unit; `column` 32",
        ),
        Family::MatmulMma => ("ceil(m / tile) * ceil(n / tile) * batch", "64 per compute unit"),
        Family::Matmul => (
            "tiles: ceil(m / tile) * ceil(n / tile) * batch; `rows*`: ceil(groups of columns / waves of a block)",
            "64 per compute unit",
        ),
        Family::Conv => (
            "tile: ceil(outputs / 64) * ceil(pixels / 64) * images; direct: ceil(count / block)",
            "tile: 64 per compute unit; direct: 32",
        ),
        Family::ConvMma => ("ceil(outputs / tile) * ceil(positions / tile) * groups", "64 per compute unit"),
        Family::AttentionMma => ("ceil(t * group / 128) * batch * kv_heads", "no limit"),
        Family::Attention => ("ceil(t * group / tile rows) * batch * kv_heads * value_parts", "no limit"),
        Family::AttentionDecode => ("ceil(t * group / rows) * batch * kv_heads * splits", "no limit"),
        Family::Quant => (
            "quantize: ceil(shape.count / (block / 8)); others: a lane for eight values",
            "64 per compute unit",
        ),
        Family::Group => ("ceil(bytes of x / 4096)", "16"),
        Family::MmaUnit => ("1", "1"),
        Family::QlinearMma => ("ceil(rows / tile) * ceil(n / tile)", "64 per compute unit"),
        Family::QlinearDot => (
            "`split`: ceil(plane_rows * k / 32 / (block / 8)), before any other; dot*: ceil(groups of columns * lanes / block)",
            "64 per compute unit",
        ),
        Family::Qlinear => (
            "tile*: ceil(rows / tile) * ceil(n / tile); rows*: ceil(groups of columns * lanes / block)",
            "64 per compute unit",
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

/// Writes the table for the code objects in `folder`.
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
