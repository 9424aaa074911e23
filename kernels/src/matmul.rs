//! matmul and linear: c = a b (+ bias), batched, with any strides.
use crate::instances::{Needs, Table, arguments};
use crate::launch::need;
use crate::{
    Device, ElementType, Family, Instance, Launch, OperandView, Refused, Shape, StridedPointer, elementwise,
};

const BLOCK: u32 = 256;
/// Tile elements that each thread stages; `STAGED` in the source.
const STAGED: u32 = 8;

arguments! {
    /// A batch of matrices, as the kernels read it.
    pub struct Matrix {
        pub batch: StridedPointer,
        pub row: i64,
        pub column: i64,
    }

    /// Arguments of every matmul kernel.
    pub struct MatmulArgs {
        pub batches: Shape,
        pub a: Matrix,
        pub b: Matrix,
        pub c: Matrix,
        pub m: u64,
        pub n: u64,
        pub k: u64,
        pub bias: u64,
        pub bias_stride: i64,
        pub bias_is_f32: u64,
        pub up: u64,
        pub bias_row: i64,
        pub norm: u64,
        pub eps: f64,
        pub sharing: u64,
        pub share: u64,
    }
}

/// Type pairs that decoders use. They get every kernel variant; all pairs get the small tile.
const COMMON: [[ElementType; 2]; 6] = [
    [ElementType::F16, ElementType::F16],
    [ElementType::Bf16, ElementType::Bf16],
    [ElementType::F32, ElementType::F32],
    [ElementType::F64, ElementType::F64],
    [ElementType::F32, ElementType::F16],
    [ElementType::F32, ElementType::Bf16],
];

/// Rows in 16 bits by weights in f32, as routers of experts have them: these get plain products of few rows, too.
const BY_F32: [[ElementType; 2]; 2] =
    [[ElementType::F16, ElementType::F32], [ElementType::Bf16, ElementType::F32]];

pub(crate) fn declare(table: &mut Table) {
    declare_mma(table);
    let mut matmul = table.of::<MatmulArgs>(Family::Matmul, BLOCK);
    for a in ElementType::FLOATS {
        for b in ElementType::FLOATS {
            let lds = tile_lds(64, [a, b]);
            matmul.part("tile").add_variant("matmul", "tile64", &[a, b], "matmul_tile", &["1"], lds);
        }
    }
    for types in COMMON.into_iter().chain(BY_F32) {
        matmul.part("rows");
        matmul.add_variant("matmul", "rows1", &types, "matvec", &["1"], rows_lds(1, types));
        matmul.add_variant("matmul", "rows4", &types, "matvec", &["4"], rows_lds(4, types));
    }
    for types in COMMON {
        if types[0] != ElementType::F64 {
            let swiglu = matmul.part("swiglu");
            swiglu.add_variant("linear_swiglu", "rows1", &types, "swiglu_rows", &["1"], 0);
            swiglu.add_variant("linear_swiglu", "rows4", &types, "swiglu_rows", &["4"], 0);
            let normed = matmul.part("norm");
            for (variant, rows) in [("rows1", "1"), ("rows4", "4")] {
                normed.add_variant("rms_norm_linear", variant, &types, "norm_rows", &[rows], 0);
                // Four rows of f32 with 16-bit weights would need more scalar registers than gfx9 has.
                if variant == "rows1" || types[0] == types[1] {
                    normed.add_variant(
                        "rms_norm_linear_swiglu",
                        variant,
                        &types,
                        "norm_swiglu_rows",
                        &[rows],
                        0,
                    );
                }
            }
        }
        if types[0] != ElementType::F64 {
            let lds = tile_lds(128, types);
            matmul.part("tile").add_variant("matmul", "tile128", &types, "matmul_tile", &["2"], lds);
        }
    }
}

/// Types that matrix units multiply, each with itself or with an f32 `a`, and the tile sizes.
pub(crate) const MMA_TYPES: [ElementType; 2] = [ElementType::F16, ElementType::Bf16];
pub(crate) const MMA_TILES: [(&str, u64); 2] = [("mma128", 128), ("mma64", 64)];

