//! Linear attention: convolutions with state, and the gated delta rule.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{Device, Divider, ElementType, Family, Launch, OperandView, Refused, StridedPointer};

const BLOCK: u32 = 256;
/// Threads of gated_delta_rule; `DELTA_BLOCK` in the source.
const DELTA_BLOCK: u32 = 128;
/// Features of a column per lane; `DELTA_HELD` in the source.
const HELD: u64 = 16;
/// Up to this many tokens, a group of lanes has one column instead of two: there is little to do for each, and more blocks read
/// the state.
const FEW_TOKENS: u64 = 4;
/// LDS of gated_delta_rule: 1,024 features of keys and of queries, 512 values, and four numbers for each of 8 tokens.
const DELTA_LDS: u32 = 4 * (2 * 1024 + 512 + 4 * 8);
/// Number of tokens per run of conv1d_update.
const RUN: u64 = 32;
/// Channels and taps of a thread of conv1d_update that reads its channels in packs; `CONV_PACK` and `CONV_TAPS` in the source.
const PACK: u64 = 4;
const TAPS: u64 = 4;
/// With fewer tokens, packs leave too few threads.
const MIN_TOKENS_OF_PACKS: u64 = 8;

arguments! {
    /// Arguments of conv1d_update.
    pub struct Conv1dUpdateArgs {
        pub x: StridedPointer,
        pub weight: StridedPointer,
        pub state: StridedPointer,
        pub y: StridedPointer,
        pub bias: u64,
        pub bias_step: i64,
        pub channels: Divider,
        pub runs: Divider,
        pub count: u64,
        pub t: u64,
        pub w: u64,
        pub run: u64,
        pub bias_is_f32: u64,
        pub silu: u64,
    }

    /// Arguments of gated_delta_rule.
    pub struct GatedDeltaArgs {
        pub q: StridedPointer,
        pub k: StridedPointer,
        pub v: StridedPointer,
        pub o: StridedPointer,
        pub decay: StridedPointer,
        pub beta: StridedPointer,
        pub state: StridedPointer,
        pub batch: u64,
        pub heads: u64,
        pub t: u64,
        pub d: u64,
        pub dv: u64,
        pub lanes: u64,
        pub tiles: u64,
        pub scale: f64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut convolution = table.of::<Conv1dUpdateArgs>(Family::LinearAttention, BLOCK);
    for t in ElementType::FLOATS {
        convolution.add("conv1d_update", &[t], "conv1d_update", &[]);
        if t != ElementType::F64 {
            convolution.add_variant("conv1d_update", "packs", &[t], "conv1d_update_packs", &[], 0);
        }
    }
    let mut rule = table.of::<GatedDeltaArgs>(Family::LinearAttention, DELTA_BLOCK);
    for t in ElementType::FLOATS.into_iter().filter(|t| *t != ElementType::F64) {
        for (variant, columns) in [("", "2"), ("few", "1")] {
            rule.add_variant("gated_delta_rule", variant, &[t], "gated_delta_rule", &[columns], DELTA_LDS);
        }
    }
}

fn operand(view: OperandView<'_>, rank: usize) -> Result<StridedPointer, Refused> {
    match view.strides.len() {
        found if found == rank => Ok(StridedPointer::new(view.data, view.strides)),
        other => Err(Refused::Rank(other)),
    }
}

/// A convolution: x and y\[b, t, c\], weight\[c, w\], bias\[c\], state\[b, c, w - 1\], with any strides.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Conv1dUpdate<'a> {
    /// Extents b, t, c and w.
    pub dims: [u64; 4],
    pub x: OperandView<'a>,
    pub weight: OperandView<'a>,
    pub bias: Option<OperandView<'a>>,
    pub state: OperandView<'a>,
    pub y: OperandView<'a>,
    pub silu: bool,
}

impl Conv1dUpdate<'_> {
    /// Whether its channels can be read in packs.
    fn in_packs(&self) -> bool {
        let [_, t, c, w] = self.dims;
        let sizes = t >= MIN_TOKENS_OF_PACKS && c.is_multiple_of(PACK) && (1..=TAPS).contains(&w);
        sizes && self.x.dtype != ElementType::F64 && self.x.in_packs(PACK) && self.y.in_packs(PACK)
    }
}

