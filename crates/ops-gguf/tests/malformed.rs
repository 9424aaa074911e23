//! Files with one error each. The message says what, where, got and wanted.

mod common;

use common::Raw;
use ops_gguf::{Array, Error, GgmlType, Gguf, Value};

/// The error message for a file.
#[track_caller]
fn refusal(raw: Raw) -> String {
    Gguf::from_bytes(raw.0).map(|g| format!("{g:?}")).expect_err("the file is wrong").to_string()
}

#[test]
fn not_gguf_at_all() {
    assert_eq!(
        refusal(Raw::default().bytes(b"PK\x03\x04rest")),
        "malformed GGUF: magic, at byte 0: got \"PK\\x03\\x04\", wanted \"GGUF\""
    );
    assert_eq!(
        refusal(Raw::default().bytes(b"GGUF\x03\0")),
        "malformed GGUF: version, at byte 4: got end of file after 2, wanted 4 bytes"
    );
}

#[test]
fn other_versions_and_byte_orders() {
    let version = |n: u32| refusal(Raw::default().bytes(b"GGUF").u32(n).u64(0).u64(0));
    for n in [0, 1, 4] {
        let expected = format!(
            "unsupported GGUF version: got {n}, wanted 2 or 3; convert the file with a current converter"
        );
        assert_eq!(version(n), expected);
    }
    let big = "unsupported byte order: got big-endian, wanted little-endian; convert the file for little-endian machines";
    assert_eq!(version(3_u32.swap_bytes()), big);
    assert_eq!(refusal(Raw::default().bytes(b"FUGG").u32(3_u32.swap_bytes())), big);
    let v2 = Gguf::from_bytes(Raw::default().bytes(b"GGUF").u32(2).u64(0).u64(0).0).unwrap();
    assert_eq!((v2.version(), v2.metadata().len(), v2.tensors().len()), (2, 0, 0));
}

#[test]
fn counts_that_the_file_cannot_hold() {
    assert_eq!(
        refusal(Raw::v3(u64::MAX, 0)),
        "malformed GGUF: count of tensors, at byte 8: got 18446744073709551615, \
         wanted at most 0, because 8 bytes are left in the file"
    );
    assert_eq!(
        refusal(Raw::v3(0, 1 << 40).data(1, 130)),
        "malformed GGUF: count of metadata keys, at byte 16: got 1099511627776, \
         wanted at most 10, because 130 bytes are left in the file"
    );
    assert_eq!(
        refusal(Raw::v3(0, 1).u64(1 << 62).data(1, 40)),
        "malformed GGUF: length of metadata key 0 of 1, at byte 24: got 4611686018427387904, \
         wanted at most 40, because 40 bytes are left in the file"
    );
    assert_eq!(
        refusal(Raw::v3(0, 1).str("k").u32(9).u32(8).u64(1 << 33).data(1, 80)),
        "malformed GGUF: array length of metadata key `k`, at byte 41: got 8589934592, \
         wanted at most 10, because 80 bytes are left in the file"
    );
    assert_eq!(
        refusal(Raw::v3(0, 1).str("k").u32(9).u32(8).u64(2).str("ab").u64(99).data(1, 8)),
        "malformed GGUF: length of string 1 of metadata key `k`, at byte 59: got 99, \
         wanted at most 8, because 8 bytes are left in the file"
    );
}

#[test]
fn values_of_no_type() {
    assert_eq!(
        refusal(Raw::v3(0, 1).str("k").u32(13).u64(0)),
        "malformed GGUF: type of metadata key `k`, at byte 33: got 13, wanted a value type from 0 to 12"
    );
    assert_eq!(
        refusal(Raw::v3(0, 1).str("k").u32(7).bytes(&[2])),
        "malformed GGUF: bool of metadata key `k`, at byte 37: got 2, wanted 0 or 1"
    );
    assert_eq!(
        refusal(Raw::v3(0, 1).str("k").u32(9).u32(7).u64(3).bytes(&[0, 1, 7])),
        "malformed GGUF: bool of metadata key `k`, at byte 51: got 7, wanted 0 or 1"
    );
    assert_eq!(
        refusal(Raw::v3(0, 1).str("k").u32(8).u64(3).bytes(b"a\xffb")),
        "malformed GGUF: value of metadata key `k`, at byte 46: got byte 0xff, wanted UTF-8 text"
    );
    assert_eq!(
        refusal(Raw::v3(0, 1).str("").u32(0).bytes(&[0; 8])),
        "malformed GGUF: metadata key 0 of 1, at byte 24: got an empty key, wanted a name"
    );
}