/// Bytes of LDS for two tiles of 16-bit rows: see `MMA_PITCH` in the source.
pub(crate) fn mma_lds(lines: u64) -> u32 {
    2 * lines as u32 * (32 + 8) * 2
}

fn declare_mma(table: &mut Table) {
    let mut matmul = table.of::<MatmulArgs>(Family::MatmulMma, BLOCK);
    for t in MMA_TYPES {
        for (variant, tile) in MMA_TILES {
            matmul.max_vgprs((tile == 128).then_some(192), None);
            matmul.add_variant("matmul", variant, &[t, t], "matmul_mma", &[&tile.to_string()], mma_lds(tile));
        }
    }
    // An f32 `a` is staged as two 16-bit tiles. With f16, its rows also have scales, and subnormal values must not be flushed.
    for (t, scales, needs) in
        [(ElementType::F16, 4, Needs::Subnormals), (ElementType::Bf16, 0, Needs::Matrix)]
    {
        let mut matmul = table.of::<MatmulArgs>(Family::MatmulMma, BLOCK).needs(needs);
        for (variant, tile) in MMA_TILES {
            let lds = mma_lds(tile) / 2 * 3 + scales * tile as u32;
            let types = [ElementType::F32, t];
            matmul.add_variant("matmul", variant, &types, "matmul_mma", &[&tile.to_string()], lds);
        }
    }
}

/// Bytes of LDS of a tiled product on vector units, in the wider of these types.
pub(crate) fn tile_lds(size: u32, types: [ElementType; 2]) -> u32 {
    let depth = BLOCK * STAGED / size;
    2 * depth * (size + 4) * if types.contains(&ElementType::F64) { 8 } else { 4 }
}

/// LDS of a plain product of few rows: the sums of each wave.
fn rows_lds(rows: u32, types: [ElementType; 2]) -> u32 {
    BLOCK / 32 * rows * COLUMNS as u32 * if types.contains(&ElementType::F64) { 8 } else { 4 }
}

/// Number of waves of a block that share the columns of a wave, so that a narrow weight has work for the whole device: as long as there are
/// no more threads than hide the latency of memory, and each lane has as many packs of the columns as it keeps in flight. One, if the sums must not
/// depend on the device.
fn sharing(instance: &Instance, args: &MatmulArgs, groups: u64, weight: ElementType, device: &Device) -> u64 {
    if device.tuning.is_by_row() || args.batches.count() != 1 || instance.op != "matmul" {
        return 1;
    }
    let (wave, wanted) = (u64::from(device.wave), u64::from(device.compute_units) * ROW_THREADS);
    let steps = args.k / IN_FLIGHT * weight.bytes() as u64 / 16;
    let mut sharing = 1;
    while 2 * sharing * wave <= u64::from(BLOCK).min(steps)
        && groups.saturating_mul(2 * sharing * wave) <= wanted
    {
        sharing *= 2;
    }
    sharing
}

/// A matrix product. Views have the dimensions `batch` followed by two more: a\[.., m, k\], b\[.., k, n\], c\[.., m, n\]. For a
/// linear layer, `b` is weight\[n, k\] with its last two strides exchanged. The bias is one-dimensional, of size n, and has the
/// type of `a` or f32.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Matmul<'a> {
    pub batch: &'a [u64],
    pub m: u64,
    pub n: u64,
    pub k: u64,
    pub a: OperandView<'a>,
    pub b: OperandView<'a>,
    pub c: OperandView<'a>,
    pub bias: Option<OperandView<'a>>,
}

/// What a product of few rows computes beside the product.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// The weight of a norm of x, and its eps: f32, without gaps.
    pub norm: Option<(OperandView<'a>, f64)>,
    /// Added to y, whose dimensions it has.
    pub added: Option<OperandView<'a>>,
}

