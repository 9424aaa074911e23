//! A matrix of blocks, as candle asks for it.
use crate::convert::{Number, OrCandle, refused, typed};
use crate::memory::sealed::Exchange;
use crate::ops::Computes;
use candle_core::quantized::{GgmlDType, QuantizedType};
use candle_core::{CpuStorage, Result};
use rocm_ops::backend::Packing;
use rocm_ops::gguf::{Gguf, Tensor, TensorData, Weights};
use rocm_ops::ops::LinearOps;
use rocm_ops::prelude::{
    AnyRef, Backend, Cpu, DType, EmbeddingMethods, LinearMethods, QuantMethods, Space, f16,
};
use rocm_ops::{AnyOf, BlockInfo, Host, HostBuffer, Layout};
use std::sync::OnceLock;

/// What candle's code may read blocks as: its blocks begin with an f16 or an f32.
const ALIGN: usize = 4;

/// A weight of a block format: in a backend's memory for products, and in file order for the rest.
pub(crate) struct Blocks<B: Computes> {
    backend: B,
    format: &'static BlockInfo,
    /// The extents in values.
    dims: Vec<usize>,
    /// For products, if this is a matrix.
    weight: Option<AnyOf<B>>,
    file: FileOrder,
}

/// The blocks in the order of the file.
enum FileOrder {
    /// In the file's memory.
    Shared(TensorData<u8>),
    /// Made of the packed weight when candle first asks, which it rarely does.
    OnDemand(OnceLock<HostBuffer<u8>>),
}

impl<B: Computes> Blocks<B> {
    pub(crate) fn new(
        gguf: &Gguf,
        tensor: &Tensor<'_>,
        format: &'static BlockInfo,
        backend: &B,
    ) -> Result<Self> {
        let dims = tensor.dims().to_vec();
        let weight = match dims[..] {
            [n, k] => Some(Weights::new(backend, gguf).packed::<f32>(tensor.name(), [n, k]).or_candle()?),
            _ => None,
        };
        let data = tensor.raw_data().or_candle()?;
        let file = if weight.as_ref().is_some_and(|weight| packed_on_host::<B>(weight).is_some()) {
            FileOrder::OnDemand(OnceLock::new())
        } else if Host::aligned(&data[..], ALIGN) {
            FileOrder::Shared(data)
        } else {
            FileOrder::OnDemand(OnceLock::from(Cpu::new().upload(&data[..]).or_candle()?))
        };
        Ok(Blocks { backend: backend.clone(), format, dims, weight, file })
    }

    fn bytes(&self) -> usize {
        self.dims.iter().product::<usize>() / self.format.values() * self.format.bytes()
    }

    /// The blocks in the order of the file. They stay in memory.
    fn file_order(&self) -> Result<&[u8]> {
        match &self.file {
            FileOrder::Shared(data) => Ok(data),
            FileOrder::OnDemand(blocks) => match blocks.get() {
                Some(blocks) => Ok(blocks),
                None => {
                    let made = self.unpacked()?;
                    Ok(blocks.get_or_init(|| made))
                }
            },
        }
    }

    /// A copy of the packed weight in the order of the file.
    fn unpacked(&self) -> Result<HostBuffer<u8>> {
        let packed = self.weight.as_ref().and_then(|weight| Some((weight, packed_on_host::<B>(weight)?)));
        let Some((weight, (packing, packed))) = packed else {
            return Err(refused("unpack", "the weight", "not packed", "a packed weight in host memory"));
        };
        let mut blocks = Cpu::new().alloc::<u8>(self.bytes()).or_candle()?;
        packing.unpack(weight.dtype(), weight.dims(), packed, blocks.as_mut_slice()).or_candle()?;
        Ok(blocks)
    }

    /// The values of these blocks.
    fn decoded(&self, blocks: &[u8], values: usize) -> Result<CpuStorage> {
        let layout = Layout::contiguous([values / self.format.values()]).or_candle()?;
        let blocks = AnyRef::<Host>::new(blocks, DType::Block(self.format), layout).or_candle()?;
        let mut y = f32::zeros(values);
        let out = Host::view_mut(&mut y, [values]).or_candle()?;
        Cpu::new().dequantize_into(blocks, out).or_candle()?;
        Ok(CpuStorage::F32(y))
    }

    /// `y[m, n] = x[m, k] · weightᵀ`.
    fn product<T: Number>(&self, (m, k, n): (usize, usize, usize), x: &[T], y: &mut [T]) -> Result<()>
    where
        B: LinearOps<T>,
    {
        let Some(weight) = self.weight.as_ref().filter(|_| self.dims == [n, k]) else {
            let (got, want) = (format!("{:?}", self.dims), format!("a matrix of extents [{n}, {k}]"));
            return Err(refused("qlinear", "the weight", got, &want));
        };
        let mut run = move || {
            let (x, y) = (Host::view(x, [m, k])?, Host::view_mut(y, [m, n])?);
            let x = B::Space::bring(&self.backend, x.any())?;
            B::Space::lend(&self.backend, y, false, |y| {
                self.backend.linear_into(typed::<T, _>("qlinear", "x", x.view())?, weight, None, y)
            })
        };
        run().or_candle()
    }
}

