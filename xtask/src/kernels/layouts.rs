//! The memory layouts of the kernels' argument structs, as the compiler reports them.
use ops_kernels::{Family, instances, source};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A struct of the sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Layout {
    pub(super) size: usize,
    pub(super) align: usize,
    /// Fields; those of nested structs are named by path, such as `x.data`.
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Field {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) offset: usize,
}

/// The layout of every argument struct, by name. A size that differs from the Rust mirror's is an error.
pub(super) fn of_all(
    clang: &str,
    targets: &[String],
    folder: &Path,
) -> Result<BTreeMap<String, Layout>, String> {
    let mut all = BTreeMap::new();
    for &family in Family::ALL {
        let with = |target: &&String| family.runs_on(target);
        let Some(target) = targets.iter().find(with) else { continue };
        let input = folder.join(target).join(format!("{}.hip", family.name()));
        let flags = source::clang_options(target).ok_or_else(|| format!("{target}: unknown target"))?;
        let out = Command::new(clang)
            .args(flags)
            .args(["-w", "-fsyntax-only", "-Xclang", "-fdump-record-layouts-complete"])
            .arg(&input)
            .output()
            .map_err(|e| format!("{clang}: {e}"))?;
        if !out.status.success() {
            return Err(format!("{}: {}", input.display(), String::from_utf8_lossy(&out.stderr)));
        }
        let text = String::from_utf8_lossy(&out.stdout);
        let found = read(&text);
        for k in instances().iter().filter(|k| k.family == family) {
            let layout = found.get(k.args).ok_or_else(|| format!("{}: no struct {}", k.symbol, k.args))?;
            if layout.size != k.args_size {
                return Err(format!(
                    "{}: {} has {} bytes in the source and {} in Rust",
                    k.symbol, k.args, layout.size, k.args_size
                ));
            }
            all.insert(k.args.to_owned(), layout.clone());
        }
    }
    Ok(all)
}

/// Parses the structs in clang's dump, without their namespace.
fn read(dump: &str) -> BTreeMap<String, Layout> {
    let mut all = BTreeMap::new();
    for record in dump.split("*** Dumping AST Record Layout").skip(1) {
        let mut name = None;
        let mut layout = Layout::default();
        let mut path: Vec<&str> = Vec::new();
        let mut pointer_depth = usize::MAX;
        for line in record.lines() {
            let Some((offset, text)) = line.split_once(" | ") else { continue };
            let Ok(offset) = offset.trim().parse::<usize>() else {
                if let Some(size) = number(text, "[sizeof=") {
                    layout.size = size;
                    layout.align = number(text, " align=").unwrap_or_default();
                }
                continue;
            };
            let depth = text.chars().take_while(|c| *c == ' ').count() / 2;
            let text = text.trim();
            if depth == 0 {
                name = text.strip_prefix("struct ops::").map(str::to_owned);
                continue;
            }
            let Some((kind, field)) = text.rsplit_once(' ') else { continue };
            path.truncate(depth - 1);
            path.push(field);
            if depth > pointer_depth {
                continue; // What an `Address` consists of: the pointer is already listed.
            }
            pointer_depth = usize::MAX;
            // The fields of a nested struct follow, so the struct itself is not a field.
            if let Some(to) = kind.strip_prefix("struct ops::Address<").and_then(|k| k.strip_suffix('>')) {
                let name = path.join(".");
                layout.fields.push(Field { name, kind: format!("{to} *"), offset });
                pointer_depth = depth;
            } else if !kind.starts_with("struct ") {
                layout.fields.push(Field { name: path.join("."), kind: kind.to_owned(), offset });
            }
        }
        if let Some(name) = name {
            all.insert(name, layout);
        }
    }
    all
}

fn number(text: &str, key: &str) -> Option<usize> {
    let (_, rest) = text.split_once(key)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_structs_inside_have_paths() {
        let dump = "\n*** Dumping AST Record Layout\n         0 | struct ops::Args\n         0 |   struct ops::Operand x\n\
                    \x20        0 |     struct ops::Address<void> data\n\
                    \x20        0 |       __attribute__((address_space(1))) void * at\n\
                    \x20        8 |     i64[6] stride\n        56 |   struct ops::Address<const void> weight\n\
                    \x20       56 |     const __attribute__((address_space(1))) void * at\n        64 |   u32 op\n           | [sizeof=72, dsize=72, align=8,\n           |  nvsize=72, nvalign=8]\n";
        let layout = &read(dump)["Args"];
        assert_eq!((layout.size, layout.align), (72, 8));
        let fields: Vec<_> =
            layout.fields.iter().map(|f| (f.name.as_str(), f.kind.as_str(), f.offset)).collect();
        assert_eq!(
            fields,
            [
                ("x.data", "void *", 0),
                ("x.stride", "i64[6]", 8),
                ("weight", "const void *", 56),
                ("op", "u32", 64)
            ]
        );
    }
}
