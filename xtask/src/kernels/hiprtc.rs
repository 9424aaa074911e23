//! `cargo xtask kernels --hiprtc DIR`: the figures of code objects compiled by hipRTC, which users without
//! embedded kernels get.
//!
//! `tools/lab/hiprtc-registers.sh` makes the code objects, `DIR/NAME/GFX/UNIT.hsaco`; `DIR/NAME/compiler.txt`
//! names the compiler, as in `6.4: hipRTC 6.4.3, LLVM 21.1.8`. `--record` writes
//! `kernels/resources-hiprtc.tsv`; with `--family`, it writes the rows of these families and keeps all
//! others. This runs by hand, not in CI, so the table also records from which sources each family was
//! compiled: `--document` leaves out kernels of families that have changed since.
use super::compile::in_parallel;
use super::figures::{Figures, Measured};
use super::fingerprint::fingerprint;
use super::record::{Record, Table};
use super::{Tools, disassembly, metadata};
use crate::page::{self, root};
use ops_kernels::source::Family;
use ops_kernels::target::{TARGETS, recorded_with_hiprtc};
use ops_kernels::{GfxTarget, instances};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Code objects of one compiler.
struct Compiler {
    /// Distinguishes its columns, such as `6.4`.
    label: String,
    version: String,
    folder: PathBuf,
}

/// The code objects of a target from one compiler. `column` is the target and the compiler's label.
struct Objects {
    paths: Vec<PathBuf>,
    gfx: String,
    column: String,
}

/// Runs the command.
pub(super) fn main(folder: &Path, families: &[Family], tools: &Tools, rewrite: bool) -> Result<(), String> {
    let compilers = compilers(folder)?;
    let objects = objects(&compilers)?;
    let columns: Vec<&str> = objects.iter().map(|o| o.column.as_str()).collect();
    let measured = measure(&objects, tools)?;
    let faults = faults(&measured, families, &columns);
    if !faults.is_empty() {
        return Err(format!(
            "the code objects were not compiled from these sources:\n  {}",
            faults.join("\n  ")
        ));
    }
    let before = if families.len() == Family::ALL.len() { String::new() } else { page::read(&path())? };
    let text = render(&measured, families, &first_line(&compilers), &columns, &before)?;
    print!("{}", worse_than_clang(&Table::parse(&text, 1)?)?);
    if !rewrite {
        return Ok(());
    }
    let missing: Vec<String> = recorded_with_hiprtc()
        .flat_map(|target| compilers.iter().map(move |c| column(target.name, &c.label)))
        .filter(|wanted| !columns.contains(&wanted.as_str()))
        .collect();
    if !missing.is_empty() {
        return Err(format!(
            "not recorded: {} has no code objects of {}",
            folder.display(),
            missing.join(", ")
        ));
    }
    page::write(&path(), &text)
}

/// The committed table.
pub(super) fn path() -> PathBuf {
    root().join("kernels/resources-hiprtc.tsv")
}

fn column(gfx: &str, label: &str) -> String {
    format!("{gfx} {label}")
}

fn target_of(column: &str) -> &str {
    column.split(' ').next().unwrap_or_default()
}

fn compilers(folder: &Path) -> Result<Vec<Compiler>, String> {
    let mut out = Vec::new();
    for folder in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        let file = folder.join("compiler.txt");
        let text = page::read(&file)?;
        let (label, version) = text
            .trim()
            .split_once(": ")
            .ok_or_else(|| format!("{}: expected LABEL: VERSION", file.display()))?;
        out.push(Compiler { label: label.to_owned(), version: version.to_owned(), folder });
    }
    out.sort_by(|a, b| a.label.cmp(&b.label));
    if out.is_empty() { Err(format!("{}: no code objects", folder.display())) } else { Ok(out) }
}

