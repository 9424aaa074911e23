//! Opens arbitrary bytes as a GGUF file, reads everything, writes the file again, and builds and uses its tokenizer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ops_gguf::{DecodeOptions, EncodeOptions, Gguf, Tokenizer, Writer};

fuzz_target!(|bytes: &[u8]| {
    let Ok(gguf) = Gguf::from_bytes(bytes) else { return };
    read_all(&gguf);
    rewrite(&gguf);
    if let Ok(tokenizer) = gguf.tokenizer() {
        use_tokenizer(&tokenizer);
    }
});

fn read_all(gguf: &Gguf) {
    let _ = format!("{gguf:?}");
    for (key, value) in gguf.metadata().iter() {
        assert_eq!(gguf.metadata().value(key).map(ToString::to_string), Some(value.to_string()));
        let _ = (gguf.metadata().u32(key), gguf.metadata().f32(key), gguf.metadata().get::<Vec<i32>>(key));
    }
    for tensor in gguf.tensors() {
        assert_eq!(gguf.tensor(tensor.name()).unwrap().offset(), tensor.offset());
        let Ok(bytes) = tensor.bytes() else { continue };
        assert!(tensor.offset() + bytes.len() as u64 <= gguf.file_len());
        if let Ok(floats) = tensor.data::<f32>() {
            assert_eq!(floats.len(), tensor.elements());
        }
    }
}

/// Checks that whatever can be written reads back unchanged.
fn rewrite(gguf: &Gguf) {
    let mut writer = Writer::with_metadata(gguf.metadata().clone());
    for tensor in gguf.tensors() {
        if writer.tensor(tensor.name(), tensor.ggml_type(), tensor.dims()).is_err() {
            return;
        }
    }
    let Ok(mut body) = writer.write_to(Vec::new()) else { return };
    for tensor in gguf.tensors() {
        body.write(tensor.name(), tensor.bytes().unwrap()).unwrap();
    }
    let again = Gguf::from_bytes(body.finish().unwrap()).unwrap();
    assert_eq!(format!("{:?}", again.metadata()), format!("{:?}", gguf.metadata()));
    for (new, old) in again.tensors().zip(gguf.tensors()) {
        assert_eq!((new.name(), new.dims(), new.ggml_type()), (old.name(), old.dims(), old.ggml_type()));
        assert_eq!(new.bytes().unwrap(), old.bytes().unwrap());
    }
}

/// Encodes and decodes texts, at once and streamed.
fn use_tokenizer(tokenizer: &Tokenizer) {
    let ids: Vec<u32> = (0..tokenizer.vocab_size() as u32).collect();
    let text = tokenizer.decode_with(&ids, DecodeOptions { special: true }).unwrap();
    let plain = tokenizer.decode(&ids).unwrap();
    let mut stream = tokenizer.decode_stream();
    let mut streamed = String::new();
    for &id in &ids {
        streamed += &stream.push(id).unwrap().unwrap_or_default();
    }
    streamed += &stream.finish();
    assert_eq!(streamed, plain);
    for special in [false, true] {
        for text in [text.as_str(), "In the  beginning\n\n12:3 \u{e9}\u{1f600}<s></s>"] {
            let options = EncodeOptions { bos: Some(false), eos: Some(false), special };
            if let Ok(ids) = tokenizer.encode_with(text, options) {
                let _ = tokenizer.decode(&ids).unwrap();
            }
        }
    }
}
