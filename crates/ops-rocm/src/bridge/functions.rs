//! Single ops with plain argument lists. Tensors are contiguous, in row-major order.
use super::{Borrowed, BorrowedMut, queue};
use crate::error::NAME;
use crate::{Error, Result};
use ops_core::ops::{LayerNorm, NormMethods, RmsNorm, Rope, RopeForm, RopeMethods};
use ops_core::{Layout, Reason};
use rocm_rs::hip::{DeviceMemory, Stream};

/// `output = (input - mean) / sqrt(variance + eps) * gamma + beta` over each of `n_rows` rows of `n_cols`.
///
/// # Errors
/// Memory is smaller than its shape, or the kernel cannot be compiled or launched.
#[allow(clippy::too_many_arguments)]
pub fn layer_norm_f32(
    input: &DeviceMemory<f32>,
    output: &mut DeviceMemory<f32>,
    gamma: &DeviceMemory<f32>,
    beta: &DeviceMemory<f32>,
    n_rows: usize,
    n_cols: usize,
    eps: f32,
    stream: &Stream,
) -> Result<()> {
    let rocm = queue(stream)?;
    let (rows, row) = (Layout::contiguous(&[n_rows, n_cols])?, Layout::contiguous(&[n_cols])?);
    let home = rocm.stream();
    let (x, gamma, beta) = (
        Borrowed::new(home, input, rows)?,
        Borrowed::new(home, gamma, row)?,
        Borrowed::new(home, beta, row)?,
    );
    let mut y = BorrowedMut::new(home, output, rows)?;
    let op = LayerNorm::<f32>::eps(eps.into());
    rocm.layer_norm_into(x.view()?, Some(gamma.view()?.any()), Some(beta.view()?.any()), y.view()?, op)
}

/// `output = input / sqrt(mean(input²) + eps) * alpha` over each of `n_rows` rows of `n_cols`.
///
/// # Errors
/// As [`layer_norm_f32`].
pub fn rms_norm_f32(
    input: &DeviceMemory<f32>,
    output: &mut DeviceMemory<f32>,
    alpha: &DeviceMemory<f32>,
    n_rows: usize,
    n_cols: usize,
    eps: f32,
    stream: &Stream,
) -> Result<()> {
    let rocm = queue(stream)?;
    let (rows, row) = (Layout::contiguous(&[n_rows, n_cols])?, Layout::contiguous(&[n_cols])?);
    let (x, alpha) = (Borrowed::new(rocm.stream(), input, rows)?, Borrowed::new(rocm.stream(), alpha, row)?);
    let mut y = BorrowedMut::new(rocm.stream(), output, rows)?;
    rocm.rms_norm_into(x.view()?, alpha.view()?, y.view()?, RmsNorm::<f32>::eps(eps.into()))
}

/// Rotary embedding of `[b, h, t, d]`, pairs `(2i, 2i + 1)`.
///
/// `cos` and `sin` are `[t, d / 2]` if `stride_b` is 0. If `stride_b` is `h * t * d`, the number of elements
/// per batch entry, each entry has its own tables, `[b, t, d / 2]`.
///
/// # Errors
/// As [`layer_norm_f32`], or `stride_b` has another value.
#[allow(clippy::too_many_arguments)]
pub fn rope_i_f32(
    input: &DeviceMemory<f32>,
    cos: &DeviceMemory<f32>,
    sin: &DeviceMemory<f32>,
    output: &mut DeviceMemory<f32>,
    b: usize,
    h: usize,
    t: usize,
    d: usize,
    stride_b: usize,
    stream: &Stream,
) -> Result<()> {
    let tables = Tables { cos, sin, b, t, d, stride_b };
    rotate(RopeForm::Interleaved, [b, h, t, d], input, tables, output, stream)
}

/// Rotary embedding of `[b, h, t, d]`, pairs `(i, i + d / 2)`; otherwise as [`rope_i_f32`].
///
/// # Errors
/// As [`rope_i_f32`].
#[allow(clippy::too_many_arguments)]
pub fn rope_f32(
    input: &DeviceMemory<f32>,
    cos: &DeviceMemory<f32>,
    sin: &DeviceMemory<f32>,
    output: &mut DeviceMemory<f32>,
    b: usize,
    h: usize,
    t: usize,
    d: usize,
    stride_b: usize,
    stream: &Stream,
) -> Result<()> {
    let tables = Tables { cos, sin, b, t, d, stride_b };
    rotate(RopeForm::Half, [b, h, t, d], input, tables, output, stream)
}

/// Rotary embedding of `[b, t, h, d]`, pairs `(i, i + d / 2)`; otherwise as [`rope_i_f32`].
///
/// # Errors
/// As [`rope_i_f32`].
#[allow(clippy::too_many_arguments)]
pub fn rope_thd_f32(
    input: &DeviceMemory<f32>,
    cos: &DeviceMemory<f32>,
    sin: &DeviceMemory<f32>,
    output: &mut DeviceMemory<f32>,
    b: usize,
    t: usize,
    h: usize,
    d: usize,
    stride_b: usize,
    stream: &Stream,
) -> Result<()> {
    let tables = Tables { cos, sin, b, t, d, stride_b };
    rotate(RopeForm::HalfThd, [b, t, h, d], input, tables, output, stream)
}

struct Tables<'m> {
    cos: &'m DeviceMemory<f32>,
    sin: &'m DeviceMemory<f32>,
    b: usize,
    t: usize,
    d: usize,
    stride_b: usize,
}

impl Tables<'_> {
    /// The shape of the tables, given the number of elements per batch entry of x.
    fn layout(&self, op: &'static str, batch: Option<usize>) -> Result<Layout> {
        match self.stride_b {
            0 => Layout::contiguous(&[self.t, self.d / 2]),
            stride if Some(stride) == batch => Layout::contiguous(&[self.b, self.t, self.d / 2]),
            stride => {
                let want = "0 for shared tables, or h * t * d for one table per batch entry";
                let reason = Reason::Because(format!("stride_b is {stride}; expected {want}"));
                Err(Error::Unsupported { op, backend: NAME, reason })
            }
        }
    }
}

fn rotate(
    form: RopeForm,
    dims: [usize; 4],
    input: &DeviceMemory<f32>,
    tables: Tables<'_>,
    output: &mut DeviceMemory<f32>,
    stream: &Stream,
) -> Result<()> {
    let rocm = queue(stream)?;
    let (home, op) = (rocm.stream(), Rope::<f32>::new(form));
    let layout = Layout::contiguous(&dims)?;
    let batch = dims[1].checked_mul(dims[2]).and_then(|n| n.checked_mul(dims[3]));
    let rows = tables.layout(ops_core::Op::name(&op), batch)?;
    let (cos, sin) = (Borrowed::new(home, tables.cos, rows)?, Borrowed::new(home, tables.sin, rows)?);
    let (x, mut y) = (Borrowed::new(home, input, layout)?, BorrowedMut::new(home, output, layout)?);
    rocm.rope_into(x.view()?, cos.view()?, sin.view()?, y.view()?, op)
}
