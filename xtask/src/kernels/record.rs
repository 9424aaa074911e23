//! The committed tables of registers and occupancy.
use super::Options;
use super::figures::{Figures, Measured};
use super::select::AOT;
use crate::page::{self, root};
use ops_kernels::{Family, instances, target};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// A committed table: its file in `kernels/` and the targets that are its columns.
pub(super) struct Record {
    file: &'static str,
    pub(super) targets: Vec<&'static str>,
}

impl Record {
    /// The table of clang 19, compared on every change.
    pub(super) fn standard() -> Record {
        Record { file: "resources.tsv", targets: target::recorded() }
    }

    /// The table of the targets that clang 19 does not know.
    pub(super) fn newer_clang() -> Record {
        Record { file: "resources-newer-clang.tsv", targets: target::recorded_with_newer_clang() }
    }

    /// Whether this is the table of clang 19.
    pub(super) fn is_standard(&self) -> bool {
        self.file == "resources.tsv"
    }

    pub(super) fn path(&self) -> PathBuf {
        root().join("kernels").join(self.file)
    }

    /// Writes the table. Families that were not measured keep their rows. For targets that were not measured,
    /// kernels whose other figures are unchanged keep their cells; new and changed kernels get `-`.
    pub(super) fn write(&self, measured: &Measured, options: &Options, version: &str) -> Result<(), String> {
        let all = options.families.len() == Family::ALL.len() && options.targets.len() == self.targets.len();
        let recorded = if all { String::new() } else { self.recorded_rows(version)? };
        let text = self.render(measured, &options.families, &options.targets, &recorded, version);
        page::write(&self.path(), &text)
    }

    /// The recorded table, for the rows of families that are not compiled in this run.
    fn recorded_rows(&self, version: &str) -> Result<String, String> {
        let text = page::read(&self.path())?;
        if text.lines().next() == Some(&heading(version)) {
            Ok(text)
        } else {
            Err("the table has another compiler or format, so every family must be recorded: omit --family"
                .into())
        }
    }

    /// Renders the table: a line with the compiler, a heading, and a line per kernel. Other families keep their rows from
    /// `recorded`.
    fn render(
        &self,
        measured: &Measured,
        families: &[Family],
        targets: &[String],
        recorded: &str,
        version: &str,
    ) -> String {
        let recorded: BTreeMap<&str, &str> =
            recorded.lines().filter_map(|l| Some((l.split('\t').next()?, l))).collect();
        let is_measured = |target: &str| targets.iter().any(|t| t == target);
        let mut out = heading(version) + "\n";
        out += &format!("kernel\tlds\tscratch\t{}\n", self.targets.join("\t"));
        for k in instances() {
            if !families.contains(&k.family) {
                out.extend(recorded.get(k.symbol.as_str()).iter().flat_map(|line| [line, "\n"]));
                continue;
            }
            let empty = BTreeMap::new();
            let by_target = measured.get(&k.symbol).unwrap_or(&empty);
            let scratch = by_target.values().map(|f| f.scratch).max().unwrap_or_default();
            let cell = |target: &str| by_target.get(target).map_or("-".into(), Figures::cell);
            let before: Vec<&str> =
                recorded.get(k.symbol.as_str()).map_or(vec![], |l| l.split('\t').skip(3).collect());
            let before = |at: usize| before.get(at).copied().unwrap_or("-");
            let numbered = || self.targets.iter().copied().enumerate();
            let as_before = numbered().all(|(at, t)| !is_measured(t) || cell(t) == before(at));
            let cells: Vec<String> = numbered()
                .map(|(at, target)| match is_measured(target) {
                    true => cell(target),
                    false if as_before => before(at).to_owned(),
                    false => "-".to_owned(),
                })
                .collect();
            out += &format!("{}\t{}\t{scratch}\t{}\n", k.symbol, k.lds, cells.join("\t"));
        }
        out
    }

