//! The steps of `cargo xtask check`.

/// A step: its name, and its command line.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) env: &'static [(&'static str, &'static str)],
    pub(super) command: &'static [&'static str],
    /// What `--all` adds to the command line.
    pub(super) all: &'static [&'static str],
    /// Budget of wall time in seconds, on a slow machine with two cores that also runs the parallel steps. Exceeding it is reported but is
    /// not a failure, because machines differ.
    pub(super) budget: u32,
    /// Skipped by `--quick`.
    pub(super) slow: bool,
    /// The paths that the step checks. If nothing there changed recently, the step may be skipped. Without paths, it never is.
    pub(super) subject: &'static [&'static str],
    pub(super) place: Place,
}

/// Whether a step runs in parallel with others.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    /// Steps of this kind run one after the other.
    InOrder,
    /// It has a separate target folder or builds nothing, so it runs in parallel with those in order and uses processors that they leave
    /// idle.
    Beside,
    /// It measures time, so it runs alone, after all others.
    Alone,
}

const fn step(name: &'static str, budget: u32, command: &'static [&'static str]) -> Step {
    Step { name, env: &[], command, all: &[], budget, slow: false, subject: &[], place: Place::InOrder }
}

const fn slow(name: &'static str, budget: u32, command: &'static [&'static str]) -> Step {
    Step { slow: true, ..step(name, budget, command) }
}

const fn beside(name: &'static str, budget: u32, command: &'static [&'static str]) -> Step {
    Step { place: Place::Beside, ..step(name, budget, command) }
}

const fn alone(name: &'static str, budget: u32, command: &'static [&'static str]) -> Step {
    Step { place: Place::Alone, ..step(name, budget, command) }
}

/// What the sanitizer checks: code with `unsafe`, kernels, and the stand-in.
const UNSAFE: &[&str] = &[
    "kernels",
    "crates/hip-sys",
    "crates/hipblaslt-sys",
    "crates/miopen-sys",
    "crates/rccl-sys",
    "crates/rocblas-sys",
    "crates/ops-rocm",
    "crates/ops-cpu",
    "crates/ops-simd",
    "crates/ops-gguf",
    "standin",
    "tools/ci/sanitizer.sh",
    "tools/ci/sanitizer-rocm.sh",
];

/// Runs the suite on `Cpu`, with the program that `cargo test --workspace` has built.
const SUITE_ON_CPU: &[&str] =
    &["cargo", "test", "--workspace", "--test", "conformance", "--", "suite::both_pass", "--exact"];

/// What the suite by clang checks: kernels, the stand-in's engine, and the suite on it.
const KERNELS_ON_THE_HOST: &[&str] = &[
    "kernels",
    "standin/src/engine",
    "standin/include",
    "standin/testing",
    "crates/ops-rocm/tests/suite_on_standin",
];

/// What the mutants check. They run within `cargo test`; the variable `OPS_TEST_MUTANTS` leaves out most of them.
pub(super) const MUTANTS: Step = Step {
    subject: &[
        "crates/ops-test",
        "crates/ops-core/src/ops",
        "crates/ops-cpu/src/reference",
        "tests/conformance/mutants",
        "tests/conformance/mutants.rs",
    ],
    ..step("mutants", 0, &[])
};

pub(super) const STEPS: &[Step] = &[
    step("test", 1105, &["cargo", "test", "--workspace"]),
    step("format", 10, &["cargo", "fmt", "--all", "--check"]),
    step("size", 5, &["cargo", "xtask", "size"]),
    step("structure", 5, &["cargo", "xtask", "structure"]),
    step("clippy", 90, &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    Step {
        env: &[("RUSTDOCFLAGS", "-D warnings")],
        ..step("docs", 50, &["cargo", "doc", "--workspace", "--no-deps"])
    },
    step("features", 50, &["tools/ci/features.sh"]),
    step("functions", 5, &["tools/ci/list-hip-functions.sh", "--check"]),
    // rocm-rs finds no ROCm where this runs, so nothing is linked.
    Step {
        env: &[("SKIP_BINDGEN", "1")],
        ..step(
            "bridge",
            30,
            &["cargo", "clippy", "-p", "ops-rocm", "--features", "rocm-rs", "--", "-D", "warnings"],
        )
    },
    slow("bridge on the stand-in", 50, &["tools/ci/bridge.sh"]),
    Step {
        env: &[("OPS_SIMD", "avx2"), ("OPS_TEST_ONE_CASE_IN", "8")],
        ..slow("suite with avx2", 20, SUITE_ON_CPU)
    },
    Step {
        env: &[("OPS_SIMD", "scalar"), ("OPS_TEST_ONE_CASE_IN", "8")],
        ..slow("suite without vectors", 40, SUITE_ON_CPU)
    },
    slow("stand-in", 10, &["cargo", "xtask", "standin", "--test"]),
    // Runs a program that `test` has built. Clang compiles with -O3, as hipRTC does.
    Step {
        subject: KERNELS_ON_THE_HOST,
        ..slow(
            "suite by clang",
            150,
            &[
                "cargo",
                "test",
                "--workspace",
                "--test",
                "suite_on_standin",
                "--",
                "--ignored",
                "suite_compiled_by_clang",
            ],
        )
    },
    // Also compiles what `aot` embeds, and leaves it where the build script finds it.
    Step { all: &["--all"], ..slow("kernels", 385, &["cargo", "xtask", "kernels", "--changed"]) },
    Step {
        env: &[("OPS_ROCM_AOT", "gfx942"), ("OPS_ROCM_AOT_OBJECTS", "target/code-objects")],
        // With all of these packages, dependencies have the same features as in `test` and are not rebuilt.
        ..slow(
            "aot",
            50,
            &[
                "cargo",
                "test",
                "-p",
                "ops-rocm",
                "-p",
                "rocm-ops",
                "-p",
                "ops-cli",
                "--features",
                "ops-rocm/aot",
                "--lib",
                "kernels::",
            ],
        )
    },
    // README's first command. It builds the release profile, which `overhead` and `launch` measure.
    step("example generate", 200, &["cargo", "run", "--release", "--example", "generate"]),
    // The others are built with the test profile, because `cargo test` has already built most of their dependencies.
    step(
        "build examples",
        20,
        &[
            "cargo",
            "build",
            "--profile",
            "test",
            "--workspace",
            "--example",
            "quickstart",
            "--example",
            "third_backend",
            "--example",
            "custom_op",
            "--example",
            "logger",
            "--example",
            "checked",
            "--example",
            "batch",
            "--example",
            "embed",
            "--example",
            "replay",
        ],
    ),
    step("example quickstart", 5, &["target/debug/examples/quickstart"]),
    step("example third_backend", 5, &["target/debug/examples/third_backend"]),
    step("example custom_op", 5, &["target/debug/examples/custom_op"]),
    step("example logger", 5, &["target/debug/examples/logger"]),
    step("example checked", 5, &["target/debug/examples/checked"]),
    step("example batch", 5, &["target/debug/examples/batch"]),
    step(
        "example embed",
        5,
        &["target/debug/examples/embed", "tests/data/folders/bert", "Hello world", "Hello"],
    ),
    step("example replay", 20, &["target/debug/examples/replay"]),
    // Has a target folder of its own, with all dependencies.
    slow("packages", 100, &["tools/ci/packages.sh"]),
    slow("threads", 50, &["tools/ci/threads.sh"]),
    Step { subject: UNSAFE, ..slow("sanitizer of the stand-in", 180, &["tools/ci/sanitizer-rocm.sh"]) },
    // Compares what the tests of this run and the two passes of the suite have noted.
    step("proofs", 5, &["cargo", "xtask", "proofs"]),
    // Only mdBook runs.
    beside("book", 10, &["tools/ci/book.sh"]),
    beside("deny", 5, &["cargo", "deny", "check", "licenses", "bans", "sources"]),
    Step { subject: UNSAFE, slow: true, ..beside("sanitizer", 600, &["tools/ci/sanitizer.sh"]) },
    // Takes 330 s of processor time, most of it to build candle, in a target folder of its own.
    Step { slow: true, ..beside("candle", 450, &["tools/ci/candle.sh"]) },
    // Also has a target folder of its own. Installs pytest, NumPy and maturin from PyPI.
    Step { slow: true, ..beside("python", 600, &["tools/ci/python.sh"]) },
    Step { slow: true, ..beside("fuzz", 120, &["fuzz/run.sh", "gguf", "10"]) },
    Step { slow: true, ..beside("fuzz traces", 60, &["fuzz/run.sh", "optrace", "10"]) },
    // The documentation promises a bound on the overhead of a call.
    alone("overhead", 15, &["tools/ci/overhead.sh", "--check"]),
    alone("launch", 20, &["tools/ci/launch.sh", "--check"]),
];

pub(super) fn names() -> String {
    STEPS.iter().map(|s| format!("\n  {}", s.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_budgets_are_within_that_of_the_whole() {
        let in_turn = STEPS.iter().filter(|s| s.place != Place::Beside).map(|s| s.budget);
        assert_eq!(in_turn.sum::<u32>(), 2700);
    }

    /// A filter that selects no test passes.
    #[test]
    fn the_tests_that_steps_name_exist() {
        for (file, test) in [
            ("crates/ops-rocm/tests/suite_on_standin/main.rs", "suite_compiled_by_clang"),
            ("tests/conformance/suite.rs", "both_pass"),
        ] {
            let text = std::fs::read_to_string(crate::page::root().join(file)).unwrap();
            assert!(text.contains(&format!("fn {test}")), "{file}: {test}");
            assert!(STEPS.iter().flat_map(|s| s.command).any(|word| word.ends_with(test)), "{test}");
        }
    }
}
