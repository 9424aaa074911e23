//! The golden cases that are part of the program (`golden/`, read by `build.rs`) are those that this test chooses: of each op and element
//! type the smallest, unless it is large and the op has a smaller one in another type.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Larger cases are taken only if the op has no smaller one.
const LARGE: u64 = 8 << 10;

/// Budget for all cases together, in bytes.
const BUDGET: u64 = 1 << 20;

const RENEW: &str = "renew crates/ops-cli/golden: OPS_TEST_WRITE=1 cargo test -p ops-cli --test cli golden";

struct Case {
    bytes: u64,
    /// From the folder `golden`.
    link: PathBuf,
}

/// The chosen cases by file name, and the number of all cases in the repository.
fn chosen(golden: &Path) -> (BTreeMap<String, Case>, usize) {
    let (mut smallest, mut total) = (BTreeMap::<(String, String), Case>::new(), 0);
    for set in ["golden", "golden-2", "golden-formats"] {
        let folder = Path::new("../../../tests").join(set);
        for entry in fs::read_dir(golden.join(&folder)).expect(set) {
            let entry = entry.expect(set);
            let Some(of) = op_and_type(&entry.file_name().to_string_lossy()) else { continue };
            total += 1;
            let case =
                Case { bytes: entry.metadata().expect(set).len(), link: folder.join(entry.file_name()) };
            let known = smallest.get(&of);
            if known.is_none_or(|known| (case.bytes, &case.link) < (known.bytes, &known.link)) {
                smallest.insert(of, case);
            }
        }
    }
    let mut of_op = BTreeMap::<String, u64>::new();
    for ((op, _), case) in &smallest {
        let least = of_op.entry(op.clone()).or_insert(case.bytes);
        *least = case.bytes.min(*least);
    }
    let chosen =
        smallest.into_iter().filter(|((op, _), case)| case.bytes <= LARGE || case.bytes == of_op[op]);
    let name = |case: &Case| case.link.file_name().expect("a file").to_string_lossy().into_owned();
    (chosen.map(|(_, case)| (name(&case), case)).collect(), total)
}

/// What a file name such as `001-rms_norm-f32-1x1.safetensors` says. In-place forms count as cases of their op.
fn op_and_type(name: &str) -> Option<(String, String)> {
    let mut words = name.strip_suffix(".safetensors")?.split('-').skip(1);
    Some((words.next()?.trim_end_matches("_inplace").to_owned(), words.next()?.to_owned()))
}

/// The names of the cases in a folder.
fn cases(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".safetensors")).collect()
}

#[test]
fn golden_cases_in_the_program_are_the_smallest() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let (chosen, total) = chosen(&golden);
    let bytes: u64 = chosen.values().map(|case| case.bytes).sum();
    assert!(bytes <= BUDGET, "the golden cases in the program have {bytes} bytes; the budget is {BUDGET}");
    let count = golden.join("TOTAL");
    if std::env::var_os("OPS_TEST_WRITE").is_some() {
        for name in cases(&golden) {
            fs::remove_file(golden.join(&name)).expect(&name);
        }
        for (name, case) in &chosen {
            std::os::unix::fs::symlink(&case.link, golden.join(name)).expect(name);
        }
        fs::write(&count, format!("{total}\n")).expect("TOTAL is written");
    }
    for (name, case) in &chosen {
        let link = fs::read_link(golden.join(name)).unwrap_or_else(|e| panic!("{name}: {e}; {RENEW}"));
        assert_eq!(link, case.link, "{name}; {RENEW}");
    }
    let further: Vec<_> = cases(&golden).into_iter().filter(|name| !chosen.contains_key(name)).collect();
    assert!(further.is_empty(), "{further:?} are not chosen; {RENEW}");
    let recorded = fs::read_to_string(&count).unwrap_or_else(|e| panic!("TOTAL: {e}; {RENEW}"));
    assert_eq!(recorded.trim(), total.to_string(), "{RENEW}");
}