impl Beside<'_> {
    /// The address of the norm's weight, and its eps.
    pub(crate) fn norm(&self, op: &'static str) -> Result<(u64, f64), Refused> {
        match self.norm {
            Some((weight, eps)) if weight.dtype == ElementType::F32 && matches!(weight.strides, [1]) => {
                Ok((weight.data, eps))
            }
            Some((weight, _)) => Err(Refused::NoKernel { op: op.into(), types: vec![weight.dtype] }),
            None => Ok((0, 0.0)),
        }
    }
}

/// Prepares a product.
pub fn prepare(problem: &Matmul<'_>, device: &Device) -> Result<(Launch, MatmulArgs), Refused> {
    let &Matmul { batch, m, n, k, a, b, c, bias } = problem;
    let types = [a.dtype, b.dtype];
    let (a, a_strides) = split(a)?;
    let (b, b_strides) = split(b)?;
    let (c, c_strides) = split(c)?;
    let (batches, [a, b, c]) = elementwise(batch, [a, b, c])?;
    let matrix = |batch, [row, column]: [i64; 2]| Matrix { batch, row, column };
    let args = MatmulArgs {
        batches,
        a: matrix(a, a_strides),
        b: matrix(b, b_strides),
        c: matrix(c, c_strides),
        m,
        n,
        k,
        bias: bias.map_or(0, |v| v.data),
        bias_stride: bias.and_then(|v| v.strides.last().copied()).unwrap_or(0),
        bias_is_f32: bias
            .map_or(0, |v| u64::from(v.dtype == ElementType::F32 && types[0] != ElementType::F32)),
        up: 0,
        bias_row: 0,
        norm: 0,
        eps: 0.0,
        sharing: 1,
        share: k,
    };
    launch(args, types, device)
}

/// Maximum number of rows for which a single kernel computes both products of a gated unit.
pub const SWIGLU_ROWS: u64 = 8;
/// Number of columns that a wave computes for few rows, `COLUMNS` in the source; for a gated unit, one of
/// each weight.
const COLUMNS: u64 = 2;
/// Number of threads per compute unit that hide the latency of memory in products of few rows.
const ROW_THREADS: u64 = 2048;
/// Packs of a column that a lane of such a product keeps in flight; `DEPTH` in the source.
const IN_FLIGHT: u64 = 4;

/// Prepares `c = silu(a b) · (a up)` for few rows, where `up` is like `b`; with a norm of `a`, if there is one.
pub fn swiglu(
    problem: &Matmul<'_>,
    up: OperandView<'_>,
    beside: Beside<'_>,
    device: &Device,
) -> Result<(Launch, MatmulArgs), Refused> {
    let op = if beside.norm.is_some() { "rms_norm_linear_swiglu" } else { "linear_swiglu" };
    if up.dtype != problem.b.dtype || up.strides != problem.b.strides {
        let types = vec![problem.a.dtype, problem.b.dtype, up.dtype];
        return Err(Refused::NoKernel { op: op.into(), types });
    }
    let (launch, args) = few_rows(op, problem, (beside, 1), device)?;
    Ok((launch, MatmulArgs { up: up.data, ..args }))
}

/// Prepares `c = norm(a) b + added` for few rows.
pub fn fused(
    problem: &Matmul<'_>,
    beside: Beside<'_>,
    device: &Device,
) -> Result<(Launch, MatmulArgs), Refused> {
    // A plain product may have a bias, which is the same for all rows.
    let op = if beside.norm.is_some() { "rms_norm_linear" } else { "matmul" };
    few_rows(op, problem, (beside, COLUMNS), device)
}

