//! Models with other tensors or metadata than those of a file.
use rocm_ops::gguf::{GgmlType, Gguf, Metadata, Tensor, Writer};

/// A tensor's name, type, extents and bytes.
pub type Stored = (String, GgmlType, Vec<usize>, Vec<u8>);

/// The tensors of a model.
pub fn stored(model: &Gguf) -> Vec<Stored> {
    let one = |tensor: Tensor<'_>| {
        (
            tensor.name().to_owned(),
            tensor.ggml_type(),
            tensor.dims().to_vec(),
            tensor.bytes().unwrap().to_vec(),
        )
    };
    model.tensors().map(one).collect()
}

/// A file with this metadata and these tensors.
pub fn written(metadata: Metadata, tensors: &[Stored]) -> Gguf {
    let mut writer = Writer::with_metadata(metadata);
    tensors.iter().for_each(|(name, ty, dims, _)| drop(writer.tensor(name, *ty, dims).map(|_| ())));
    let mut body = writer.write_to(Vec::new()).unwrap();
    tensors.iter().for_each(|(name, .., bytes)| body.write(name, bytes).unwrap());
    Gguf::from_bytes(body.finish().unwrap()).unwrap()
}
