//! `cargo xtask targets`: writes what is generated from the table of gfx targets, `kernels/src/target.rs`.
//!
//! That is the table in `docs/ahead-of-time.md`, and which devices a generic target's code runs on in the stand-in.
use crate::page;
use ops_kernels::target::{self, TARGETS};
use std::fmt::Write as _;
use std::path::PathBuf;

const BEGIN: &str = "<!-- made by `cargo xtask targets` from kernels/src/target.rs -->";

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("targets: no option `{unknown}`; there are none"));
    }
    generated()?.iter().try_for_each(|(path, text)| page::write(path, text))
}

/// The generated files and what they should hold.
fn generated() -> Result<[(PathBuf, String); 2], String> {
    let page = page::root().join("docs/ahead-of-time.md");
    let header = page::root().join("standin/src/core/generic_targets.h");
    let text = page::with_part(&page, BEGIN, &document())?;
    Ok([(page, text), (header, standin_header())])
}

fn document() -> String {
    let mut out = String::from(
        "| target | for example | runs code for | wave | matrix units | products of bytes | clang | ROCm | default |\n\
         |---|---|---|---:|---|---|---:|---|---|\n",
    );
    for target in TARGETS {
        let covered: Vec<&str> = target.covers().map(|device| device.name).collect();
        let cells = [
            target.name.to_owned(),
            if target.is_generic() { covered.join(", ") } else { target.product.to_owned() },
            target.generic.unwrap_or_default().to_owned(),
            target.wave.to_string(),
            target.matrix.map_or("", |matrix| matrix.name()).to_owned(),
            target.dot4.map_or(String::new(), |dot4| format!("`{}`", dot4.name())),
            target.clang.to_string(),
            target.since.map_or(String::new(), |(major, minor)| format!("{major}.{minor}")),
            if target::recorded().contains(&target.name) { "yes" } else { "" }.to_owned(),
        ];
        out += "|";
        cells
            .iter()
            .for_each(|cell| out += &if cell.is_empty() { " |".into() } else { format!(" {cell} |") });
        out += "\n";
    }
    out
}

fn standin_header() -> String {
    let mut out = String::from(
        "// Made by `cargo xtask targets` from kernels/src/target.rs, which follows LLVM's \"User Guide for AMDGPU Backend\".\n\
         #pragma once\n\n\
         #include <utility>\n\n\
         namespace standin {\n\n\
         // Generic targets and the devices that run their code.\n\
         constexpr std::pair<const char*, const char*> generic_targets[] = {\n",
    );
    for generic in TARGETS.iter().filter(|target| target.is_generic()) {
        let devices = generic.covers().fold(String::new(), |list, target| list + target.name + " ");
        // Writing to a String cannot fail.
        let _ = writeln!(out, "    {{\"{}\", \"{devices}\"}},", generic.name);
    }
    out + "};\n\n}  // namespace standin\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_current() {
        for (path, text) in generated().unwrap() {
            let current = page::read(&path).unwrap() == text;
            assert!(current, "{} is not current: run `cargo xtask targets`", path.display());
        }
    }

    #[test]
    fn the_recorded_registers_are_of_the_recorded_targets() {
        let table = page::read(&page::root().join("kernels/resources.tsv")).unwrap();
        let columns: Vec<&str> = table.lines().nth(1).unwrap().split('\t').skip(3).collect();
        assert_eq!(columns, target::recorded(), "run `cargo xtask kernels --record`");
    }
}
