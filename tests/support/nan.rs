//! For tests: a model with NaN in a weight.
use rocm_ops::gguf::{GgmlType, Gguf, Writer};

/// A copy of an f16 model in which this token's embedding is NaN. Its output matrix is a tensor without NaN, if need be of its own: so
/// only texts with this token have logits that are NaN.
///
/// # Errors
/// The file is not such a model.
pub fn model(from: &str, id: u32) -> rocm_ops::gguf::Result<Vec<u8>> {
    let gguf = Gguf::open(from)?;
    let table = gguf.tensor("token_embd.weight")?;
    assert_eq!(table.ggml_type(), GgmlType::F16);
    let mut writer = Writer::with_metadata(gguf.metadata().clone());
    for tensor in gguf.tensors() {
        writer.tensor(tensor.name(), tensor.ggml_type(), tensor.dims())?;
    }
    let tied = gguf.tensor("output.weight").is_err();
    if tied {
        writer.tensor("output.weight", table.ggml_type(), table.dims())?;
    }
    let mut body = writer.write_to(Vec::new())?;
    for tensor in gguf.tensors() {
        let mut bytes = tensor.bytes()?.to_vec();
        if tensor.name() == table.name() {
            let width = 2 * table.dims()[1];
            bytes[id as usize * width..][..width].as_chunks_mut().0.fill(0x7e00_u16.to_le_bytes());
        }
        body.write(tensor.name(), &bytes)?;
    }
    if tied {
        body.write("output.weight", table.bytes()?)?;
    }
    body.finish()
}
