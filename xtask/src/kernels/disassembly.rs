//! Figures that only the instructions of a code object show: how many there are, and FLAT memory accesses.
//!
//! An access through a pointer of unknown address space is a FLAT instruction. It occupies the counters of
//! global memory and of LDS, so waits on either wait for both, and gfx9 gives it no offset. The kernels know
//! the address space of each of their pointers, so none is needed.
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

/// An LLVM tool that belongs to `clang`: the value of the variable with its name, such as `OBJDUMP`, or the
/// name with the same suffix and in the same folder.
pub(super) fn tool_of(clang: &str, tool: &str) -> String {
    std::env::var(tool.to_uppercase()).unwrap_or_else(|_| match clang.rfind("clang") {
        Some(at) => format!("{}llvm-{tool}{}", &clang[..at], &clang[at + 5..]),
        None => format!("llvm-{tool}"),
    })
}

/// The output of an LLVM tool for code objects.
pub(super) fn run_tool(tool: &str, options: &[&str], objects: &[PathBuf]) -> Result<String, String> {
    let advice = "install it with `apt-get install llvm-19`, or name another in OBJDUMP and READELF";
    let out = Command::new(tool)
        .args(options)
        .args(objects)
        .output()
        .map_err(|e| format!("{tool}: {e}; {advice}"))?;
    if !out.status.success() {
        return Err(format!("{tool}: {}", String::from_utf8_lossy(&out.stderr)));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Instructions of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Instructions {
    pub(super) all: u32,
    /// FLAT loads, stores and atomics.
    pub(super) flat: u32,
}

/// The instructions of each function in code objects.
pub(super) fn instructions(
    objdump: &str,
    objects: &[PathBuf],
) -> Result<HashMap<String, Instructions>, String> {
    let found = count(&run_tool(objdump, &["--disassemble", "--no-show-raw-insn"], objects)?);
    if found.is_empty() {
        return Err(format!("{objdump} finds no function in {objects:?}"));
    }
    Ok(found)
}

fn count(text: &str) -> HashMap<String, Instructions> {
    let mut out = HashMap::new();
    let mut function: Option<&mut Instructions> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split_once(" <")) {
            function = Some(out.entry(name.1.to_owned()).or_default());
        } else if let (Some(found), Some(first)) = (function.as_mut(), line.split_whitespace().next()) {
            let flat = ["flat_load", "flat_store", "flat_atomic"].iter().any(|kind| first.starts_with(kind));
            found.all += 1;
            found.flat += u32::from(flat);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_counted_by_function() {
        let text = "\nDisassembly of section .text:\n\n0000000000001d00 <one>:\n\
                    \tflat_load_b128 v[2:5], v[0:1]                 // 000000001D00:\n\
                    \tglobal_load_b32 v1, v0, s[2:3]\n\tflat_store_dwordx4 v[0:1], v[2:5]\n\
                    \n0000000000001e00 <two>:\n\ts_endpgm\n";
        let (one, two) = (Instructions { all: 3, flat: 2 }, Instructions { all: 1, flat: 0 });
        assert_eq!(count(text), HashMap::from([("one".into(), one), ("two".into(), two)]));
    }

    #[test]
    fn tools_are_the_compilers() {
        assert_eq!(tool_of("/opt/llvm/bin/clang-19", "objdump"), "/opt/llvm/bin/llvm-objdump-19");
        assert_eq!(tool_of("clang", "readelf"), "llvm-readelf");
    }
}
