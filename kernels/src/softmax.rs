//! softmax and log_softmax along any dimension.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::norm::{reduce_lds, row_launch};
use crate::shape::{List, list};
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, rows};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of every softmax kernel.
    pub struct SoftmaxArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub rows: u64,
        pub lanes: u64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut softmax = table.of::<SoftmaxArgs>(Family::Softmax, BLOCK);
    for (op, log, part) in [("softmax", "false", ""), ("log_softmax", "true", "log")] {
        let softmax = softmax.part(part);
        for t in ElementType::FLOATS {
            // Newer compilers than clang 19 use up to 90 and 116.
            let bf16 = t == ElementType::Bf16;
            let (wave, block) = (bf16.then_some(80), (bf16 && log == "false").then_some(96));
            softmax.max_vgprs(wave, wave).add_variant(op, "wave", &[t], "softmax", &["false", log], 0);
            // With waves of 32, this kernel spills on gfx1030 if its registers are bounded.
            softmax.max_vgprs(None, block);
            softmax.add_variant(op, "block", &[t], "softmax", &["true", log], reduce_lds(t, BLOCK));
            softmax.max_vgprs(None, None);
            softmax.add_variant(op, "column", &[t], "softmax_column", &[log], 0);
        }
    }
}

/// With at least this many rows adjacent in memory, each row gets one thread.
const COLUMN_ROWS: u64 = 32;

/// Prepares `softmax` or `log_softmax` along `axis` of `dims`.
pub fn prepare(
    op: &str,
    dims: &[u64],
    axis: usize,
    x: OperandView<'_>,
    y: OperandView<'_>,
    device: &Device,
) -> Result<(Launch, SoftmaxArgs), Refused> {
    if axis >= dims.len() || x.strides.len() != dims.len() || y.strides.len() != dims.len() {
        return Err(Refused::Rank(dims.len()));
    }
    let types = [x.dtype];
    let (x_strides, y_strides) = (with_last(x.strides, axis)?, with_last(y.strides, axis)?);
    let views = [OperandView { strides: &x_strides, ..x }, OperandView { strides: &y_strides, ..y }];
    let (shape, [x, y]) = rows(&with_last(dims, axis)?, 1, views)?;
    let (mut launch, rows, lanes) = row_launch(op, &types, &shape, device, true)?;
    let side_by_side = x.stride[4] == 1 && x.stride[5] != 1;
    if side_by_side && rows >= COLUMN_ROWS && !device.tuning.is_by_row() {
        let instance = need(op, "column", &types)?;
        launch = Launch::over(
            instance,
            rows,
            u64::from(instance.block),
            device.blocks(device.tuning.element_blocks()),
        );
    }
    Ok((launch, SoftmaxArgs { shape, x, y, rows, lanes }))
}

/// The entries with the one at index `last` moved to the end.
fn with_last<T: Copy>(entries: &[T], last: usize) -> Result<List<T>, Refused> {
    let mut out = list(entries)?;
    out[last..].rotate_left(1);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{device, view};

    #[test]
    fn rows_side_by_side_get_a_thread_each() {
        let variant = |[n, rows]: [u64; 2], axis| {
            let strides = [rows as i64, 1];
            let x = view(&strides, ElementType::F32);
            prepare("softmax", &[n, rows], axis, x, x, &device()).expect("a kernel").0.instance.variant
        };
        assert_eq!(variant([4, COLUMN_ROWS], 0), "column");
        assert_eq!(variant([4, COLUMN_ROWS - 1], 0), "wave");
        assert_eq!(variant([COLUMN_ROWS, 4], 1), "wave");
        assert_eq!(variant([COLUMN_ROWS, 4096], 1), "block");
    }
}
