//! A file that holds an op is called what the op or its family is called, in every layer.
//!
//! The family is the module of the op's type in `ops_core::ops`.
use ops_kernels::Family;
use rocm_ops::backend::{Execute, Op};
use rocm_ops::ops::Axes;
use rocm_ops::ops::registry::{AllOps, Entry, Options, Refused, Visit, Window, by_name, entries};
use rocm_ops::quant::Q8_0;
use rocm_ops::{DType, Reference, Wide};
use std::fs::{read_dir, read_to_string};
use std::path::Path;

/// A source file: its path below the layer's folder, without `.rs`, and its text.
type File = (String, String);

/// An op as its files may be called, and as its type is called.
struct Names {
    entry: &'static Entry,
    op: String,
    files: Vec<String>,
}

/// Whether a file at `path` may hold the op.
fn fits(names: &Names, path: &str) -> bool {
    path.split('/').any(|part| names.files.iter().any(|name| name == part))
}

/// `RmsNorm` as `rms_norm`.
fn snake(name: &str) -> String {
    let upper =
        |(i, c): (usize, char)| [(c.is_uppercase() && i > 0).then_some('_'), Some(c.to_ascii_lowercase())];
    name.chars().enumerate().flat_map(upper).flatten().collect()
}

fn all_names() -> Vec<Names> {
    let names = |entry: &'static Entry| {
        // The type makes no difference, but some ops have integers only.
        let types = entry.runs_in.members();
        let dtype = if types.contains(&DType::F32) { DType::F32 } else { types[0] };
        let path = by_name::<Reference, _, _>(entry.name, dtype, &Ones(entry), TypeName).unwrap();
        let path = path.split('<').next().unwrap();
        let parts: Vec<&str> = path.split("::").skip_while(|part| *part != "ops").skip(1).collect();
        let (op, family) = parts.split_last().unwrap();
        let mut files: Vec<String> = family.iter().map(ToString::to_string).collect();
        files.push(snake(op).trim_end_matches("_inplace").to_owned());
        // Under a name of its own, an op takes blocks.
        files.extend(entry.blocks.map(|_| "quant".to_owned()));
        files.extend(entry.blocks.map(|_| entry.name.to_owned()));
        Names { entry, op: op.to_string(), files }
    };
    entries().iter().map(names).collect()
}