/// The packing and the bytes of a packed weight, if the host can read them.
fn packed_on_host<B: Backend>(weight: &AnyOf<B>) -> Option<(&'static Packing, &[u8])> {
    Some((weight.packing()?, <B::Space as Space>::host(weight.as_ref().bytes())?))
}

impl<B: Computes> QuantizedType for Blocks<B> {
    /// The format, or for those that candle would rearrange or does not have, one with as many values that it leaves alone.
    fn dtype(&self) -> GgmlDType {
        match self.format.name() {
            "q4_1" => GgmlDType::Q4_1,
            "q5_0" => GgmlDType::Q5_0,
            "q5_1" => GgmlDType::Q5_1,
            "q2_k" => GgmlDType::Q2K,
            "q3_k" => GgmlDType::Q3K,
            _ if self.format.values() == 256 => GgmlDType::Q8K,
            _ => GgmlDType::Q8_1,
        }
    }
    fn matmul_t(&self, mkn: (usize, usize, usize), lhs: &[f32], dst: &mut [f32]) -> Result<()> {
        self.product(mkn, lhs, dst)
    }
    fn matmul_t_f16(&self, mkn: (usize, usize, usize), lhs: &[f16], dst: &mut [f16]) -> Result<()> {
        self.product(mkn, lhs, dst)
    }
    fn embedding(&self, ids: &[u32], rows: usize, hidden: usize) -> Result<CpuStorage> {
        if self.dims != [rows, hidden] {
            let (got, want) = (format!("{:?}", self.dims), format!("a matrix of extents [{rows}, {hidden}]"));
            return Err(refused("embedding", "the table", got, &want));
        }
        let run = |blocks| {
            let layout = Layout::contiguous([rows, hidden / self.format.values()])?;
            let table = AnyRef::<Host>::new(blocks, DType::Block(self.format), layout)?;
            let mut y = f32::zeros(ids.len() * hidden);
            let (ids, out) = (Host::view(ids, [ids.len()])?, Host::view_mut(&mut y, [ids.len(), hidden])?);
            Cpu::new().embedding_into(table, ids, out)?;
            Ok::<_, rocm_ops::Error>(CpuStorage::F32(y))
        };
        run(self.file_order()?).or_candle()
    }
    fn dequantize(&self, elem_count: usize) -> Result<CpuStorage> {
        let blocks = match &self.file {
            // A temporary copy: dequantized weights are usually dropped.
            FileOrder::OnDemand(made) if made.get().is_none() => {
                return self.decoded(&self.unpacked()?, elem_count);
            }
            _ => self.file_order()?,
        };
        self.decoded(blocks, elem_count)
    }
    fn storage_size_in_bytes(&self) -> usize {
        self.bytes()
    }
    /// candle reads [`storage_size_in_bytes`](Self::storage_size_in_bytes) bytes here.
    ///
    /// # Panics
    /// There is no memory for the blocks in file order.
    fn as_ptr(&self) -> *const u8 {
        self.file_order().expect("memory for the blocks in file order").as_ptr()
    }
    fn block_size(&self) -> usize {
        self.format.values()
    }
    fn from_float(&mut self, _: &[f32]) {
        unreachable!("candle quantizes only into storages that it made")
    }
    fn from_float_imatrix(&mut self, _: &[f32], _: &[f32], _: usize) {
        unreachable!("candle quantizes only into storages that it made")
    }
    fn size(&self) -> usize {
        self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocm_ops::gguf::{GgmlType, Writer};

    /// A weight of q8_0 that is packed.
    fn packed() -> Blocks<Cpu> {
        let mut writer = Writer::new();
        writer.tensor("weight", GgmlType::Q8_0, &[16, 256]).unwrap();
        let mut body = writer.write_to(Vec::new()).unwrap();
        body.write("weight", &[1u8; 16 * 8 * 34]).unwrap();
        let gguf = Gguf::from_bytes(body.finish().unwrap()).unwrap();
        Blocks::new(&gguf, &gguf.tensor("weight").unwrap(), &rocm_ops::quant::Q8_0, &Cpu::new()).unwrap()
    }

    #[test]
    fn blocks_in_file_order_are_kept_only_when_candle_reads_them() {
        let weight = packed();
        let made = || matches!(&weight.file, FileOrder::OnDemand(blocks) if blocks.get().is_some());
        weight.dequantize(16 * 256).unwrap();
        weight.matmul_t((1, 256, 16), &[0.0; 256], &mut [0.0; 16]).unwrap();
        assert!(!made());
        weight.as_ptr();
        assert!(made());
    }

    #[test]
    fn other_extents_are_refused() {
        let weight = packed();
        let error = weight.matmul_t((1, 128, 32), &[0.0; 128], &mut [0.0; 32]).unwrap_err().to_string();
        let want = "the weight is [16, 256], expected a matrix of extents [32, 128]";
        assert!(error.starts_with(&format!("qlinear: {want}")), "{error}");
        let error = weight.embedding(&[0], 32, 128).map(|_| ()).unwrap_err().to_string();
        let want = "the table is [16, 256], expected a matrix of extents [32, 128]";
        assert!(error.starts_with(&format!("embedding: {want}")), "{error}");
    }
}
