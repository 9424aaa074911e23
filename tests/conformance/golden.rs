//! Every golden case, on both CPU backends: no failure, no error, nothing unsupported that core has.
use ops_test::SuiteBackend;
use ops_test::golden::{Golden, Status};
use rocm_ops::{Backend, Cpu, Reference};
use std::path::{Path, PathBuf};

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = std::fs::read_dir(folder).expect("the golden cases lie in tests/golden");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "safetensors"));
    paths.sort();
    paths
}

fn replay<B: SuiteBackend>(backend: &B) {
    let known: Vec<&str> = ops_test::op_names().collect();
    let (mut ok, mut unknown, mut wrong) = (0, 0, Vec::new());
    for path in cases() {
        let golden = Golden::load(&path).expect("a golden case");
        let result = golden.replay(backend);
        match result.status {
            Status::Ok => ok += 1,
            Status::Unsupported if !known.contains(&golden.op()) => unknown += 1,
            _ => wrong.push(format!("{}: {result}", path.file_name().unwrap_or_default().display())),
        }
    }
    println!("{}: {ok} ok, {unknown} of ops that core does not have", Backend::name(backend));
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        ok + unknown + wrong.len(),
        wrong.join("\n")
    );
    assert!(ok >= 400, "only {ok} cases ran");
}

#[test]
fn reference_agrees_with_every_case() {
    replay(&Reference::new());
}

#[test]
fn cpu_agrees_with_every_case() {
    replay(&Cpu::new());
}