/// Prepares conv1d_update.
pub fn conv1d_update(
    call: &Conv1dUpdate<'_>,
    device: &Device,
) -> Result<(Launch, Conv1dUpdateArgs), Refused> {
    let ([b, t, c, w], dtype) = (call.dims, call.x.dtype);
    let bias_is_f32 = match call.bias.map(|bias| bias.dtype) {
        Some(ElementType::F32) if dtype.bytes() == 2 => 1,
        Some(other) if other != dtype => {
            return Err(Refused::NoKernel { op: "conv1d_update".into(), types: vec![dtype, other] });
        }
        _ => 0,
    };
    // Without tokens there is nothing to do: the state keeps its inputs.
    let run = RUN.max(w.saturating_sub(1)).min(t.max(1));
    let runs = t.div_ceil(run);
    let (variant, channels) = if call.in_packs() { ("packs", c / PACK) } else { ("", c) };
    let count = b.checked_mul(runs).and_then(|n| n.checked_mul(channels)).ok_or(Refused::Size)?;
    let args = Conv1dUpdateArgs {
        x: operand(call.x, 3)?,
        weight: operand(call.weight, 2)?,
        state: operand(call.state, 3)?,
        y: operand(call.y, 3)?,
        bias: call.bias.map_or(0, |bias| bias.data),
        bias_step: call.bias.and_then(|bias| bias.strides.last().copied()).unwrap_or(0),
        channels: Divider::new(channels.max(1)),
        runs: Divider::new(runs.max(1)),
        count,
        t,
        w,
        run,
        bias_is_f32,
        silu: u64::from(call.silu),
    };
    let instance = need("conv1d_update", variant, &[dtype])?;
    Ok((Launch::over(instance, count, u64::from(BLOCK), device.row_blocks()), args))
}

/// A delta rule: q and k\[b, t, h, d\], v and o\[b, t, h, dv\], decay and beta\[b, t, h\], state\[b, h, d, dv\], with any strides.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct GatedDelta<'a> {
    /// Extents b, t, h, d and dv.
    pub dims: [u64; 5],
    pub q: OperandView<'a>,
    pub k: OperandView<'a>,
    pub v: OperandView<'a>,
    pub decay: OperandView<'a>,
    pub beta: OperandView<'a>,
    pub state: OperandView<'a>,
    pub o: OperandView<'a>,
    pub scale: f64,
}

/// Prepares gated_delta_rule.
pub fn gated_delta_rule(call: &GatedDelta<'_>, device: &Device) -> Result<(Launch, GatedDeltaArgs), Refused> {
    let [batch, t, heads, d, dv] = call.dims;
    let max = HELD * u64::from(device.wave);
    if d > max {
        return Err(Refused::Limit { what: "the head size", got: d, max });
    }
    // With fewer lanes, a block has more columns than it has space for values.
    let lanes = d.div_ceil(HELD).next_power_of_two().max(4);
    let (variant, columns) = if t <= FEW_TOKENS { ("few", 1) } else { ("", 2) };
    let tiles = dv.div_ceil(u64::from(DELTA_BLOCK) / lanes * columns).max(1);
    let units = batch.checked_mul(heads).and_then(|n| n.checked_mul(tiles)).ok_or(Refused::Size)?;
    let args = GatedDeltaArgs {
        q: operand(call.q, 4)?,
        k: operand(call.k, 4)?,
        v: operand(call.v, 4)?,
        o: operand(call.o, 4)?,
        decay: operand(call.decay, 3)?,
        beta: operand(call.beta, 3)?,
        state: operand(call.state, 4)?,
        batch,
        heads,
        t,
        d,
        dv,
        lanes,
        tiles,
        scale: call.scale,
    };
    let instance = need("gated_delta_rule", variant, &[call.q.dtype])?;
    let units = if dv == 0 || t == 0 { 0 } else { units };
    Ok((Launch::over(instance, units, 1, u64::MAX), args))
}
