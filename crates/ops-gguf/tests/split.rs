//! Models in several files.

mod common;

use common::{MODEL, scratch};
use ops_gguf::{Gguf, Metadata, Outline, Writer};
use std::path::{Path, PathBuf};

/// The bundled model in three parts, in a separate folder that is removed at the end.
struct Parts(PathBuf);

impl Parts {
    fn new(name: &str) -> Self {
        let parts = Parts(scratch(name));
        std::fs::create_dir_all(&parts.0).unwrap();
        (0..3).for_each(|no| parts.write(no, |_| ()));
        parts
    }

    fn path(&self, no: u16) -> PathBuf {
        self.0.join(format!("model-{:05}-of-00003.gguf", no + 1))
    }

    /// Writes a part with its metadata changed.
    fn write(&self, no: u16, change: impl FnOnce(&mut Metadata)) {
        let whole = Gguf::open(MODEL).unwrap();
        let mut metadata = if no == 0 { whole.metadata().clone() } else { Metadata::new() };
        metadata.set("split.no", no).unwrap().set("split.count", 3_u16).unwrap();
        metadata.set("split.tensors.count", whole.tensors().len() as i32).unwrap();
        change(&mut metadata);
        let mut writer = Writer::with_metadata(metadata);
        let third = whole.tensors().len().div_ceil(3);
        let own = || whole.tensors().skip(usize::from(no) * third).take(third);
        own().for_each(|t| drop(writer.tensor(t.name(), t.ggml_type(), t.dims()).map(|_| ())));
        let mut body = writer.create(self.path(no)).unwrap();
        own().for_each(|t| body.write(t.name(), t.bytes().unwrap()).unwrap());
        body.commit().unwrap();
    }

    /// The error of opening the first part, which is the same for all ways to open it.
    fn error(&self) -> String {
        let error = Gguf::open(self.path(0)).unwrap_err().to_string();
        assert_eq!(Outline::open(self.path(0)).err().expect("refused").to_string(), error);
        error
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn the_parts_are_the_model_in_one_file() {
    let (parts, whole) = (Parts::new("whole"), Gguf::open(MODEL).unwrap());
    // SAFETY: the files are not changed while the test runs.
    let opened = [Gguf::open(parts.path(0)).unwrap(), unsafe { Gguf::map(parts.path(0)) }.unwrap()];
    for split in opened {
        assert_eq!(split.metadata(), whole.metadata());
        assert_eq!(split.tensors().len(), whole.tensors().len());
        for (a, b) in split.tensors().zip(whole.tensors()) {
            assert_eq!((a.name(), a.ggml_type(), a.dims()), (b.name(), b.ggml_type(), b.dims()));
            assert!(a.bytes().unwrap() == b.bytes().unwrap(), "{}", a.name());
            assert_eq!(split.tensor(a.name()).unwrap().bytes().unwrap().len(), b.bytes().unwrap().len());
        }
        let files: u64 = (0..3).map(|no| std::fs::metadata(parts.path(no)).unwrap().len()).sum();
        assert_eq!(split.file_len(), files);
    }
    let outline = Outline::open(parts.path(0)).unwrap();
    assert!(outline.tensors().map(|t| t.name()).eq(whole.tensors().map(|t| t.name())));
    assert_eq!(outline.metadata(), whole.metadata());
}

#[test]
fn a_split_model_is_quantized_into_one_file() {
    use ops_gguf::{Mixture, Quantizer};
    let (parts, to) = (Parts::new("quantized"), scratch("quantized.gguf"));
    let same = Mixture::from_name("q8_0").unwrap();
    Quantizer::open(parts.path(0), same).unwrap().write(&ops_cpu::Cpu::new(), &to, |_| ()).unwrap();
    let (written, whole) = (Gguf::open(&to).unwrap(), Gguf::open(MODEL).unwrap());
    std::fs::remove_file(&to).unwrap();
    for tensor in whole.tensors() {
        assert!(written.tensor(tensor.name()).unwrap().bytes().unwrap() == tensor.bytes().unwrap());
    }
}

#[test]
fn a_missing_part_is_named() {
    let parts = Parts::new("missing");
    std::fs::remove_file(parts.path(1)).unwrap();
    let error = parts.error();
    assert!(error.starts_with("part of the model") && error.contains("model-00002-of-00003.gguf"), "{error}");
    assert!(error.contains("cannot open"), "{error}");
}

#[test]
fn a_part_that_is_cut_short_is_named() {
    let parts = Parts::new("short");
    let bytes = std::fs::read(parts.path(2)).unwrap();
    std::fs::write(parts.path(2), &bytes[..bytes.len() - 1]).unwrap();
    let error = parts.error();
    assert!(error.contains("model-00003-of-00003.gguf") && error.contains("truncated"), "{error}");
}

#[test]
fn another_part_than_the_first_says_which_to_open() {
    let parts = Parts::new("second");
    let error = Gguf::open(parts.path(1)).unwrap_err().to_string();
    assert!(error.contains("`split.no`: got 1") && error.contains(name(&parts.path(0))), "{error}");
}

#[test]
fn parts_of_other_models_are_refused() {
    let parts = Parts::new("other");
    let third = name(&parts.path(2)).to_owned();
    let refused = |change: &dyn Fn(&mut Metadata), wanted: &[&str]| {
        parts.write(2, |metadata| change(metadata));
        let error = parts.error();
        assert!(error.contains(&third) && wanted.iter().all(|part| error.contains(part)), "{error}");
    };
    refused(&|m| drop(m.set("split.no", 1_u16).map(|_| ())), &["`split.no`: got 1, wanted 2"]);
    refused(&|m| drop(m.set("split.count", 4_u16).map(|_| ())), &["`split.count`: got 4, wanted 3"]);
    refused(&|m| drop(m.remove("split.no")), &["no metadata key `split.no`"]);
    refused(&|m| drop(m.set("split.tensors.count", 9).map(|_| ())), &["split.tensors.count", "got 9"]);
    let other = |m: &mut Metadata| drop(m.set("general.architecture", "qwen3").map(|_| ()));
    refused(&other, &["general.architecture", "qwen3", "another model"]);
    refused(&|m| drop(m.set("llama.new", 1).map(|_| ())), &["llama.new"]);
}

#[test]
fn tensors_are_in_one_part_and_all_there() {
    let parts = Parts::new("twice");
    // The second part again, as the third.
    let bytes = std::fs::read(parts.path(1)).unwrap();
    let at = bytes.windows(8).position(|w| w == b"split.no").unwrap();
    let mut third = bytes.clone();
    third[at + 12] = 2; // the value follows the type
    std::fs::write(parts.path(2), third).unwrap();
    let error = parts.error();
    assert!(error.contains("parts 2 and 3") && error.contains("in both"), "{error}");

    for no in 0..3 {
        parts.write(no, |m| drop(m.set("split.tensors.count", 1000).map(|_| ())));
    }
    let error = parts.error();
    assert!(error.contains("split.tensors.count") && error.contains("1000"), "{error}");
}

#[test]
fn the_name_says_where_the_other_parts_are() {
    let parts = Parts::new("renamed");
    let renamed = parts.0.join("renamed.gguf");
    std::fs::rename(parts.path(0), &renamed).unwrap();
    let error = Gguf::open(&renamed).unwrap_err().to_string();
    assert!(error.contains("\"renamed.gguf\"") && error.contains("-00001-of-00003.gguf"), "{error}");
}
