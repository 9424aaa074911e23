//! Chooses the golden cases that are part of the program: of each op and element type the smallest, unless it is large and the op has
//! a smaller one in another type.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Larger cases are taken only if the op has no smaller one.
const LARGE: u64 = 8 << 10;

/// Budget for all cases together, in bytes.
const BUDGET: u64 = 1 << 20;

struct Case {
    bytes: u64,
    file: PathBuf,
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    match write() {
        Ok(()) => {}
        Err(message) => println!("cargo::error={message}"),
    }
}

fn write() -> Result<(), String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let (mut smallest, mut total) = (BTreeMap::<(String, String), Case>::new(), 0);
    for folder in ["golden", "golden-2", "golden-formats"].map(|name| tests.join(name)) {
        println!("cargo::rerun-if-changed={}", folder.display());
        for entry in fs::read_dir(&folder).map_err(at(&folder))? {
            let file = entry.map_err(at(&folder))?.path();
            let Some(of) = op_and_type(&file) else { continue };
            total += 1;
            let case = Case { bytes: fs::metadata(&file).map_err(at(&file))?.len(), file };
            let known = smallest.get(&of);
            if known.is_none_or(|known| (case.bytes, &case.file) < (known.bytes, &known.file)) {
                smallest.insert(of, case);
            }
        }
    }
    let of_op = |op: &str| smallest.iter().filter(|((of, _), _)| of == op).map(|(_, case)| case.bytes).min();
    let chosen =
        smallest.iter().filter(|((op, _), case)| case.bytes <= LARGE || Some(case.bytes) == of_op(op));
    let chosen: Vec<(&str, &Case)> = chosen.map(|((op, _), case)| (op.as_str(), case)).collect();
    let bytes: u64 = chosen.iter().map(|(_, case)| case.bytes).sum();
    if bytes > BUDGET {
        return Err(format!("the golden cases in the program have {bytes} bytes; the budget is {BUDGET}"));
    }
    let mut table = format!("pub(super) const TOTAL: usize = {total};\nconst CASES: &[Case] = &[\n");
    for (op, Case { file, .. }) in chosen {
        let name = file.file_name().unwrap_or_default();
        let _ = writeln!(table, "Case {{ op: {op:?}, name: {name:?}, bytes: include_bytes!({file:?}) }},");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("golden.rs");
    fs::write(&out, table + "];\n").map_err(at(&out))
}

/// What a file name such as `001-rms_norm-f32-1x1.safetensors` says. In-place forms count as cases of their op.
fn op_and_type(file: &Path) -> Option<(String, String)> {
    let name = file.file_name()?.to_str()?.strip_suffix(".safetensors")?;
    let mut words = name.split('-').skip(1);
    Some((words.next()?.trim_end_matches("_inplace").to_owned(), words.next()?.to_owned()))
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
