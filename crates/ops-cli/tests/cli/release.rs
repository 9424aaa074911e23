//! The checks of `tools/ci/release.sh`, on an archive of this build's program: it needs this machine's C library and has no kernels.
//! What `tools/ci/publish.sh` refuses before it asks crates.io or builds anything.
use super::scratch;
use standin_testing::has_program;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the script, and returns what it prints and whether it succeeded.
fn release(arguments: &[&str]) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/ci/release.sh");
    let output =
        Command::new(script).args(arguments).env("OPS_RELEASE_XZ", "-0").output().expect("the script runs");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn an_archive_is_checked() {
    if !["xz", "objdump", "strip", "sha256sum"].iter().all(|name| has_program("an_archive_is_checked", name))
    {
        return;
    }
    let folder = scratch("release");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (packed, text) = release(&["--pack", env!("CARGO_BIN_EXE_ops"), "--out", folder.to_str().unwrap()]);
    assert!(packed, "{text}");
    let archive = text.lines().last().unwrap().to_owned();
    let checked = |options: &[&str]| release(&[&["--check", &archive], options].concat());

    let (right, text) = checked(&["--glibc", "99", "--targets", ""]);
    assert!(right && text.contains("in an empty environment: ops check ends with"), "{text}");
    let (right, text) = checked(&["--glibc", "2.2"]);
    assert!(!right && text.contains("needs glibc 2."), "{text}");
    let (right, text) = checked(&["--glibc", "99", "--targets", "gfx1100"]);
    assert!(!right && text.contains("embedded targets: none; wanted: gfx1100"), "{text}");

    let whole = fs::read(&archive).unwrap();
    fs::write(&archive, &whole[..whole.len() - 1]).unwrap();
    let (right, text) = checked(&[]);
    assert!(!right && text.contains("does not have the checksum"), "{text}");
    fs::File::create(&archive).unwrap().set_len(41 << 20).unwrap();
    let (right, text) = checked(&[]);
    assert!(!right && text.contains("the limit is 40 MiB"), "{text}");
    fs::remove_dir_all(&folder).unwrap();
}

/// A repository of one crate, in which a release of version 0.2.0 is prepared.
fn prepared(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder.join("one")).unwrap();
    fs::create_dir_all(folder.join("tools/ci")).unwrap();
    let workspace = "[workspace.package]\nversion = \"0.2.0\"\n\n[workspace.dependencies]\n\
        one = { path = \"one\", version = \"0.2.0\" }\n\n[package]\nname = \"two\"\nversion.workspace = true\n";
    write(folder, "Cargo.toml", workspace);
    write(folder, "one/Cargo.toml", "[package]\nname = \"one\"\nversion.workspace = true\n");
    write(folder, "CHANGELOG.md", "## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n- New.\n");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/ci/publish.sh");
    fs::copy(script, folder.join("tools/ci/publish.sh")).unwrap();
    git(folder, &["init", "--quiet"]);
    commit(folder);
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

fn git(folder: &Path, arguments: &[&str]) {
    let user = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"];
    let status =
        Command::new("git").args(user).args(arguments).current_dir(folder).status().expect("git runs");
    assert!(status.success(), "git {arguments:?}: {status}");
}

fn commit(folder: &Path) {
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message", "test"]);
}

#[test]
fn a_release_that_is_not_prepared_is_refused() {
    let test = "a_release_that_is_not_prepared_is_refused";
    if !["git", "awk"].iter().all(|name| has_program(test, name)) {
        return;
    }
    let folder = scratch("publish");
    let publish = |arguments: &[&str]| {
        // No proxy listens there, so the first request to crates.io ends the script.
        let mut script = Command::new("bash");
        script.arg("tools/ci/publish.sh").args(arguments).current_dir(&folder);
        let output = script.env("https_proxy", "http://127.0.0.1:1").output();
        let output = output.expect("the script runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    prepared(&folder);
    let (code, text) = publish(&["--help"]);
    assert!(code == Some(0) && text.contains("--publish") && text.contains("cargo semver-checks"), "{text}");
    assert_eq!(publish(&["--publsh"]).0, Some(2));

    let (code, text) = publish(&["--publish"]);
    assert!(
        code == Some(1) && text.contains("3. CHANGELOG.md has 1 lines on 0.2.0; the tag v0.2.0 is free"),
        "{text}"
    );
    assert!(text.contains("cannot ask crates.io for two"), "{text}");

    let refused = |reason: &str| {
        commit(&folder);
        let (code, text) = publish(&["--publish"]);
        assert!(code == Some(1) && text.contains(reason) && !text.contains("crates.io for"), "{text}");
        prepared(&folder);
    };
    write(
        &folder,
        "CHANGELOG.md",
        "## [Unreleased]\n\n- New.\n\n## [0.2.0] - 2026-12-01\n\n## [0.1.0] - 2026-11-01\n\n- Old.\n",
    );
    refused("no section `## [0.2.0] - DATE` with content");
    write(&folder, "one/Cargo.toml", "[package]\nname = \"one\"\nversion = \"0.2.0\"\n");
    refused("one/Cargo.toml: got a version of its own");
    let workspace = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    write(
        &folder,
        "Cargo.toml",
        &workspace.replace("\"one\", version = \"0.2.0\"", "\"one\", version = \"0.1.0\""),
    );
    refused("asks for another one of:\none = { path = \"one\", version = \"0.1.0\" }");
    git(&folder, &["tag", "v0.2.0"]);
    write(&folder, "later", "");
    refused("the tag v0.2.0 is on another commit");
    write(&folder, "untracked", "");
    let (code, text) = publish(&[]);
    assert!(
        code == Some(1) && text.contains("the working tree has changes") && text.contains("?? untracked"),
        "{text}"
    );
    fs::remove_dir_all(&folder).unwrap();
}
