//! Makes the golden cases in `golden/` part of the program.
//!
//! They are links to cases in the repository's `tests/`, because a package cannot contain files from outside its folder. The test
//! `cli golden` chooses them.
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Err(message) = write() {
        println!("cargo::error={message}");
    }
}

fn write() -> Result<(), String> {
    let folder = folder_of("CARGO_MANIFEST_DIR")?.join("golden");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).map_err(at(&folder))?;
    let files =
        entries.map(|entry| Ok(entry.map_err(at(&folder))?.path())).collect::<Result<Vec<_>, String>>();
    let mut cases: Vec<_> = files?.into_iter().filter_map(|file| Some((op(&file)?, file))).collect();
    cases.sort();

    let file = folder.join("TOTAL");
    let total = fs::read_to_string(&file).map_err(at(&file))?;
    let total: usize = total.trim().parse().map_err(|error| format!("{}: {error}", file.display()))?;
    let mut table = format!("pub(super) const TOTAL: usize = {total};\nconst CASES: &[Case] = &[\n");
    for (op, file) in cases {
        let name = file.file_name().unwrap_or_default();
        let _ = writeln!(table, "Case {{ op: {op:?}, name: {name:?}, bytes: include_bytes!({file:?}) }},");
    }
    let out = folder_of("OUT_DIR")?.join("golden.rs");
    fs::write(&out, table + "];\n").map_err(at(&out))
}

/// The folder that a variable of cargo names.
fn folder_of(variable: &str) -> Result<PathBuf, String> {
    std::env::var_os(variable).map(PathBuf::from).ok_or_else(|| format!("{variable} is not set"))
}

/// The op in a file name such as `001-rms_norm-f32-1x1.safetensors`. In-place forms count as cases of their op.
fn op(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?.strip_suffix(".safetensors")?;
    Some(name.split('-').nth(1)?.trim_end_matches("_inplace").to_owned())
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