#[test]
fn arrays_in_arrays_have_an_end() {
    let nested = |levels: usize| {
        let head = Raw::v3(0, 1).str("k").u32(9);
        (0..levels).fold(head, |raw, _| raw.u32(9).u64(1)).u32(4).u64(2).u32(5).u32(6)
    };
    let gguf = Gguf::from_bytes(nested(8).0).unwrap();
    let mut value = gguf.metadata().value("k").unwrap().clone();
    for _ in 0..8 {
        let Value::Array(Array::Array(inner)) = value else { panic!("{value:?}") };
        value = Value::Array(inner[0].clone());
    }
    assert_eq!(value, Value::from(vec![5_u32, 6]));
    let error = refusal(nested(9));
    assert!(error.contains("deeper arrays, wanted at most 8 levels of nested arrays"), "{error}");
    let error = refusal(nested(1_000_000));
    assert!(error.contains("deeper arrays"), "{error}");
}

#[test]
fn names_that_occur_twice() {
    assert_eq!(
        refusal(Raw::v3(0, 3).pair("k", 1).pair("other", 2).pair("k", 1)),
        "malformed GGUF: metadata key `k`, at byte 62: got a duplicate of the one at byte 24, wanted unique keys"
    );
    let twice = Raw::v3(2, 0).tensor("w", &[8], 0, 0).tensor("w", &[8], 0, 32).data(32, 64);
    assert_eq!(
        refusal(twice),
        "malformed GGUF: name of tensor `w`, at byte 57: got a duplicate of the one at byte 24, wanted unique names"
    );
}

#[test]
fn alignments_that_are_none() {
    for n in [0, 3, 48] {
        let error = refusal(Raw::v3(0, 1).pair("general.alignment", n));
        assert_eq!(
            error,
            format!("metadata key `general.alignment` at byte 24: got {n}, wanted a power of two")
        );
    }
    let huge = Raw::v3(1, 1).pair("general.alignment", 1 << 31).tensor("w", &[8], 0, 0).data(32, 64);
    assert!(refusal(huge).contains("is it truncated?"));
    let text = Raw::v3(0, 1).str("general.alignment").u32(8).str("32");
    assert_eq!(refusal(text), "metadata key `general.alignment` at byte 24: got string \"32\", wanted u64");
}

#[test]
fn dimensions_that_do_not_fit() {
    let dims = |dims: &[u64], ty: u32| refusal(Raw::v3(1, 0).tensor("w", dims, ty, 0).data(32, 64));
    assert_eq!(
        dims(&[1, 1, 1, 1, 1], 0),
        "malformed GGUF: rank of tensor `w`, at byte 33: got 5, wanted at most 4"
    );
    assert_eq!(
        dims(&[1 << 32, 1 << 32], 0),
        "malformed GGUF: dimensions of tensor `w`, at byte 37: got [4294967296, 4294967296], \
         wanted a product that fits 63 bits"
    );
    assert_eq!(
        dims(&[8, u64::MAX], 0),
        "malformed GGUF: dimension 1 of tensor `w`, at byte 45: got 18446744073709551615, \
         wanted at most 9223372036854775807"
    );
    assert_eq!(
        dims(&[1 << 62], 0),
        "malformed GGUF: dimensions of tensor `w`, at byte 37: got [4611686018427387904] of f32, \
         wanted a size in bytes that fits 64 bits"
    );
    assert_eq!(
        dims(&[48, 2], 8),
        "malformed GGUF: dimensions of tensor `w`, at byte 37: got rows of 48 elements, wanted a multiple of 32 for q8_0"
    );
}

