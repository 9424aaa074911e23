//! The checks of `tools/ci/release.sh`, on an archive of this build's program: it needs this machine's C library and has no kernels.
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
