//! qlinear: rows of floats times a quantized weight.
use crate::instances::{Arguments, Table};
use crate::launch::need;
use crate::matmul::mma_lds;
use crate::quant::BLOCK_ELEMENTS;
use crate::{Device, Dtype, Family, Launch, Operand, Refused, Shape, View, rows};

const BLOCK: u32 = 256;

/// Arguments of every qlinear kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct QLinearArgs {
    pub shape: Shape,
    pub x: Operand,
    pub y: Operand,
    pub weight: u64,
    pub weight_row: i64,
    pub weight_block: i64,
    pub rows: u64,
    pub n: u64,
    pub k: u64,
    pub lanes: u64,
}

impl Arguments for QLinearArgs {
    const NAME: &'static str = "QLinearArgs";
}

fn tile_lds(size: u32, t: Dtype) -> u32 {
    2 * (BLOCK * 8 / size) * (size + 4) * if t == Dtype::F64 { 8 } else { 4 }
}

/// Tiles on matrix units, and their LDS: x in as many parts as its type has, the weight, its scales.
const MMA_TILES: [(&str, u64); 2] = [("mma128", 128), ("mma64", 64)];

fn declare_mma(table: &mut Table) {
    let mut qlinear = table.of::<QLinearArgs>(Family::QlinearMma, BLOCK);
    for b in Dtype::BLOCKS {
        for t in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
            for (variant, tile) in MMA_TILES {
                let parts = if t == Dtype::F32 { 2 } else { 1 };
                let lds = mma_lds(tile) / 2 * (parts + 1) + 4 * tile as u32;
                qlinear.add_variant("qlinear", variant, &[b, t], "qlinear_mma", &[&tile.to_string()], lds);
            }
        }
    }
}

pub(crate) fn declare(table: &mut Table) {
    declare_mma(table);
    let mut qlinear = table.of::<QLinearArgs>(Family::Qlinear, BLOCK);
    for b in Dtype::BLOCKS {
        for t in Dtype::FLOATS {
            let types = [b, t];
            qlinear.add_variant("qlinear", "rows1", &types, "qlinear_rows", &["1"], 0);
            qlinear.add_variant("qlinear", "rows4", &types, "qlinear_rows", &["4"], 0);
            qlinear.add_variant("qlinear", "tile64", &types, "qlinear_tile", &["1"], tile_lds(64, t));
            if t != Dtype::F64 {
                qlinear.add_variant("qlinear", "rows8", &types, "qlinear_rows", &["8"], 0);
                qlinear.add_variant("qlinear", "tile128", &types, "qlinear_tile", &["2"], tile_lds(128, t));
            }
        }
    }
}

/// Prepares `y[.., n] = x[.., k] weight[n, k]`: `dims` are x's, a whole number of blocks along the last;
/// `weight` is \[n, k / 32\] of blocks; y has x's leading dimensions.
pub fn prepare(
    dims: &[u64],
    n: u64,
    [x, weight, y]: [View<'_>; 3],
    device: &Device,
) -> Result<(Launch, QLinearArgs), Refused> {
    let types = [weight.dtype, x.dtype];
    let (shape, [x, y]) = rows(dims, 1, [x, y])?;
    let k = shape.inner();
    let most = u64::from(u32::MAX);
    if k > most {
        return Err(Refused::Limit { what: "k", got: k, most });
    }
    let &[weight_row, weight_block] = weight.strides else { return Err(Refused::Rank(weight.strides.len())) };
    let count: u64 = dims.iter().rev().skip(1).product();
    let lanes = (k / BLOCK_ELEMENTS).next_power_of_two().min(u64::from(device.wave));
    let args =
        QLinearArgs { shape, x, y, weight: weight.data, weight_row, weight_block, rows: count, n, k, lanes };
    Ok((launch(&args, types, device)?, args))
}

fn launch(args: &QLinearArgs, types: [Dtype; 2], device: &Device) -> Result<Launch, Refused> {
    let times = |a: u64, b: u64| a.checked_mul(b).ok_or(Refused::Size);
    if args.rows <= device.tuning.qlinear_rows() {
        let wide = crate::find("qlinear", "rows8", &types).filter(|_| args.rows > 4);
        let (instance, together, columns) = match (args.rows, wide) {
            (0 | 1, _) => (need("qlinear", "rows1", &types)?, 1, 4),
            (_, Some(wide)) => (wide, 8, 2),
            _ => (need("qlinear", "rows4", &types)?, 4, 2),
        };
        let groups = times(args.rows.div_ceil(together), args.n.div_ceil(columns))?;
        return Ok(Launch::over(instance, groups, u64::from(BLOCK) / args.lanes.max(1), device.row_blocks()));
    }
    let tiles = |size| times(args.rows.div_ceil(size), args.n.div_ceil(size));
    if device.matrix.is_some() && types[1] != Dtype::F64 {
        let [(large, wide), (small, narrow)] = MMA_TILES;
        let (variant, tile) = if device.takes_large(tiles(wide)?) { (large, wide) } else { (small, narrow) };
        return Ok(Launch::over(need("qlinear", variant, &types)?, tiles(tile)?, 1, device.row_blocks()));
    }
    let (instance, tiles) = match crate::find("qlinear", "tile128", &types) {
        Some(large) if device.takes_large(tiles(128)?) => (large, tiles(128)?),
        _ => (need("qlinear", "tile64", &types)?, tiles(64)?),
    };
    Ok(Launch::over(instance, tiles, 1, device.row_blocks()))
}
