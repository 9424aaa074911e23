//! Tensors of a file as weights on a backend.
use crate::{Gguf, Result, Tensor, TensorData};
use ops_core::ops::registry::{self, Group};
use ops_core::ops::{LinearMethods, LinearOps};
use ops_core::{AnyOf, AnyTensor, Backend, DType, Float, Layout, TensorOf, bf16, f16};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads tensors of a file into a backend's memory, checking their extents.
///
/// Extents are in row-major order and count values, not blocks: `[rows, columns]`, whatever the type. A backend that computes
/// on host memory uses the file's own memory where it can, which then lives as long as the tensor.
///
/// ```
/// use rocm_ops::{Backend, ops::*};
/// use rocm_ops::Cpu;
/// use rocm_ops::gguf::{Gguf, GgmlType, Weights, Writer};
///
/// # let path = std::env::temp_dir().join(format!("ops-gguf-weights-{}.gguf", std::process::id()));
/// let mut writer = Writer::new();
/// writer.tensor("blk.0.ffn_up.weight", GgmlType::F32, &[2, 3])?;
/// let mut body = writer.create(&path)?;
/// body.write("blk.0.ffn_up.weight", &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// body.commit()?;
///
/// let (cpu, gguf) = (Cpu::new(), Gguf::open(&path)?);
/// let weights = Weights::new(&cpu, &gguf);
/// let up = weights.matrix("blk.0.ffn_up.weight", [2, 3])?;
/// assert_eq!(weights.any("blk.0.ffn_up.weight")?.value_dims(), [2, 3]);
/// let x = cpu.tensor(&[1, 3], &[1.0_f32, 0.0, 0.0])?;
/// assert_eq!(cpu.linear(&x, &up)?.to_vec(&cpu)?, [1.0, 4.0]);
///
/// let error = weights.matrix("blk.0.ffn_up.weight", [3, 2]).unwrap_err().to_string();
/// assert!(error.contains("got dimensions [2, 3], wanted [3, 2]"), "{error}");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Weights<'g, B> {
    backend: &'g B,
    gguf: &'g Gguf,
    read: AtomicU64,
}

/// Some rows of a matrix: its name, its extents, and the groups of rows.
pub type SomeRows<'r> = (&'r str, [usize; 2], &'r [Range<usize>]);

impl<'g, B: Backend> Weights<'g, B> {
    /// Weights of this file, for this backend.
    pub fn new(backend: &'g B, gguf: &'g Gguf) -> Self {
        Weights { backend, gguf, read: AtomicU64::new(0) }
    }

    /// How many bytes of the file's tensors were read so far. Those that were read twice count twice.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// A matrix `[n, k]`: the weight of a linear layer or an embedding table, of any float type or block format.
    ///
    /// # Errors
    /// [`Error::MissingTensor`](crate::Error::MissingTensor); [`Error::TensorType`](crate::Error::TensorType) for other extents and for a type that no op takes; those of the
    /// backend.
    pub fn matrix(&self, name: &str, dims: [usize; 2]) -> Result<AnyOf<B>> {
        self.read(&self.gguf.tensor(name)?, &dims)
    }

    /// A tensor of any rank, with the extents that the file states: [`AnyTensor::value_dims`](ops_core::AnyTensor::value_dims) returns them.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix), apart from extents.
    pub fn any(&self, name: &str) -> Result<AnyOf<B>> {
        let tensor = self.gguf.tensor(name)?;
        self.read(&tensor, tensor.dims())
    }

    /// [`matrix`](Self::matrix), in the layout that the backend reads fastest in products computed in `T`.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn packed<T: Float>(&self, name: &str, dims: [usize; 2]) -> Result<AnyOf<B>>
    where
        B: LinearOps<T>,
    {
        Ok(self.backend.pack_weight(self.matrix(name, dims)?)?)
    }

