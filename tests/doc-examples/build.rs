//! Extracts the Rust examples of the documentation into one module. Their tags are `rust`, `no_run`, `compile_fail` and `ignore`.
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where examples are. A block without a language is Rust in sources, but not in pages.
const ROOTS: [&str; 8] = [
    "src",
    "crates/ops-core/src",
    "crates/ops-cpu/src",
    "crates/ops-gguf/src",
    "crates/ops-models/src",
    "crates/ops-rocm/src",
    "docs",
    "README.md",
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut module, mut count) = (String::new(), 0);
    for place in ROOTS {
        println!("cargo:rerun-if-changed={}", root.join(place).display());
        for path in files(&root.join(place)) {
            let text = fs::read_to_string(&path).expect("a text");
            let name: String = path.strip_prefix(&root).expect("a path below the root").display().to_string();
            let name = name.replace(|c: char| !c.is_alphanumeric(), "_");
            for example in examples(&text, path.extension().is_some_and(|ending| ending == "rs")) {
                count += 1;
                module += &example.as_item(&format!("{name}_line_{}", example.line));
            }
        }
    }
    writeln!(module, "const COUNT: usize = {count};").expect("a String takes what is written");
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&folder).join("examples.rs"), module).expect("the folder can be written");
}

/// The sources and pages at or below a path, in order.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.to_owned()];
    };
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    found.retain(|path| {
        path.is_dir() || path.extension().is_some_and(|ending| ending == "rs" || ending == "md")
    });
    found.sort();
    found.iter().flat_map(|path| files(path)).collect()
}

struct Example<'a> {
    line: usize,
    /// What follows the opening fence, such as `rust,no_run`.
    tags: &'a str,
    code: String,
}

fn examples(text: &str, is_source: bool) -> Vec<Example<'_>> {
    let (mut found, mut open, mut is_other) = (Vec::new(), None::<Example<'_>>, false);
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let comment = trimmed.strip_prefix("//!").or_else(|| trimmed.strip_prefix("///"));
        let Some(line) = (if is_source { comment } else { Some(line) }) else { continue };
        let Some(tags) = line.trim_start().strip_prefix("```") else {
            if let Some(example) = &mut open {
                example.code += visible(line);
                example.code.push('\n');
            }
            continue;
        };
        if let Some(example) = open.take() {
            // A program with the bridge to rocm-rs depends on that crate, too.
            found.extend(Some(example).filter(|example| !example.code.contains("rocm_rs::")));
        } else if is_other {
            is_other = false;
        } else if is_rust(tags, is_source) {
            open = Some(Example { line: number + 1, tags, code: String::new() });
        } else {
            is_other = true;
        }
    }
    found
}

/// Whether a block with these tags is Rust that this crate can check.
fn is_rust(tags: &str, is_source: bool) -> bool {
    let first = tags.split(',').next().unwrap_or_default().trim();
    let is_rust = ["rust", "no_run", "compile_fail"].contains(&first) || (first.is_empty() && is_source);
    is_rust && !tags.contains("ignore")
}

/// A line without the sign that hides it from readers.
fn visible(line: &str) -> &str {
    let trimmed = line.trim_start();
    match trimmed.strip_prefix('#') {
        Some("") => "",
        Some(hidden) if hidden.starts_with([' ', '#']) => hidden,
        _ => line,
    }
}

impl Example<'_> {
    fn as_item(&self, name: &str) -> String {
        let Self { tags, code, .. } = self;
        if tags.contains("compile_fail") {
            // rustdoc compiles it, and expects the error that the tags name.
            return format!(
                "#[cfg(doctest)]\n#[doc = {:?}]\nstruct {name};\n",
                format!("```{tags}\n{code}\n```")
            );
        }
        let attribute = if tags.contains("no_run") { "" } else { "#[test]\n" };
        let (items, call) = if code.contains("fn main(") {
            (code.clone(), "main()".to_owned())
        } else if code.trim_end().ends_with("(())") {
            (format!("fn body() -> Result<(), impl std::fmt::Debug> {{\n{code}\n}}"), "body()".to_owned())
        } else {
            (String::new(), format!("{{\n{code}\n}}"))
        };
        format!(
            "mod {name} {{\n{items}\n{attribute}fn example() {{ super::Outcome::expect_success({call}); }}\n}}\n"
        )
    }
}