fn files(layer: &str) -> Vec<File> {
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(layer);
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(&root).unwrap().with_extension("");
                found.push((name.to_str().unwrap().replace('\\', "/"), read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// Whether the file implements a kernel or a provider of the op.
fn implements(text: &str, op: &str) -> bool {
    let holds = |line: &str, before: &str| {
        line.match_indices(before).any(|(at, _)| {
            let rest = &line[at + before.len()..];
            rest.strip_prefix(op).is_some_and(|rest| rest.starts_with(['<', '>', ' ']))
        })
    };
    let kinds = ["Kernel<", "Provider<", " for "];
    text.lines()
        .filter(|line| line.starts_with("impl"))
        .any(|line| kinds.iter().any(|kind| holds(line, kind)))
}

/// Implementations in files with other names; and, if the layer has `all` ops, ops without an implementation.
fn misplaced(files: &[File], all: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for names in all_names() {
        let mut found = files.iter().filter(|(_, text)| implements(text, &names.op)).peekable();
        if all && found.peek().is_none() {
            wrong.push(format!("{} is nowhere", names.op));
        }
        for (path, _) in found.filter(|(path, _)| !fits(&names, path)) {
            wrong.push(format!("{} is in {path}.rs, want one of {:?}", names.op, names.files));
        }
    }
    wrong
}

const LAYERS: [(&str, bool); 4] = [
    ("crates/ops-cpu/src/reference", true),
    ("crates/ops-cpu/src/cpu", true),
    ("crates/ops-rocm/src/providers/hip", true),
    ("crates/ops-rocm/src/providers/miopen", false),
];

#[test]
fn implementations_are_in_files_named_after_the_family() {
    for (layer, all) in LAYERS {
        assert_eq!(misplaced(&files(layer), all), [""; 0], "{layer}");
    }
}

#[test]
fn a_renamed_file_is_noticed() {
    for (layer, all) in LAYERS {
        let mut files = files(layer);
        files.iter_mut().find(|(path, _)| path == "softmax").unwrap().0 = "probabilities".to_owned();
        assert_eq!(misplaced(&files, all).len(), 2, "{layer}: softmax and log_softmax");
    }
}

#[test]
fn cases_and_oracles_are_in_files_named_after_the_family() {
    let (all, suite) = (all_names(), files("crates/ops-test/src/suite"));
    for names in &all {
        let has = suite.iter().any(|(path, _)| !path.starts_with("oracle") && fits(names, path));
        assert!(has, "no file of the suite for {}, want one of {:?}", names.entry.name, names.files);
    }
    for (path, text) in suite.iter().filter(|(path, _)| path.starts_with("oracle/")) {
        let Some((_, ops)) = text.split_once("const OPS: &[&str] = &[") else { continue };
        for op in ops.split(']').next().unwrap().split('"').skip(1).step_by(2) {
            let names =
                all.iter().find(|names| names.entry.name == op).unwrap_or_else(|| panic!("{path}: {op}"));
            assert!(fits(names, path), "the oracle of {op} is in {path}.rs, want one of {:?}", names.files);
        }
    }
}

#[test]
fn kernel_sources_and_their_launches_are_named_after_the_family() {
    let all = all_names();
    let is_named = |name: &str| {
        let starts = |of: &String| {
            name.strip_prefix(of.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        all.iter().any(|names| names.files.iter().any(starts))
    };
    // The unit of matrix units checks the hardware, and collectives are calls of groups: neither belongs to an op.
    let of_op = |family: &&Family| !matches!(family, Family::MmaUnit | Family::Group);
    for family in Family::ALL.iter().filter(of_op) {
        assert!(
            is_named(family.name()),
            "kernels/hip/{}.hip is not named after an op or its family",
            family.name()
        );
    }
    for (path, text) in files("kernels/src") {
        let declares = text.contains("table.of::<")
            && !text.contains("Family::MmaUnit,")
            && !text.contains("Family::Group,");
        assert!(
            !declares || path.split('/').any(is_named),
            "kernels/src/{path}.rs is not named after an op or its family"
        );
    }
}

/// What vector kernels share, and faults that many ops have.
const SHARED: [(&str, &[&str]); 2] = [
    (
        "crates/ops-simd/src",
        &[
            "amx",
            "element",
            "error",
            "gemm",
            "isa",
            "lib",
            "map",
            "math",
            "matrix_units",
            "memory",
            "rows",
            "scratch",
            "simd",
            "stencil",
            "store",
            "x86",
        ],
    ),
    ("tests/conformance/mutants", &["backend", "elementwise", "exact", "float64", "formats", "tools"]),
];

#[test]
fn vector_kernels_and_mutants_are_in_files_named_after_the_family() {
    let all = all_names();
    for (folder, shared) in SHARED {
        for (path, _) in files(folder) {
            let top = path.split('/').next().unwrap();
            let named = all.iter().any(|names| names.files.iter().any(|name| name == top));
            assert!(
                named || shared.contains(&top),
                "{folder}/{path}.rs is not named after an op or its family"
            );
        }
    }
}

/// The path of the op's type.
struct TypeName;

impl<B: AllOps> Visit<B> for TypeName {
    type Answer = &'static str;
    fn visit<O: Op>(self, _: O) -> &'static str
    where
        B: Execute<O>,
    {
        core::any::type_name::<O>()
    }
}

/// Options with which every op can be made.
struct Ones(&'static Entry);

impl Options for Ones {
    type Error = Refused;
    fn operand(&self, name: &'static str) -> Result<DType, Refused> {
        let has = self.0.slots(DType::F32).iter().any(|slot| slot.name == name);
        let dtype = if self.0.blocks == Some(name) { DType::Block(&Q8_0) } else { DType::F32 };
        has.then_some(dtype).ok_or(Refused::Missing(name))
    }
    fn number(&self, _: &'static str) -> Result<Option<f64>, Refused> {
        Ok(Some(1.0))
    }
    fn value(&self, _: &'static str) -> Result<Option<Wide>, Refused> {
        Ok(Some(Wide::Int(1)))
    }
    fn count(&self, _: &'static str) -> Result<Option<usize>, Refused> {
        Ok(Some(1))
    }
    fn axis(&self, _: &'static str) -> Result<Option<isize>, Refused> {
        Ok(Some(0))
    }
    fn counts(&self, name: &'static str) -> Result<Option<Vec<usize>>, Refused> {
        let axes = if self.0.name.ends_with("1d") { 1 } else { 2 };
        Ok(matches!(name, "kernel" | "size").then(|| vec![1; axes]))
    }
    fn axes(&self, _: &'static str) -> Result<Option<Axes>, Refused> {
        Ok(None)
    }
    fn flag(&self, _: &'static str) -> Result<Option<bool>, Refused> {
        Ok(None)
    }
    fn window(&self, _: &'static str) -> Result<Option<Window>, Refused> {
        Ok(None)
    }
    fn dtype(&self, _: &'static str) -> Result<Option<DType>, Refused> {
        Ok(None)
    }
    fn word(&self, _: &'static str, _: &[&'static str]) -> Result<Option<usize>, Refused> {
        Ok(None)
    }
}
