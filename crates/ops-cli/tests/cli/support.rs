//! The tables of supported ops in `docs` match the command's output.
use super::ops;

fn recorded(backend: &str) {
    let path = format!("{}/../../docs/support-{backend}.txt", env!("CARGO_MANIFEST_DIR"));
    let renew = format!("cargo run -p ops-cli -- support --backend {backend} > docs/support-{backend}.txt");
    let run = ops(&["support", "--backend", backend]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let recorded =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}; renew it: {renew}"));
    for (recorded, now) in recorded.lines().zip(run.lines()) {
        assert_eq!(recorded, now, "docs/support-{backend}.txt is out of date; renew it: {renew}");
    }
    assert_eq!(recorded, run.stdout, "docs/support-{backend}.txt is out of date; renew it: {renew}");
}

#[test]
fn what_cpu_computes_is_recorded() {
    recorded("cpu");
}

/// Without a device, for the target that `ops explain` assumes.
#[test]
fn what_rocm_computes_is_recorded() {
    recorded("rocm");
}
