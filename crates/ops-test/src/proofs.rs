//! Writes counts of what tests have shown, for `cargo xtask proofs`.
use std::path::Path;

/// Notes that a test has shown something `count` times, in `proofs` beside `folder`, which is `env!("CARGO_TARGET_TMPDIR")`.
///
/// A test that runs only some of its cases, because of a variable, must write nothing or use another name.
///
/// # Panics
///
/// If the file cannot be written.
pub fn write(folder: &str, name: &str, count: usize) {
    write_lines(folder, name, &count.to_string());
}

/// The same for a list of names, one per line.
///
/// # Panics
///
/// If the file cannot be written.
pub fn write_lines(folder: &str, name: &str, lines: &str) {
    let folder = Path::new(folder).with_file_name("proofs");
    let file = folder.join(name.replace(['/', ' '], "-"));
    let written =
        std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, format!("{name}\n{lines}\n")));
    written.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}
