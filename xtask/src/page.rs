//! Parts of pages that are generated.
use std::path::{Path, PathBuf};

/// The end of a generated part.
const END: &str = "<!-- end -->";

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes a file and says so.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("written: {}", path.display());
    Ok(())
}

/// A page with a new part between the line `begin` and the end mark after it.
pub(crate) fn with_part(page: &Path, begin: &str, part: &str) -> Result<String, String> {
    let text = read(page)?;
    let marks = text.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = marks.ok_or_else(|| format!("{}: no lines {begin} and {END}", page.display()))?;
    Ok(format!("{before}{begin}\n\n{part}\n{END}{after}"))
}
