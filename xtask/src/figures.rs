//! `cargo xtask figures`: draws the figures of the book, from the crates and from tables in `docs`.
mod crates;
mod formats;
mod path;
mod ratios;
mod roofline;
mod rows;
mod sizes;
mod svg;
mod table;

use crate::page::{root, write};
use std::path::PathBuf;

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("figures: no option `{unknown}`; there are none"));
    }
    figures()?.iter().try_for_each(|(path, text)| write(path, text))
}

/// The files and what they should hold.
fn figures() -> Result<Vec<(PathBuf, String)>, String> {
    let docs = root().join("docs");
    Ok(vec![
        (docs.join("figures/crates.svg"), crates::figure()?),
        (docs.join("figures/call.svg"), path::figure()),
        (docs.join("figures/formats.svg"), formats::figure()?),
        (docs.join("figures/roofline.svg"), roofline::figure()?),
        (docs.join("figures/rows.svg"), rows::figure()?),
        (docs.join("figures/ratios.svg"), ratios::figure()?),
        (docs.join("figures/sizes.svg"), sizes::figure()?),
    ])
}

#[cfg(test)]
mod tests {
    #[test]
    fn figures_are_current() {
        for (path, text) in super::figures().unwrap() {
            let current = crate::page::read(&path).is_ok_and(|found| found == text);
            assert!(current, "{} is not current: run `cargo xtask figures`", path.display());
        }
    }
}
