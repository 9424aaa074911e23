//! Runs tests in separate processes, and reports skipped ones.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Set in a process that runs one test.
const INSIDE: &str = "STANDIN_TESTING_INSIDE";

/// Whether this process was started for one test.
pub(crate) fn is_own() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs one test of this program in a process with its own environment, and fails if it fails.
pub(crate) fn run_alone(test: &str, environment: impl FnOnce(&mut Command)) {
    let mut child = Command::new(std::env::current_exe().expect("the test program has a path"));
    child.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    environment(&mut child);
    let output = child.output().expect("the test program can be started");
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains("1 passed"), "in a separate process:\n{printed}");
}

/// Runs the test's body in a child process with these variables and none of the user's ROCm variables.
pub fn isolated(test: &str, variables: &[(&str, &Path)], body: impl FnOnce()) {
    if is_own() {
        return body();
    }
    run_alone(test, |child| {
        for name in ["OPS_ROCM_PATH", "ROCM_PATH", "ROCM_HOME", "HIP_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"] {
            child.env_remove(name);
        }
        child.envs(variables.iter().copied());
    });
}

/// Reports that the test was skipped. Written directly to the terminal, past the capture of test output.
pub fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

/// Reports that a test was skipped because `lacks`; in CI that is a failure.
pub(crate) fn skip_outside_ci(test: &str, lacks: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test}: {lacks}");
    skip(&format!("{test}: {lacks}"));
}

/// Whether a program can be started. If not, the test that needs it is skipped; in CI that is a failure.
pub fn has_program(test: &str, program: &str) -> bool {
    // Debian's awk has no `--version`: that it ends in an error is as good.
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skip_outside_ci(test, &format!("{program} cannot be started"));
    }
    found
}