#[test]
fn data_outside_the_file() {
    let file = |offset, len| Raw::v3(1, 0).tensor("w", &[8], 0, offset).data(32, len);
    assert!(Gguf::from_bytes(file(32, 64).0).is_ok());
    assert_eq!(
        refusal(file(32, 63)),
        "malformed GGUF: data of tensor `w`, at byte 49: got 32 bytes at offset 32 of the data section, \
         which starts at byte 64, wanted an end within the file's 127 bytes (is it truncated?)"
    );
    assert_eq!(
        refusal(file(8, 64)),
        "malformed GGUF: offset of tensor `w`, at byte 49: got 8, wanted a multiple of 32"
    );
    assert!(refusal(file(u64::MAX - 31, 64)).contains("offset 18446744073709551584 of the data section"));
}

#[test]
fn data_on_other_data() {
    let file = |first, second| {
        Raw::v3(2, 0).tensor("a", &[16], 0, first).tensor("b", &[16], 0, second).data(32, 128)
    };
    assert!(Gguf::from_bytes(file(0, 64).0).is_ok());
    assert!(Gguf::from_bytes(file(64, 0).0).is_ok(), "the data may be in any order");
    assert_eq!(
        refusal(file(0, 32)),
        "malformed GGUF: data of tensor `b`, at byte 82: got bytes from 128, overlapping those of `a` from 96 to 160, \
         wanted no overlap"
    );
    assert!(refusal(file(32, 32)).contains("data of tensor `b`"));
}

#[test]
fn an_unknown_type_lists_and_only_its_data_cannot_be_had() {
    let raw = Raw::v3(2, 0).tensor("odd", &[7, 3], 4711, 0).tensor("w", &[8], 0, 32).data(32, 64);
    let gguf = Gguf::from_bytes(raw.0).unwrap();
    let odd = gguf.tensor("odd").unwrap();
    assert_eq!((odd.dims(), odd.ggml_type()), ([3, 7].as_slice(), GgmlType(4711)));
    assert_eq!(gguf.tensor("w").unwrap().view::<f32>().unwrap().len(), 8);
    let expected =
        "tensor `odd`, data at byte 128: got type 4711 (unknown), wanted a type whose block size is known";
    assert_eq!(odd.bytes().unwrap_err().to_string(), expected);
    assert_eq!(odd.view::<u8>().unwrap_err().to_string(), expected);
    assert_eq!(odd.data::<f32>().unwrap_err().to_string(), expected);
    assert_eq!(odd.block_dims().unwrap_err().to_string(), expected);
    let outside = Raw::v3(1, 0).tensor("odd", &[7], 4711, 1 << 20).data(32, 64);
    assert!(refusal(outside).contains("data of tensor `odd`"));
}

#[test]
fn tensors_without_elements_need_no_data() {
    let gguf =
        Gguf::from_bytes(Raw::v3(2, 0).tensor("none", &[0, 5], 0, 0).tensor("row", &[], 0, 0).data(32, 4).0);
    let gguf = gguf.unwrap();
    assert_eq!(gguf.tensor("none").unwrap().view::<f32>().unwrap().len(), 0);
    assert_eq!(gguf.tensor("none").unwrap().dims(), [5, 0]);
    assert_eq!(gguf.tensor("row").unwrap().view::<f32>().unwrap()[..], [0.0]);
    // The file ends after the descriptions, before the aligned start of the data.
    let bare = Gguf::from_bytes(Raw::v3(1, 0).tensor("none", &[0], 0, 0).0).unwrap();
    assert_eq!(bare.tensor("none").unwrap().data::<f32>().unwrap().len(), 0);
}

#[test]
fn a_part_of_a_split_model_says_so() {
    let gguf = Gguf::from_bytes(Raw::v3(0, 1).pair("split.count", 3).0).unwrap();
    let error = gguf.tensor("w").unwrap_err();
    assert!(matches!(error, Error::MissingTensor { .. }));
    assert_eq!(
        error.to_string(),
        "no tensor `w` among the 0 of this file; the file is one of 3 parts of a model"
    );
}
