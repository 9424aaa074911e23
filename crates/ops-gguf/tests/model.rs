//! The bundled model, compared with what the reference Python reader finds in it.

mod common;

use std::borrow::Cow;

use common::{MODEL, fixture};
use half::f16;
use ops_gguf::{Array, GgmlType, Gguf, TensorData, Value};
use serde_json::Value as Json;

/// CRC-32 as in zlib.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0_u32, |crc, &b| (0..8).fold(crc ^ u32::from(b), step))
}

#[test]
fn crc32_of_the_check_string() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

fn assert_metadata(key: &str, value: &Value, fact: &Json) {
    let expected = &fact["value"];
    let types: Vec<&str> = fact["types"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    match (types.as_slice(), value) {
        (["STRING"], Value::String(s)) => assert_eq!(&**s, expected.as_str().unwrap(), "{key}"),
        (["UINT32"], Value::U32(n)) => assert_eq!(u64::from(*n), expected.as_u64().unwrap(), "{key}"),
        (["FLOAT32"], Value::F32(x)) => assert_eq!(f64::from(*x), expected.as_f64().unwrap(), "{key}"),
        (["BOOL"], Value::Bool(b)) => assert_eq!(*b, expected.as_bool().unwrap(), "{key}"),
        (["ARRAY", "STRING"], Value::Array(Array::String(a))) => {
            let all: Vec<Json> = a.iter().map(Json::from).collect();
            assert_ends(key, &all, expected);
        }
        (["ARRAY", "INT32"], Value::Array(Array::I32(a))) => {
            let all: Vec<Json> = a.iter().map(|&n| Json::from(n)).collect();
            assert_ends(key, &all, expected);
        }
        (types, value) => panic!("{key}: {types:?} read as {}", value.type_name()),
    }
}

fn assert_ends(key: &str, all: &[Json], expected: &Json) {
    assert_eq!(all.len() as u64, expected["len"].as_u64().unwrap(), "{key}");
    assert_eq!(Json::from(&all[..3]), expected["first"], "{key}");
    assert_eq!(Json::from(&all[all.len() - 3..]), expected["last"], "{key}");
}

#[test]
fn agrees_with_the_reference_reader() {
    let facts = fixture("model_facts.json");
    for gguf in [
        Gguf::open(MODEL).unwrap(),
        // SAFETY: the model is not changed while the test runs.
        unsafe { Gguf::map(MODEL) }.unwrap(),
        Gguf::from_bytes(std::fs::read(MODEL).unwrap()).unwrap(),
    ] {
        assert_eq!(u64::from(gguf.version()), facts["version"].as_u64().unwrap());
        assert_eq!(gguf.alignment() as u64, facts["alignment"].as_u64().unwrap());
        assert_eq!(gguf.file_len(), std::fs::metadata(MODEL).unwrap().len());
        let metadata = facts["metadata"].as_object().unwrap();
        assert_eq!(gguf.metadata().len(), metadata.len());
        for (key, value) in gguf.metadata().iter() {
            assert_metadata(key, value, &metadata[key]);
        }
        let tensors = facts["tensors"].as_array().unwrap();
        assert_eq!(gguf.tensors().len(), tensors.len());
        for (tensor, fact) in gguf.tensors().zip(tensors) {
            assert_eq!(tensor.name(), fact["name"].as_str().unwrap());
            assert_eq!(tensor.ggml_type().name(), fact["type"].as_str(), "{tensor:?}");
            assert_eq!(Json::from(tensor.dims()), fact["dims"], "{tensor:?}");
            assert_eq!(tensor.offset(), fact["offset"].as_u64().unwrap(), "{tensor:?}");
            let bytes = tensor.bytes().unwrap();
            assert_eq!(bytes.len() as u64, fact["bytes"].as_u64().unwrap(), "{tensor:?}");
            assert_eq!(u64::from(crc32(bytes)), fact["crc32"].as_u64().unwrap(), "{tensor:?}");
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct BlockQ8_0 {
    d: f16,
    qs: [i8; 32],
}

#[test]
fn tensors_of_a_mapped_or_read_file_are_used_where_they_lie() {
    // SAFETY: the model is not changed while the test runs.
    for gguf in [unsafe { Gguf::map(MODEL) }.unwrap(), Gguf::open(MODEL).unwrap()] {
        let norm = gguf.tensor("output_norm.weight").unwrap();
        assert!(matches!(norm.view::<f32>().unwrap(), Cow::Borrowed(w) if w.len() == 256));
        let embd = gguf.tensor("token_embd.weight").unwrap();
        let blocks = embd.data::<BlockQ8_0>().unwrap();
        assert!(blocks.is_shared());
        assert_eq!(blocks.as_ptr().cast::<u8>(), embd.bytes().unwrap().as_ptr());
        assert_eq!(embd.block_dims().unwrap(), [4096, 8]);
        assert_eq!(blocks.len(), 4096 * 8);
        assert_eq!(embd.elements(), 4096 * 256);
    }
}

#[test]
fn data_outlive_the_file_and_cross_threads() {
    fn is_free<T: Send + Sync + 'static>(x: T) -> T {
        x
    }
    let gguf = Gguf::open(MODEL).unwrap();
    let expected = gguf.tensor("blk.0.attn_norm.weight").unwrap().view::<f32>().unwrap().into_owned();
    let data: TensorData<f32> = is_free(gguf.tensor("blk.0.attn_norm.weight").unwrap().data().unwrap());
    let second = data.clone();
    drop(gguf);
    let sum = std::thread::spawn(move || data.iter().sum::<f32>()).join().unwrap();
    assert_eq!(sum, expected.iter().sum::<f32>());
    assert_eq!(second[..], expected[..]);
}

#[test]
fn a_misaligned_buffer_is_copied_from() {
    let file = std::fs::read(MODEL).unwrap();
    // SAFETY: the model is not changed while the test runs.
    let mapped = unsafe { Gguf::map(MODEL) }.unwrap();
    let expected = mapped.tensor("output_norm.weight").unwrap().view::<f32>().unwrap().into_owned();
    let start = mapped.tensor("output_norm.weight").unwrap().offset() as usize;
    // With alignment 1, the data directly follows the header; the name's length moves it off a multiple of four.
    let header = |name: &str| common::Raw::v3(1, 1).pair("general.alignment", 1).tensor(name, &[256], 0, 0);
    let raw = ["w", "ww"].map(header).into_iter().find(|raw| raw.0.len() % 4 != 0).unwrap();
    let gguf = Gguf::from_bytes(raw.bytes(&file[start..start + 1024]).0).unwrap();
    let tensor = gguf.tensors().next().unwrap();
    assert!(matches!(tensor.view::<f32>().unwrap(), Cow::Owned(w) if w == expected));
    let data = tensor.data::<f32>().unwrap();
    assert!(!data.is_shared());
    assert_eq!(data[..], expected[..]);
    // `raw_data` shares the file's memory at any alignment.
    let bytes = tensor.raw_data().unwrap();
    assert!(bytes.is_shared());
    assert_eq!(&bytes[..], tensor.bytes().unwrap());
}

#[test]
fn a_wrong_element_type_is_refused() {
    let gguf = Gguf::open(MODEL).unwrap();
    let norm = gguf.tensor("output_norm.weight").unwrap();
    assert_eq!(norm.ggml_type(), GgmlType::F32);
    assert_eq!(
        norm.view::<i32>().unwrap_err().to_string(),
        format!(
            "tensor `output_norm.weight`, data at byte {}: got f32, 4 bytes a block, wanted i32 of 4 bytes",
            norm.offset()
        )
    );
    assert!(norm.view::<f16>().is_err());
    assert!(norm.data::<BlockQ8_0>().is_err());
    let missing = gguf.tensor("output.weight").unwrap_err().to_string();
    assert_eq!(missing, "no tensor `output.weight` among the 56 of this file");
}

#[test]
fn what_cannot_be_opened_is_named() {
    let error = Gguf::open("/nonexistent/model.gguf").unwrap_err().to_string();
    assert!(error.starts_with("cannot open /nonexistent/model.gguf: "), "{error}");
    let folder = env!("CARGO_MANIFEST_DIR");
    // SAFETY: the folder is not changed while the test runs.
    for result in [unsafe { Gguf::map(folder) }, Gguf::open(folder)] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
    let empty = common::scratch("empty.gguf");
    std::fs::write(&empty, "").unwrap();
    // SAFETY: the file is not changed while the test runs.
    for result in [unsafe { Gguf::map(&empty) }, Gguf::open(&empty)] {
        let error = result.unwrap_err().to_string();
        assert!(
            error.ends_with("empty.gguf is an empty file, wanted a GGUF file; download the file again"),
            "{error}"
        );
    }
    std::fs::remove_file(&empty).unwrap();
}