    /// Some rows of a tensor, as a matrix: one expert of `[experts, n, k]`, or one of several matrices stored as one. Leading
    /// extents count as rows.
    ///
    /// ```
    /// # use rocm_ops::Backend;
    /// # use rocm_ops::gguf::{Gguf, GgmlType, Weights, Writer};
    /// # let cpu = rocm_ops::Cpu::new();
    /// let mut writer = Writer::new();
    /// writer.tensor("blk.0.ffn_up_exps.weight", GgmlType::F32, &[2, 1, 3])?;
    /// let mut body = writer.write_to(Vec::new())?;
    /// body.write("blk.0.ffn_up_exps.weight", &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let gguf = Gguf::from_bytes(body.finish()?)?;
    /// let second = Weights::new(&cpu, &gguf).rows("blk.0.ffn_up_exps.weight", &[2, 1, 3], 1..2)?;
    /// assert_eq!(second.dims(), [1, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix), and [`Error::TensorType`](crate::Error::TensorType) if there are fewer rows.
    pub fn rows(&self, name: &str, dims: &[usize], rows: Range<usize>) -> Result<AnyOf<B>> {
        self.row_groups(name, dims, std::slice::from_ref(&rows))
    }

    /// The same for several groups of rows, which are concatenated in the result. An example is the part of
    /// each head in a matrix that holds several parts head by head. More than one group is copied.
    ///
    /// ```
    /// # use rocm_ops::{Backend, ops::*};
    /// # use rocm_ops::gguf::{Gguf, GgmlType, Weights, Writer};
    /// # let cpu = rocm_ops::Cpu::new();
    /// // Query and gate of a head, then those of the next head.
    /// let mut writer = Writer::new();
    /// writer.tensor("blk.0.attn_q.weight", GgmlType::F32, &[4, 1])?;
    /// let mut body = writer.write_to(Vec::new())?;
    /// body.write("blk.0.attn_q.weight", &[1.0_f32, 10.0, 2.0, 20.0])?;
    /// let gguf = Gguf::from_bytes(body.finish()?)?;
    /// let gates = Weights::new(&cpu, &gguf).row_groups("blk.0.attn_q.weight", &[4, 1], &[1..2, 3..4])?;
    /// let x = cpu.tensor(&[1, 1], &[1.0_f32])?;
    /// assert_eq!(cpu.linear(&x, &gates)?.to_vec(&cpu)?, [10.0, 20.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn row_groups(&self, name: &str, dims: &[usize], groups: &[Range<usize>]) -> Result<AnyOf<B>> {
        let tensor = self.gguf.tensor(name)?;
        let dtype = self.checked(&tensor, dims)?;
        let columns = tensor.block_dims()?.last().copied().unwrap_or(1);
        let row = columns * dtype.size();
        let bytes = tensor.info.len.unwrap_or(0);
        let part = |rows: &Range<usize>| {
            if row == 0 || rows.start > rows.end || rows.end > bytes / row {
                return Err(tensor.wrong(format!("dimensions {dims:?}"), format!("rows {rows:?}")));
            }
            tensor.raw_part(rows.start * row..rows.end * row)
        };
        if let [rows] = groups {
            return self.upload(part(rows)?, dtype, &[rows.end - rows.start, columns]);
        }
        let mut joined = Vec::new();
        for rows in groups {
            joined.extend_from_slice(part(rows)?.as_ref());
        }
        self.joined_rows(dtype, columns, &joined)
    }

    /// Groups of columns of a matrix, which are concatenated in the result. In a block format, they begin and end between blocks.
    /// They are copied.
    ///
    /// ```
    /// # use rocm_ops::{Backend, ops::*};
    /// # use rocm_ops::gguf::{Gguf, GgmlType, Weights, Writer};
    /// # let cpu = rocm_ops::Cpu::new();
    /// let mut writer = Writer::new();
    /// writer.tensor("blk.0.ffn_down.weight", GgmlType::F32, &[2, 3])?;
    /// let mut body = writer.write_to(Vec::new())?;
    /// body.write("blk.0.ffn_down.weight", &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let gguf = Gguf::from_bytes(body.finish()?)?;
    /// let weights = Weights::new(&cpu, &gguf);
    /// let last = weights.column_groups("blk.0.ffn_down.weight", [2, 3], &[1..3])?;
    /// assert_eq!((last.dims(), weights.bytes_read()), (&[2, 2][..], 16));
    /// let x = cpu.tensor(&[1, 2], &[1.0_f32, 0.0])?;
    /// assert_eq!(cpu.linear(&x, &last)?.to_vec(&cpu)?, [2.0, 5.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`rows`](Self::rows), and for columns within a block.
    pub fn column_groups(&self, name: &str, dims: [usize; 2], groups: &[Range<usize>]) -> Result<AnyOf<B>> {
        let tensor = self.gguf.tensor(name)?;
        let dtype = self.checked(&tensor, &dims)?;
        let (values, size) = (dtype.values(), dtype.size());
        let aligned = |at: usize| at.is_multiple_of(values) && at <= dims[1];
        if let Some(cut) =
            groups.iter().find(|cut| cut.start > cut.end || !aligned(cut.start) || !aligned(cut.end))
        {
            let got = format!("type {}, in blocks of {values}, and dimensions {dims:?}", tensor.ggml_type());
            return Err(tensor.wrong(got, format!("a type of which columns {cut:?} can be read")));
        }
        let (bytes, row) = (tensor.bytes()?, dims[1] / values * size);
        let columns: usize = groups.iter().map(|cut| cut.len() / values).sum();
        let mut joined = Vec::with_capacity(dims[0] * columns * size);
        for row in bytes.chunks_exact(row.max(1)) {
            for cut in groups {
                joined.extend_from_slice(&row[cut.start / values * size..cut.end / values * size]);
            }
        }
        self.read.fetch_add(joined.len() as u64, Ordering::Relaxed);
        Ok(self.backend.any_tensor(dtype, &[dims[0], columns], &joined)?)
    }

    fn joined_rows(&self, dtype: DType, columns: usize, joined: &[u8]) -> Result<AnyOf<B>> {
        self.read.fetch_add(joined.len() as u64, Ordering::Relaxed);
        let rows = joined.len().checked_div(columns * dtype.size()).unwrap_or(0);
        Ok(self.backend.any_tensor(dtype, &[rows, columns], joined)?)
    }

    /// Concatenates matrices `[n, k]` of one type, such as query, key and value: a product with the result
    /// gives the products with all of them.
    ///
    /// ```
    /// # use rocm_ops::Backend;
    /// # use rocm_ops::gguf::{Gguf, GgmlType, Weights, Writer};
    /// # let cpu = rocm_ops::Cpu::new();
    /// let mut writer = Writer::new();
    /// writer.tensor("blk.0.attn_q.weight", GgmlType::F32, &[1, 2])?.tensor("blk.0.attn_k.weight", GgmlType::F32, &[1, 2])?;
    /// let mut body = writer.write_to(Vec::new())?;
    /// body.write("blk.0.attn_q.weight", &[1.0_f32, 2.0])?;
    /// body.write("blk.0.attn_k.weight", &[3.0_f32, 4.0])?;
    /// let gguf = Gguf::from_bytes(body.finish()?)?;
    /// let both = Weights::new(&cpu, &gguf).joined(&["blk.0.attn_q.weight", "blk.0.attn_k.weight"], [1, 2])?;
    /// assert_eq!(both.dims(), [2, 2]);
    /// # Ok::<(), rocm_ops::gguf::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix), and [`Error::TensorType`](crate::Error::TensorType) if the types differ.
    pub fn joined(&self, names: &[&str], dims: [usize; 2]) -> Result<AnyOf<B>> {
        let rows = 0..dims[0];
        let parts: Vec<_> = names.iter().map(|name| (*name, dims, std::slice::from_ref(&rows))).collect();
        self.stacked(&parts)
    }

    /// [`joined`](Self::joined) of some rows of matrices of one type.
    ///
    /// # Errors
    /// As [`joined`](Self::joined) and [`rows`](Self::rows).
    pub fn stacked(&self, parts: &[SomeRows<'_>]) -> Result<AnyOf<B>> {
        let (mut bytes, mut columns, mut common) = (Vec::new(), 0, None);
        for (name, dims, groups) in parts {
            let tensor = self.gguf.tensor(name)?;
            let dtype = self.checked(&tensor, dims)?;
            let wanted = *common.get_or_insert(dtype);
            if dtype != wanted {
                let wanted = format!("{}, as {} is", wanted.name(), parts[0].0);
                return Err(tensor.wrong(format!("type {}", dtype.name()), wanted));
            }
            columns = tensor.block_dims()?.last().copied().unwrap_or(1);
            let (all, row) = (tensor.bytes()?, columns * dtype.size());
            for rows in *groups {
                let part = all.get(rows.start * row..rows.end * row);
                let missing = || tensor.wrong(format!("dimensions {dims:?}"), format!("rows {rows:?}"));
                bytes.extend_from_slice(part.ok_or_else(missing)?);
            }
        }
        self.joined_rows(common.unwrap_or(DType::F32), columns, &bytes)
    }

    /// A vector in f32: the weight of a norm, or a bias. Files hold these in f32 or in a 16-bit type, which is widened.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn vector(&self, name: &str, len: usize) -> Result<TensorOf<B, f32>> {
        let tensor = self.gguf.tensor(name)?;
        let wanted = || format!("dimensions [{len}] of f32, f16 or bf16");
        if tensor.dims() != [len] {
            return Err(tensor.wrong(format!("dimensions {:?}", tensor.dims()), wanted()));
        }
        let widened: Vec<f32> = match dtype_of(&tensor) {
            Some(DType::F32) => tensor.view::<f32>()?.into_owned(),
            Some(DType::F16) => tensor.view::<f16>()?.iter().map(|v| v.to_f32()).collect(),
            Some(DType::BF16) => tensor.view::<bf16>()?.iter().map(|v| v.to_f32()).collect(),
            _ => return Err(tensor.wrong(format!("type {}", tensor.ggml_type()), wanted())),
        };
        self.read.fetch_add(tensor.bytes()?.len() as u64, Ordering::Relaxed);
        Ok(self.backend.tensor(&[len], &widened)?)
    }

    /// Whether the file has such a tensor.
    pub fn contains(&self, name: &str) -> bool {
        self.gguf.find(name).is_some()
    }

    fn read(&self, tensor: &Tensor<'_>, dims: &[usize]) -> Result<AnyOf<B>> {
        let dtype = self.checked(tensor, dims)?;
        self.upload(tensor.raw_data()?, dtype, &tensor.block_dims()?)
    }

    /// The element type of a tensor with these extents.
    fn checked(&self, tensor: &Tensor<'_>, dims: &[usize]) -> Result<DType> {
        if tensor.dims() != dims {
            return Err(tensor.wrong(format!("dimensions {:?}", tensor.dims()), format!("{dims:?}")));
        }
        dtype_of(tensor).filter(|dtype| dtype.is_real()).ok_or_else(|| {
            let real = Group::Elements.members().iter().filter(|dtype| dtype.is_real());
            let names: Vec<_> = real.map(|dtype| dtype.name()).collect();
            tensor.wrong(format!("type {}", tensor.ggml_type()), names.join(", "))
        })
    }

    /// Uses the file's own memory if the backend computes on it and its elements are sufficiently aligned.
    fn upload(&self, data: TensorData<u8>, dtype: DType, dims: &[usize]) -> Result<AnyOf<B>> {
        let shared = self.backend.adopt(Arc::new(data.clone()))?;
        self.read.fetch_add(AsRef::<[u8]>::as_ref(&data).len() as u64, Ordering::Relaxed);
        match AnyTensor::new(shared, dtype, Layout::contiguous(dims)?) {
            Err(ops_core::Error::Align { .. }) => {
                Ok(self.backend.any_tensor(dtype, dims, data.as_ref() as &[u8])?)
            }
            adopted => Ok(adopted?),
        }
    }
}

/// The element type as ops know it.
fn dtype_of(tensor: &Tensor<'_>) -> Option<DType> {
    let ty = tensor.ggml_type();
    ty.format().map(DType::Block).or_else(|| ty.name().and_then(registry::dtype))
}
