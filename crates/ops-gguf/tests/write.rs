//! Written files are read back unchanged, and no file is left half written.

mod common;

use std::collections::BTreeMap;

use common::{MODEL, scratch};
use ops_gguf::{Array, GgmlType, Gguf, Metadata, Value, Writer};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// A file with the metadata and tensors of another.
fn rewritten(gguf: &Gguf) -> Vec<u8> {
    let mut writer = Writer::with_metadata(gguf.metadata().clone());
    for t in gguf.tensors() {
        writer.tensor(t.name(), t.ggml_type(), t.dims()).unwrap();
    }
    let mut body = writer.write_to(Vec::new()).unwrap();
    for t in gguf.tensors() {
        body.write(t.name(), t.bytes().unwrap()).unwrap();
    }
    body.finish().unwrap()
}

#[test]
fn the_bundled_model_comes_out_as_it_went_in() {
    let original = std::fs::read(MODEL).unwrap();
    let gguf = Gguf::from_bytes(original.clone()).unwrap();
    assert!(rewritten(&gguf) == original, "the rewritten file differs");
}

fn plain() -> impl Strategy<Value = Value> {
    // Floats from their bits: every value except NaNs, which do not equal themselves.
    let f32s = any::<u32>().prop_map(f32::from_bits).prop_filter("not NaN", |x| !x.is_nan());
    let f64s = any::<u64>().prop_map(f64::from_bits).prop_filter("not NaN", |x| !x.is_nan());
    prop_oneof![
        any::<u8>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<u16>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        f32s.prop_map(Value::from),
        f64s.prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

fn array() -> impl Strategy<Value = Array> {
    let as_array = |v| match v {
        Value::Array(a) => a,
        _ => unreachable!("made from a vector"),
    };
    let f32s = any::<u32>().prop_map(f32::from_bits).prop_filter("not NaN", |x| !x.is_nan());
    let f64s = any::<u64>().prop_map(f64::from_bits).prop_filter("not NaN", |x| !x.is_nan());
    let leaf = prop_oneof![
        vec(any::<u8>(), 0..9).prop_map(Value::from),
        vec(any::<i8>(), 0..9).prop_map(Value::from),
        vec(any::<u16>(), 0..9).prop_map(Value::from),
        vec(any::<i16>(), 0..9).prop_map(Value::from),
        vec(any::<u32>(), 0..9).prop_map(Value::from),
        vec(any::<i32>(), 0..9).prop_map(Value::from),
        vec(any::<u64>(), 0..9).prop_map(Value::from),
        vec(any::<i64>(), 0..9).prop_map(Value::from),
        vec(f32s, 0..9).prop_map(Value::from),
        vec(f64s, 0..9).prop_map(Value::from),
        vec(any::<bool>(), 0..9).prop_map(Value::from),
        vec(any::<String>(), 0..9).prop_map(|s| Value::from(s.as_slice())),
    ]
    .prop_map(as_array);
    leaf.prop_recursive(3, 12, 4, |inner| vec(inner, 0..4).prop_map(|a| Array::Array(a.into())))
}

fn metadata() -> impl Strategy<Value = BTreeMap<String, Value>> {
    let value = prop_oneof![plain(), array().prop_map(Value::from)];
    btree_map("[a-z][a-z0-9_]{0,8}(\\.[a-z0-9_]{1,8}){0,2}", value, 0..12)
        .prop_map(|mut pairs| (pairs.remove("general.alignment"), pairs).1)
}

/// Tensors by name: type, dimensions and data.
type Tensors = BTreeMap<String, (GgmlType, Vec<usize>, Vec<u8>)>;

fn tensors() -> impl Strategy<Value = Tensors> {
    let types: Vec<GgmlType> = GgmlType::all().collect();
    let tensor = (proptest::sample::select(types), vec(0_usize..4, 0..4), any::<u64>()).prop_map(
        |(ty, mut dims, seed)| {
            let block = ty.block().unwrap();
            match dims.last_mut() {
                Some(inner) => *inner *= block.len,
                None if block.len > 1 => dims.push(block.len),
                None => {}
            }
            let len = dims.iter().product::<usize>() / block.len * block.bytes;
            let data = (0..len as u64).map(|i| (seed.wrapping_mul(i | 1) >> 24) as u8).collect();
            (ty, dims, data)
        },
    );
    btree_map("[a-z][a-z0-9_.]{0,30}", tensor, 0..8)
}

proptest! {
    #[test]
    fn any_file_reads_back(pairs in metadata(), tensors in tensors(), alignment in prop::option::of(0_u32..13)) {
        let mut writer = Writer::new();
        let mut expected = Metadata::new();
        for (key, value) in &pairs {
            writer.set(key, value.clone()).unwrap();
            expected.set(key, value.clone()).unwrap();
        }
        if let Some(power) = alignment {
            writer.alignment(1 << power).unwrap();
            expected.set("general.alignment", 1_u32 << power).unwrap();
        }
        for (name, (ty, dims, _)) in &tensors {
            writer.tensor(name, *ty, dims).unwrap();
        }
        let mut body = writer.write_to(Vec::new()).unwrap();
        for (name, (_, _, data)) in &tensors {
            prop_assert_eq!(body.due(), Some(name.as_str()));
            body.copy_from(name, data.as_slice()).unwrap();
        }
        let bytes = body.finish().unwrap();

        let gguf = Gguf::from_bytes(bytes.clone()).unwrap();
        prop_assert_eq!(gguf.alignment(), 1 << alignment.unwrap_or(5));
        prop_assert_eq!(gguf.metadata(), &expected);
        prop_assert!(gguf.tensors().map(|t| t.name()).eq(tensors.keys()));
        for (name, (ty, dims, data)) in &tensors {
            let tensor = gguf.tensor(name).unwrap();
            prop_assert_eq!(tensor.ggml_type(), *ty);
            prop_assert_eq!(tensor.dims(), dims.as_slice());
            prop_assert_eq!(tensor.offset() % gguf.alignment() as u64, 0);
            prop_assert_eq!(tensor.bytes().unwrap(), data.as_slice());
        }
        prop_assert_eq!(rewritten(&gguf), bytes);
    }
}

/// Files of a folder whose names contain `part`.
fn files_like(path: &std::path::Path) -> Vec<String> {
    let part = path.file_name().unwrap().to_str().unwrap();
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.contains(part)).collect()
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let path = scratch("atomic.gguf");
    let plan = || {
        let mut writer = Writer::new();
        writer.set("general.architecture", "test").unwrap();
        writer.tensor("a", GgmlType::F32, &[2]).unwrap().tensor("b", GgmlType::F32, &[3]).unwrap();
        writer
    };
    let mut body = plan().create(&path).unwrap();
    body.write("a", &[1.0_f32, 2.0]).unwrap();
    assert!(!path.exists(), "not before it is complete");
    drop(body);
    assert_eq!(files_like(&path), [] as [&str; 0], "nothing is left of an abandoned file");

    let mut body = plan().create(&path).unwrap();
    body.write("a", &[1.0_f32, 2.0]).unwrap();
    let error = body.commit().unwrap_err().to_string();
    assert_eq!(error, "cannot write tensor `b`: got the end of the file, wanted the tensor's data");
    assert_eq!(files_like(&path), [] as [&str; 0], "nothing is left of an incomplete file");

    let mut body = plan().create(&path).unwrap();
    body.write("a", &[1.0_f32, 2.0]).unwrap();
    body.write("b", &[3.0_f32, 4.0, 5.0]).unwrap();
    body.commit().unwrap();
    assert_eq!(files_like(&path).len(), 1);

    // A mapping of the old file is unaffected by the new one. SAFETY: the file is replaced, never changed in
    // place.
    let old = unsafe { Gguf::map(&path) }.unwrap();
    let mut body = plan().create(&path).unwrap();
    body.write("a", &[9.0_f32, 9.0]).unwrap();
    body.write("b", &[9.0_f32, 9.0, 9.0]).unwrap();
    body.commit().unwrap();
    assert_eq!(old.tensor("b").unwrap().view::<f32>().unwrap()[..], [3.0, 4.0, 5.0]);
    assert_eq!(Gguf::open(&path).unwrap().tensor("b").unwrap().view::<f32>().unwrap()[..], [9.0, 9.0, 9.0]);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn data_of_the_wrong_size_or_out_of_order() {
    let body = || {
        let mut writer = Writer::new();
        writer.tensor("a", GgmlType::F32, &[2]).unwrap().tensor("b", GgmlType::F32, &[2]).unwrap();
        writer.write_to(Vec::new()).unwrap()
    };
    let two = [0.0_f32; 2];
    let error = body().write("a", &[0.0_f32]).unwrap_err().to_string();
    assert_eq!(error, "cannot write tensor `a`: got 4 bytes, wanted 8");
    let error = body().write("b", &two).unwrap_err().to_string();
    assert_eq!(error, "cannot write tensor `b`: got its data, wanted those of `a`, planned before it");
    let error = body().copy_from("a", [0_u8; 9].as_slice()).unwrap_err().to_string();
    assert_eq!(error, "cannot write tensor `a`: got more bytes, wanted 8");

    let mut broken = body();
    let error = broken.copy_from("a", [0_u8; 3].as_slice()).unwrap_err().to_string();
    assert_eq!(error, "cannot write tensor `a`: got 3 bytes, wanted 8");
    let error = broken.write("a", &two).unwrap_err().to_string();
    assert_eq!(error, "cannot write tensor `a`: got its data, wanted a file whose last write did not fail");
    assert!(broken.finish().is_err());

    // Refused before anything was written: the file is still valid.
    let mut body = body();
    assert!(body.write("b", &two).is_err());
    body.write("a", &two).unwrap();
    body.write("b", &two).unwrap();
    let error = body.write("b", &two).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot write tensor `b`: got its data, wanted the end of the file: all planned tensors are written"
    );
    assert!(Gguf::from_bytes(body.finish().unwrap()).is_ok());
}

#[test]
fn what_the_format_cannot_hold() {
    let mut writer = Writer::new();
    let message = |e: ops_gguf::Error| e.to_string();
    let mut tensor =
        |name: &str, ty, dims: &[usize]| writer.tensor(name, ty, dims).map(drop).map_err(message);
    let long = "x".repeat(64);
    assert_eq!(
        tensor(&long, GgmlType::F32, &[1]).unwrap_err(),
        format!("cannot write tensor `{long}`: got a name of 64 bytes, wanted 1 to 63 bytes")
    );
    assert!(tensor("", GgmlType::F32, &[1]).is_err());
    assert!(tensor("w", GgmlType::F32, &[1]).is_ok());
    assert_eq!(
        tensor("w", GgmlType::F16, &[2]).unwrap_err(),
        "cannot write tensor `w`: got a second tensor of this name, wanted unique names"
    );
    assert_eq!(
        tensor("q", GgmlType::Q8_0, &[2, 33]).unwrap_err(),
        "cannot write tensor `q`: got rows of 33 elements, wanted a multiple of 32 for q8_0"
    );
    assert_eq!(
        tensor("u", GgmlType(99), &[2]).unwrap_err(),
        "cannot write tensor `u`: got type 99 (unknown), wanted a type whose block size is known"
    );
    assert!(tensor("r", GgmlType::F32, &[1; 5]).is_err());
    assert!(tensor("o", GgmlType::F32, &[usize::MAX, 2]).is_err());

    assert_eq!(
        writer.set("schlüssel", 1_u32).map(drop).map_err(message).unwrap_err(),
        "cannot write metadata key `schlüssel`: got a key of 10 bytes, wanted 1 to 65535 bytes of ASCII"
    );
    assert!(writer.set("", 1_u32).is_err());
    assert!(writer.set("k".repeat(65_536), 1_u32).is_err());
    let deep = |n| (0..n).fold(Array::U8([].into()), |a, _| Array::Array([a].into()));
    assert!(writer.set("deep", deep(8)).is_ok());
    assert!(writer.set("deep", deep(9)).is_err());
    for n in [0, 3, 1 << 17] {
        assert!(writer.alignment(n).is_err(), "{n}");
    }
    writer.set("general.alignment", 12_u32).unwrap();
    assert!(writer.write_to(Vec::new()).is_err());
}

#[test]
fn metadata_can_be_edited() {
    let mut meta = Metadata::new();
    meta.set("b", 1_u8).unwrap().set("a", 2_i64).unwrap().set("c", "x").unwrap();
    meta.set("b", -1_i8).unwrap();
    assert!(meta.iter().map(|(k, _)| k).eq(["b", "a", "c"]));
    assert_eq!(meta.get::<i32>("b").unwrap(), -1);
    assert_eq!(meta.u32("b").unwrap_err().to_string(), "metadata key `b`: got i8 -1, wanted u32");
    assert_eq!(meta.remove("b"), Some(Value::I8(-1)));
    assert_eq!(meta.remove("b"), None);
    assert_eq!((meta.get::<usize>("a").unwrap(), meta.str("c").unwrap()), (2, "x"));
    assert_eq!(meta.u32("z").unwrap_err().to_string(), "no metadata key `z`, wanted u32");
    assert_eq!(
        meta.arch_u32("z").unwrap_err().to_string(),
        "no metadata key `general.architecture`, wanted string"
    );
}