/// The launch of a kernel for few rows, in which a wave computes `columns` columns.
pub(crate) fn few_rows(
    op: &'static str,
    problem: &Matmul<'_>,
    (beside, columns): (Beside<'_>, u64),
    device: &Device,
) -> Result<(Launch, MatmulArgs), Refused> {
    let types = [problem.a.dtype, problem.b.dtype];
    let (_, args) = prepare(&Matmul { bias: beside.added.or(problem.bias), ..*problem }, device)?;
    let rows = args.m.checked_mul(args.batches.count()).ok_or(Refused::Size)?;
    if rows > SWIGLU_ROWS {
        return Err(Refused::Limit { what: "rows", got: rows, max: SWIGLU_ROWS });
    }
    if args.b.row != 1 {
        return Err(Refused::Limit { what: "the stride of weights along k", got: args.b.row as u64, max: 1 });
    }
    let (variant, together) = of_rows(args.m);
    let instance = need(op, variant, &types)?;
    let groups = args.m.div_ceil(together).saturating_mul(args.n.div_ceil(columns)) * args.batches.count();
    let (launch, args) = of_groups(instance, groups, types[1], args, device);
    let bias_row = match beside.added.map(|added| added.strides) {
        Some([row, _]) => *row,
        Some(strides) => return Err(Refused::Rank(strides.len())),
        None => 0,
    };
    if beside.norm.is_some() && args.k == 0 {
        return Err(Refused::Because("there is nothing to norm".into()));
    }
    let (norm, eps) = beside.norm(op)?;
    Ok((launch, MatmulArgs { bias_row, norm, eps, ..args }))
}

/// The variant of a kernel for a few rows, and the number of rows that it computes together.
fn of_rows(m: u64) -> (&'static str, u64) {
    if m == 1 { ("rows1", 1) } else { ("rows4", 4) }
}

/// Splits a view into its batch dimensions and the strides of its matrices.
fn split(view: OperandView<'_>) -> Result<(OperandView<'_>, [i64; 2]), Refused> {
    match view.strides {
        [batch @ .., row, column] => Ok((OperandView { strides: batch, ..view }, [*row, *column])),
        short => Err(Refused::Rank(short.len())),
    }
}

/// The launch of a product of few rows, whose waves compute `groups` groups of columns.
fn of_groups(
    instance: &'static Instance,
    groups: u64,
    weight: ElementType,
    args: MatmulArgs,
    device: &Device,
) -> (Launch, MatmulArgs) {
    let sharing = sharing(instance, &args, groups, weight, device);
    let of_block = u64::from(BLOCK / device.wave) / sharing;
    // A multiple of what the lanes of a wave read at a time, in packs of one-byte elements.
    let share = args.k.div_ceil(sharing).next_multiple_of(u64::from(device.wave) * 16);
    (Launch::over(instance, groups, of_block, device.row_blocks()), MatmulArgs { sharing, share, ..args })
}

fn launch(
    args: MatmulArgs,
    types: [ElementType; 2],
    device: &Device,
) -> Result<(Launch, MatmulArgs), Refused> {
    let batches = args.batches.count();
    let times = |a: u64, b: u64| a.checked_mul(b).ok_or(Refused::Size);
    let few = args.m <= device.tuning.product_rows() || device.tuning.is_by_row();
    let (variant, rows) = of_rows(args.m);
    if few
        && args.b.row == 1
        && let Some(instance) = crate::find("matmul", variant, &types)
    {
        let groups = times(times(args.m.div_ceil(rows), args.n.div_ceil(COLUMNS))?, batches)?;
        return Ok(of_groups(instance, groups, types[1], args, device));
    }
    let tiles = |size| times(times(args.m.div_ceil(size), args.n.div_ceil(size))?, batches);
    let [(large, wide), (small, narrow)] = MMA_TILES;
    let (variant, tile) = if device.takes_large(tiles(wide)?) { (large, wide) } else { (small, narrow) };
    let on_matrix = crate::find("matmul", variant, &types).filter(|k| k.runs_with(device.matrix));
    if let Some(instance) = on_matrix {
        return Ok((Launch::over(instance, tiles(tile)?, 1, device.row_blocks()), args));
    }
    let large = crate::find("matmul", "tile128", &types);
    let (instance, tiles) = match large {
        Some(large) if device.takes_large(tiles(128)?) => (large, tiles(128)?),
        _ => (need("matmul", "tile64", &types)?, tiles(64)?),
    };
    Ok((Launch::over(instance, tiles, 1, device.row_blocks()), args))
}
