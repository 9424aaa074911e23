//! Weights of GGUF files as candle's quantized tensors.
use crate::blocks::Blocks;
use crate::convert::{OrCandle, refused};
use crate::ops::Computes;
use candle_core::Result;
use candle_core::quantized::{QStorage, QTensor};
use rocm_ops::gguf::{GgmlType, Gguf, Tensor};
use rocm_ops::prelude::{bf16, f16};
use rocm_ops::quant::FORMATS;
use std::collections::HashMap;

/// All tensors of a file, by their names, as `QTensor`s whose products `backend` computes. See [`tensor`].
///
/// ```
/// use candle_core::quantized::QMatMul;
/// use candle_core::{DType, Device, Module, Tensor};
/// use rocm_ops::{Cpu, gguf::Gguf};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-q8_0.gguf");
/// let mut tensors = rocm_ops_candle::tensors(&Gguf::open(path).unwrap(), &Cpu::new())?;
/// let weight = QMatMul::from_qtensor(tensors.remove("blk.0.ffn_up.weight").unwrap())?;
/// let x = Tensor::zeros((1, 256), DType::F32, &Device::Cpu)?;
/// assert_eq!(weight.forward(&x)?.dims(), [1, 768]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// As [`tensor`].
pub fn tensors<B: Computes>(gguf: &Gguf, backend: &B) -> Result<HashMap<String, QTensor>> {
    gguf.tensors().map(|tensor| Ok((tensor.name().to_owned(), quantized(gguf, &tensor, backend)?))).collect()
}

/// A tensor of a file as a `QTensor` whose products `backend` computes.
///
/// Matrices of block formats are packed for the backend, or used where they are in the file's memory. candle multiplies by f32, f16 and bf16
/// with its own ops, so these types are copied as candle's own.
///
/// candle rearranges blocks of q4_0, q8_0, q4_k, q5_k and q6_k for its own kernels, and would do that here. So `dtype()` of these is
/// `Q8_1` or `Q8K`, which candle leaves alone and which do not occur as weights. The blocks that `data()` returns are those of the file.
/// Do not write such a tensor to a file with candle: it would be labelled with the wrong type. Formats that candle does not know, such as
/// `iq4_xs` and `mxfp4`, are given in the same way.
///
/// # Errors
/// A tensor that the file does not have, or of a type that is no weight; no memory.
pub fn tensor<B: Computes>(gguf: &Gguf, name: &str, backend: &B) -> Result<QTensor> {
    quantized(gguf, &gguf.tensor(name).or_candle()?, backend)
}

fn quantized<B: Computes>(gguf: &Gguf, tensor: &Tensor<'_>, backend: &B) -> Result<QTensor> {
    let ty = tensor.ggml_type();
    let storage: Box<dyn candle_core::quantized::QuantizedType> = match ty {
        GgmlType::F32 => Box::new(tensor.view::<f32>().or_candle()?.into_owned()),
        GgmlType::F16 => Box::new(tensor.view::<f16>().or_candle()?.into_owned()),
        GgmlType::BF16 => Box::new(tensor.view::<bf16>().or_candle()?.into_owned()),
        _ => match FORMATS.iter().find(|format| format.ggml() == Some(ty.0)) {
            Some(format) => Box::new(Blocks::new(gguf, tensor, format, backend)?),
            None => {
                return Err(refused(
                    "tensors",
                    tensor.name(),
                    format!("of {ty}"),
                    "a float type or a block format",
                ));
            }
        },
    };
    QTensor::new(QStorage::Cpu(storage), tensor.dims())
}