    /// Figures that differ from the recorded table.
    pub(super) fn differences(
        &self,
        measured: &Measured,
        options: &Options,
        version: &str,
    ) -> Result<Vec<String>, String> {
        let text = page::read(&self.path()).map_err(|e| format!("{e}; --record creates it"))?;
        let recorded_with =
            text.lines().next().and_then(|l| l.strip_prefix("# clang ")).and_then(|l| l.split(';').next());
        if recorded_with != Some(version) {
            println!(
                "the table was recorded with clang {}, this is {version}: figures not compared",
                recorded_with.unwrap_or("?")
            );
            return Ok(Vec::new());
        }
        let heading: Vec<&str> = text.lines().nth(1).unwrap_or_default().split('\t').collect();
        let rows: BTreeMap<&str, Vec<&str>> =
            text.lines().skip(2).map(|l| l.split('\t').collect::<Vec<_>>()).map(|r| (r[0], r)).collect();
        let mut out = Vec::new();
        for k in instances().iter().filter(|k| options.families.contains(&k.family)) {
            let Some(row) = rows.get(k.symbol.as_str()) else {
                out.push(format!("{}: not recorded", k.symbol));
                continue;
            };
            // Units for the build script are compiled a type at a time, which changes the registers of a few kernels by one or two.
            // The record is of whole families.
            let by_unit = |target: &String| options.objects.is_some() && target == AOT;
            let compiled = |target: &&String| options.includes(k.family, target) && !by_unit(target);
            for target in options.targets.iter().filter(compiled) {
                let Some(column) = heading.iter().position(|h| h == target) else { continue };
                let recorded = row.get(column).copied().unwrap_or("-");
                let now =
                    measured.get(&k.symbol).and_then(|m| m.get(target)).map_or("-".into(), Figures::cell);
                if recorded != now {
                    out.push(format!("{} on {target}: {now}, recorded {recorded}", k.symbol));
                }
            }
        }
        let gone = rows.keys().filter(|r| ops_kernels::by_symbol(r).is_none());
        out.extend(gone.map(|r| format!("{r}: recorded, but no longer an instance")));
        Ok(out)
    }
}

fn heading(version: &str) -> String {
    format!("# clang {version}; cells: VGPRs/SGPRs/occupancy in waves per SIMD")
}

/// A committed table: its first line, its columns, and their cells by kernel.
pub(super) struct Table {
    pub(super) compiler: String,
    pub(super) columns: Vec<String>,
    cells: HashMap<String, Vec<String>>,
}

impl Table {
    /// Reads a table with `leading` columns before the cells.
    pub(super) fn parse(text: &str, leading: usize) -> Result<Table, String> {
        let mut lines = text.lines();
        let compiler =
            lines.next().and_then(|l| l.strip_prefix("# ")).ok_or("the table does not name a compiler")?;
        let mut lines = lines.filter(|line| !line.starts_with('#'));
        let split = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        let columns = split(lines.next().unwrap_or_default()).into_iter().skip(leading).collect();
        let cells = lines.map(split).map(|mut row| (row.remove(0), row.split_off(leading - 1))).collect();
        Ok(Table { compiler: compiler.to_owned(), columns, cells })
    }

    /// The cells of a kernel, in the order of the columns; `None` if it is not in the table.
    pub(super) fn row(&self, kernel: &str) -> Option<&[String]> {
        self.cells.get(kernel).map(Vec::as_slice)
    }

    /// A kernel's cell in a column.
    pub(super) fn cell(&self, kernel: &str, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|c| c == column)?;
        self.row(kernel)?.get(at).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_one_family_keeps_the_others_rows() {
        let figures = |vgprs| Figures { vgprs, ..Figures::default() };
        let measured = |vgprs| -> Measured {
            let by_target = || BTreeMap::from([("gfx906".to_owned(), figures(vgprs))]);
            instances().iter().map(|k| (k.symbol.clone(), by_target())).collect()
        };
        let record = Record::standard();
        let targets: Vec<String> = record.targets.iter().map(|t| t.to_string()).collect();
        let whole = record.render(&measured(5), Family::ALL, &targets, "", "19");
        let text = record.render(&measured(7), &[Family::Norm], &targets, &whole, "19");
        let row =
            |name: &str| text.lines().find(|l| l.starts_with(name)).unwrap().split('\t').nth(3).unwrap();
        assert_eq!((row("sigmoid_f16"), row("layer_norm_wave_f16_f16")), ("5/0/0", "7/0/0"));
        assert_eq!(text.lines().count(), whole.lines().count());
    }

    #[test]
    fn a_record_of_one_target_keeps_the_cells_of_unchanged_kernels_only() {
        let record = Record::standard();
        let targets: Vec<String> = record.targets.iter().map(|t| t.to_string()).collect();
        let measured = |softmax| -> Measured {
            let figures = |k: &ops_kernels::Instance| Figures {
                vgprs: if k.family == Family::Softmax { softmax } else { 5 },
                ..Figures::default()
            };
            let by_target = |k| targets.iter().map(|t| (t.clone(), figures(k))).collect();
            instances().iter().map(|k| (k.symbol.clone(), by_target(k))).collect()
        };
        let whole = record.render(&measured(5), Family::ALL, &targets, "", "19");
        let text = record.render(&measured(6), Family::ALL, &targets[..1], &whole, "19");
        let cells = |name: &str| {
            let line = text.lines().find(|l| l.starts_with(name)).unwrap();
            line.split('\t').skip(3).take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(cells("sigmoid_f16"), ["5/0/0", "5/0/0"]);
        assert_eq!(cells("softmax_wave_f16"), ["6/0/0", "-"]);
    }
}
