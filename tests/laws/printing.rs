//! Programs end quietly when nobody reads their output any more.
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Rust files in a folder and the folders in it.
pub(crate) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// `println!` and `eprintln!` panic when the reader has exited; `ops_command` has what does not.
#[test]
fn commands_and_examples_print_without_macros_that_panic() {
    let (root, mut files) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), Vec::new());
    for folder in ["examples", "crates/ops-cli/src", "crates/ops-command/src"] {
        sources(&root.join(folder), &mut files);
    }
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let prints = |line: &&str| line.contains("println!(") || line.contains("print!(");
        found.extend(code.filter(prints).map(|line| format!("{}: {}", file.display(), line.trim())));
    }
    assert_eq!(found, [""; 0]);
}

/// Runs the tutorials that have been built. `cargo test` of the workspace builds them before any test runs; after `cargo test -p`, they
/// may be missing or older than their sources.
#[test]
fn tutorials_end_quietly_without_a_reader() {
    let built = std::env::current_exe().unwrap();
    let examples = built.parent().and_then(Path::parent).unwrap().join("examples");
    for name in ["quickstart", "checked", "custom_op", "third_backend"] {
        let program = examples.join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../examples/{name}.rs"));
        let modified = |path: &Path| path.metadata().and_then(|about| about.modified());
        if modified(&program).map_or(true, |built| built < modified(&source).unwrap()) {
            continue;
        }
        let mut child = Command::new(program).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""), "{name}");
    }
}