/// All code objects, by target in the order of the table, then by compiler.
fn objects(compilers: &[Compiler]) -> Result<Vec<Objects>, String> {
    let mut out = Vec::new();
    for target in TARGETS {
        for compiler in compilers {
            let folder = compiler.folder.join(target.name);
            if !folder.is_dir() {
                continue;
            }
            let mut paths = entries(&folder)?;
            paths.retain(|path| path.extension().is_some_and(|e| e == "hsaco"));
            let (gfx, column) = (target.name.to_owned(), column(target.name, &compiler.label));
            out.push(Objects { paths, gfx, column });
        }
    }
    Ok(out)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read =
        std::fs::read_dir(folder).and_then(|all| all.map(|e| Ok(e?.path())).collect::<Result<Vec<_>, _>>());
    let mut paths = read.map_err(|e| format!("{}: {e}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

fn measure(objects: &[Objects], tools: &Tools) -> Result<Measured, String> {
    let mut measured = Measured::new();
    // A target that runs none of the families' kernels has no objects.
    let objects: Vec<&Objects> = objects.iter().filter(|object| !object.paths.is_empty()).collect();
    in_parallel(
        &objects,
        |object| {
            let mut kernels = metadata::read(&tools.readelf, &object.paths, &object.gfx)?;
            let counts = disassembly::instructions(&tools.objdump, &object.paths)?;
            for (kernel, f) in &mut kernels {
                let found =
                    counts.get(kernel).ok_or_else(|| format!("{kernel} is not in the disassembly"))?;
                (f.flat, f.instructions) = (found.flat, found.all);
            }
            Ok(kernels)
        },
        |object, kernels: Vec<(String, Figures)>| {
            for (kernel, f) in kernels {
                measured.entry(kernel).or_default().insert(object.column.clone(), f);
            }
        },
    )?;
    Ok(measured)
}

/// Kernels that are missing, or whose LDS size differs from the table of instances.
fn faults(measured: &Measured, families: &[Family], columns: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for column in columns {
        let gfx = target_of(column);
        for k in instances().iter().filter(|k| families.contains(&k.family) && k.runs_on(gfx)) {
            match measured.get(&k.symbol).and_then(|m| m.get(*column)) {
                None => out.push(format!("{} for {column}: not in a code object", k.symbol)),
                Some(f) if f.lds != k.lds => {
                    out.push(format!(
                        "{} for {column}: {} bytes of LDS, expected {}",
                        k.symbol, f.lds, k.lds
                    ));
                }
                Some(_) => {}
            }
        }
    }
    out
}

/// A table's first line, which names its compilers.
fn first_line(compilers: &[Compiler]) -> String {
    let versions: Vec<&str> = compilers.iter().map(|c| c.version.as_str()).collect();
    format!("# {}; cells: VGPRs/occupancy in waves per SIMD, and flaws", versions.join("; "))
}

/// Writes the table. Families that were not measured keep their rows and source marks from the table
/// `before`.
fn render(
    measured: &Measured,
    families: &[Family],
    compilers: &str,
    columns: &[&str],
    before: &str,
) -> Result<String, String> {
    let names = format!("kernel\t{}", columns.join("\t"));
    let same = [compilers, &names].iter().all(|line| before.lines().any(|l| l == *line));
    if families.len() < Family::ALL.len() && !same {
        return Err(
            "the table has other compilers or targets, so every family must be recorded: omit --family"
                .into(),
        );
    }
    let marks = source_marks(before);
    let source = |family: &Family| {
        let now = families.contains(family).then(|| fingerprint(*family));
        let mark = now.or_else(|| marks.get(family.name()).map(|mark| (*mark).to_owned()))?;
        Some(format!("{} {mark}", family.name()))
    };
    let sources: Vec<String> = Family::ALL.iter().filter_map(source).collect();
    let rows: HashMap<&str, &str> =
        before.lines().filter_map(|line| Some((line.split('\t').next()?, line))).collect();
    let empty = BTreeMap::new();
    let mut out = format!("{compilers}\n# sources: {}\n{names}\n", sources.join(", "));
    for k in instances() {
        if !families.contains(&k.family) {
            out.extend(rows.get(k.symbol.as_str()).iter().flat_map(|line| [line, "\n"]));
            continue;
        }
        let by_column = measured.get(&k.symbol).unwrap_or(&empty);
        let of = |column: &&str| {
            by_column.get(*column).map_or("-".into(), |f| cell(f, fewest_instructions(by_column, column)))
        };
        let cells: Vec<String> = columns.iter().map(of).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}\t{}", k.symbol, cells.join("\t"));
    }
    Ok(out)
}

/// The source marks in a table, by family.
fn source_marks(table: &str) -> HashMap<&str, &str> {
    let sources = table.lines().find_map(|l| l.strip_prefix("# sources: ")).unwrap_or_default();
    sources.split(", ").filter_map(|source| source.split_once(' ')).collect()
}

/// A kernel is suspect if it has this many times the instructions that another compiler generates for it.
/// LLVM 22 once generated 4.6 times as many: it compared an index of unknown value with every possible one.
const SUSPECT: f64 = 1.5;

/// The figures of a kernel, whose shortest code for this target has `fewest` instructions.
fn cell(f: &Figures, fewest: u32) -> String {
    let times = f64::from(f.instructions) / f64::from(fewest.max(1));
    let longer = (times > SUSPECT).then(|| format!("{times:.1} times another compiler's instructions"));
    let flaws = [Some(f.flaws()).filter(|flaws| !flaws.is_empty()), longer];
    let flaws: Vec<String> = flaws.into_iter().flatten().collect();
    format!("{}/{} {}", f.vgprs, f.occupancy, flaws.join(", ")).trim_end().to_owned()
}

/// The smallest number of instructions of a kernel among the compilers for a column's target.
fn fewest_instructions(by_column: &BTreeMap<String, Figures>, column: &str) -> u32 {
    let same = by_column.iter().filter(|(other, _)| target_of(other) == target_of(column));
    same.map(|(_, f)| f.instructions).min().unwrap_or_default()
}

/// Whether a committed table was recorded from the current code of a family.
pub(super) fn is_current(table: &str, family: Family) -> bool {
    source_marks(table).get(family.name()).is_some_and(|mark| *mark == fingerprint(family))
}

/// The waves per SIMD of a kernel with clang, and the waves and flaws with each compiler of hipRTC's table,
/// for one target.
pub(super) struct Compared<'t> {
    pub(super) clang: u32,
    pub(super) hiprtc: Vec<(u32, &'t str)>,
}

/// The targets of hipRTC's table.
pub(super) fn targets(hiprtc: &Table) -> Vec<&str> {
    let mut out: Vec<&str> = hiprtc.columns.iter().filter_map(|c| Some(c.split_once(' ')?.0)).collect();
    out.dedup();
    out
}

/// Compares a kernel's figures; `None` if one of the tables has none.
pub(super) fn compare<'t>(
    kernel: &str,
    gfx: &str,
    clang: &[Table; 2],
    hiprtc: &'t Table,
) -> Option<Compared<'t>> {
    let clang = clang.iter().find_map(|table| table.cell(kernel, gfx))?.rsplit('/').next()?.parse().ok()?;
    let row = hiprtc.row(kernel)?;
    let of_target = |column: &str| column.split_once(' ').is_some_and(|(target, _)| target == gfx);
    let cells = hiprtc.columns.iter().zip(row).filter(|(column, _)| of_target(column));
    let waves = |(_, cell): (&String, &'t String)| {
        let (figures, flaws) = cell.split_once(' ').unwrap_or((cell, ""));
        Some((figures.split_once('/')?.1.parse().ok()?, flaws))
    };
    Some(Compared { clang, hiprtc: cells.map(waves).collect::<Option<_>>()? })
}

/// The tables of clang's figures.
pub(super) fn clang_tables() -> Result<[Table; 2], String> {
    let read = |record: Record| Table::parse(&page::read(&record.path())?, 3);
    Ok([read(Record::standard())?, read(Record::newer_clang())?])
}

/// A line for each kernel that has flaws, or fewer waves than with clang.
fn worse_than_clang(hiprtc: &Table) -> Result<String, String> {
    let clang = clang_tables()?;
    let mut out = String::new();
    for gfx in targets(hiprtc) {
        let known = GfxTarget::find(gfx).is_some_and(|target| target.recorded);
        for k in instances().iter().filter(|k| known && k.runs_on(gfx)) {
            let Some(c) = compare(&k.symbol, gfx, &clang, hiprtc) else { continue };
            if c.hiprtc.iter().any(|(waves, flaws)| *waves < c.clang || !flaws.is_empty()) {
                let found: Vec<String> = c
                    .hiprtc
                    .iter()
                    .map(|(waves, flaws)| format!("{waves} {flaws}").trim().to_owned())
                    .collect();
                let _ = writeln!(
                    out,
                    "{gfx} {}: {} waves with clang, {}",
                    k.symbol,
                    c.clang,
                    found.join(" and ")
                );
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str, leading: usize) -> Table {
        Table::parse(text, leading).unwrap()
    }

    #[test]
    fn waves_are_compared_by_target_and_compiler() {
        let clang = [
            table("# clang 19\nkernel\tlds\tscratch\tgfx90a\tgfx1100\nsigmoid_f16\t0\t0\t9/9/8\t9/9/16\n", 3),
            table("# clang 21\nkernel\tlds\tscratch\tgfx950\nsigmoid_f16\t0\t0\t9/9/7\n", 3),
        ];
        let hiprtc = "# hipRTC\n# sources: unary 0\nkernel\tgfx1100 6.4\tgfx1100 7.2\tgfx950 6.4\n\
                      sigmoid_f16\t9/12\t9/16 4 bytes of scratch\t9/7\nsigmoid_f32\t-\t9/16\t9/7\n";
        let hiprtc = table(hiprtc, 1);
        assert_eq!(targets(&hiprtc), ["gfx1100", "gfx950"]);
        let found = compare("sigmoid_f16", "gfx1100", &clang, &hiprtc).unwrap();
        assert_eq!((found.clang, &found.hiprtc[..]), (16, &[(12, ""), (16, "4 bytes of scratch")][..]));
        assert_eq!(compare("sigmoid_f16", "gfx950", &clang, &hiprtc).unwrap().clang, 7);
        assert!(compare("sigmoid_f32", "gfx1100", &clang, &hiprtc).is_none());
    }

    #[test]
    fn code_that_is_much_longer_than_another_compilers_is_a_flaw() {
        let figures = |instructions| Figures { vgprs: 9, occupancy: 8, instructions, ..Figures::default() };
        let of = |column: &str, instructions| (column.to_owned(), figures(instructions));
        let all = [of("gfx1100 6.4", 1000), of("gfx1100 7.2", 4600), of("gfx1101 6.4", 100)];
        let by_column = BTreeMap::from(all);
        let cell = |column| cell(&by_column[column], fewest_instructions(&by_column, column));
        assert_eq!(cell("gfx1100 6.4"), "9/8");
        assert_eq!(cell("gfx1100 7.2"), "9/8 4.6 times another compiler's instructions");
        assert_eq!(cell("gfx1101 6.4"), "9/8");
    }

    #[test]
    fn a_table_is_current_as_long_as_the_code_is() {
        let text = render(&Measured::new(), Family::ALL, "# hipRTC", &[], "").unwrap();
        assert!(Family::ALL.iter().all(|&family| is_current(&text, family)));
        assert!(!is_current(&text.replace(&fingerprint(Family::Norm), "0"), Family::Norm));
        assert_ne!(fingerprint(Family::Norm), fingerprint(Family::Softmax));
    }

    #[test]
    fn a_record_of_one_family_keeps_the_others_rows_and_sources() {
        let columns = ["gfx1100 7.2"];
        let whole = render(&Measured::new(), Family::ALL, "# hipRTC", &columns, "").unwrap();
        let old =
            whole.replace(&format!("norm {}", fingerprint(Family::Norm)), "norm 0").replace("\t-", "\t9/16");
        let text = render(&Measured::new(), &[Family::Softmax], "# hipRTC", &columns, &old).unwrap();
        assert!(!is_current(&text, Family::Norm) && is_current(&text, Family::Softmax));
        let table = Table::parse(&text, 1).unwrap();
        for k in instances() {
            let cell = if k.family == Family::Softmax { "-" } else { "9/16" };
            assert_eq!(table.cell(&k.symbol, columns[0]), Some(cell), "{}", k.symbol);
        }
        assert!(render(&Measured::new(), &[Family::Softmax], "# hipRTC", &["gfx1100 8"], &old).is_err());
    }
}
