//! The tables of registers and occupancy in `docs/kernels.md`, from `kernels/resources*.tsv`.
use super::hiprtc;
use super::record::Table;
use crate::page::{self, root};
use ops_kernels::source::Family;
use ops_kernels::{ElementType, Instance, instances};

const CLANG: &str = "<!-- made by `cargo xtask kernels --document` from kernels/resources.tsv -->";
const HIPRTC: &str = "<!-- made by `cargo xtask kernels --document` from kernels/resources-hiprtc.tsv -->";

/// Rewrites the generated parts.
pub(super) fn write() -> Result<(), String> {
    let (page, clang) = (root().join("docs/kernels.md"), hiprtc::clang_tables()?);
    page::write(&page, &page::with_part(&page, CLANG, &render(&clang)?)?)?;
    let recorded = page::read(&hiprtc::path())?;
    let current = |family| hiprtc::is_current(&recorded, family);
    let part = render_hiprtc(&clang, &Table::parse(&recorded, 1)?, current);
    page::write(&page, &page::with_part(&page, HIPRTC, &part)?)
}

/// The kernels that the tables show: those whose first type is not f64.
fn shown() -> impl Iterator<Item = &'static Instance> {
    instances().iter().filter(|k| k.types.first() != Some(&ElementType::F64))
}

/// The vector registers of a kernel on a target, and its occupancy in waves per SIMD.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    vgprs: u32,
    occupancy: u32,
}

/// Renders a row for each family and algorithm: the most registers and the lowest occupancy. The columns are those of both
/// tables, of clang 19 and of a newer one.
fn render(tables: &[Table; 2]) -> Result<String, String> {
    let targets: Vec<&String> = tables.iter().flat_map(|table| &table.columns).collect();
    let mut rows: Vec<(String, usize, Vec<Option<Cell>>)> = Vec::new();
    for k in shown() {
        let row = |table: &'_ Table| table.row(&k.symbol).map(<[String]>::to_vec);
        let row = |table| row(table).ok_or_else(|| format!("{} is not recorded", k.symbol));
        let cells = [row(&tables[0])?, row(&tables[1])?].concat().into_iter().map(|cell| parse(&cell));
        let name = name(k);
        match rows.iter_mut().find(|(of, ..)| *of == name) {
            Some((_, count, worst)) => {
                *count += 1;
                worst.iter_mut().zip(cells).for_each(|(worst, cell)| *worst = worse(*worst, cell));
            }
            None => rows.push((name, 1, cells.collect())),
        }
    }
    let newer = tables[1].compiler.split(';').next().unwrap_or_default();
    let mut out =
        format!("{}. {}: {newer}.\n\n| | kernels |", tables[0].compiler, tables[1].columns.join(", "));
    targets.iter().for_each(|target| out += &format!(" {} |", target.trim_start_matches("gfx")));
    out += &format!("\n|---|---:|{}\n", "---|".repeat(targets.len()));
    for (name, count, cells) in rows {
        out += &format!("| {name} | {count} |");
        for cell in cells {
            out += &cell.map_or(" - |".into(), |c| format!(" {}/{} |", c.vgprs, c.occupancy));
        }
        out.push('\n');
    }
    Ok(out)
}

/// Renders a row for each family and algorithm with a kernel that has flaws, or a different number of waves,
/// when compiled by hipRTC instead of clang. Each cell shows the kernel that loses most.
fn render_hiprtc(clang: &[Table; 2], hiprtc: &Table, current: impl Fn(Family) -> bool) -> String {
    let targets = hiprtc::targets(hiprtc);
    let mut rows: Vec<(String, Vec<Option<Change>>)> = Vec::new();
    for k in shown().filter(|k| current(k.family)) {
        let change = |gfx: &&str| Change::of(&k.symbol, gfx, clang, hiprtc);
        let changes: Vec<Option<Change>> = targets.iter().map(change).collect();
        let name = name(k);
        match rows.iter_mut().find(|(of, _)| *of == name) {
            Some((_, worst)) => {
                worst.iter_mut().zip(changes).for_each(|(w, c)| *w = Change::worse(w.take(), c))
            }
            None => rows.push((name, changes)),
        }
    }
    let mut out = hiprtc.compiler.split(';').take(2).collect::<Vec<_>>().join(" and") + ".";
    let old: Vec<&str> = Family::ALL.iter().filter(|f| !current(**f)).map(|f| f.name()).collect();
    if !old.is_empty() {
        out += &format!(" Not measured since their sources changed: {}.", old.join(", "));
    }
    let new = |family: Family| {
        let count = shown().filter(|k| k.family == family && hiprtc.row(&k.symbol).is_none()).count();
        (count > 0).then(|| format!("{count} of {}", family.name()))
    };
    let new: Vec<String> = Family::ALL.iter().filter_map(|family| new(*family)).collect();
    if !new.is_empty() {
        out += &format!(" Kernels that were not measured yet: {}.", new.join(", "));
    }
    out += "\n\n| |";
    targets.iter().for_each(|target| out += &format!(" {} |", target.trim_start_matches("gfx")));
    out += &format!("\n|---|{}\n", "---|".repeat(targets.len()));
    for (name, changes) in rows.iter().filter(|(_, changes)| changes.iter().any(Option::is_some)) {
        out += &format!("| {name} |");
        for change in changes {
            out += &change.as_ref().map_or(" |".into(), |c| format!(" {} |", c.text));
        }
        out.push('\n');
    }
    out
}

/// A kernel whose waves with hipRTC differ from those with clang, or that has flaws.
#[derive(Clone, Debug)]
struct Change {
    /// Waves lost by the worse compiler; negative if even that one wins some.
    lost: i64,
    flawed: bool,
    text: String,
}

impl Change {
    fn of(kernel: &str, gfx: &str, clang: &[Table; 2], hiprtc: &Table) -> Option<Change> {
        let c = hiprtc::compare(kernel, gfx, clang, hiprtc)?;
        let flawed = c.hiprtc.iter().any(|(_, flaws)| !flaws.is_empty());
        if !flawed && c.hiprtc.iter().all(|(waves, _)| *waves == c.clang) {
            return None;
        }
        let least = c.hiprtc.iter().map(|(waves, _)| i64::from(*waves)).min()?;
        let waves: Vec<String> =
            c.hiprtc.iter().map(|(waves, flaws)| format!("{waves} {flaws}").trim_end().to_owned()).collect();
        let text = format!("{} → {}", c.clang, waves.join(", "));
        Some(Change { lost: i64::from(c.clang) - least, flawed, text })
    }

    fn worse(a: Option<Change>, b: Option<Change>) -> Option<Change> {
        let (Some(a), Some(b)) = (&a, &b) else { return a.or(b) };
        Some(if (b.flawed, b.lost) > (a.flawed, a.lost) { b } else { a }.clone())
    }
}

fn name(k: &Instance) -> String {
    let family = k.family.name();
    if k.variant.is_empty() { family.to_owned() } else { format!("{family}, {}", k.variant) }
}

/// `VGPRs/SGPRs/occupancy`.
fn parse(cell: &str) -> Option<Cell> {
    let mut numbers = cell.split('/').map(|n| n.parse().ok());
    let (vgprs, _, occupancy) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(Cell { vgprs, occupancy })
}

/// The worse of two cells; `None` if neither kernel exists for the target.
fn worse(a: Option<Cell>, b: Option<Cell>) -> Option<Cell> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    Some(Cell { vgprs: a.vgprs.max(b.vgprs), occupancy: a.occupancy.min(b.occupancy) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(cell: impl Fn(usize) -> String) -> [Table; 2] {
        let mut texts = [
            "# clang 19.1; cells: x\nkernel\tlds\tscratch\tgfx906\tgfx1100\n".to_owned(),
            "# clang 21.1; cells: x\nkernel\tlds\tscratch\tgfx950\n".to_owned(),
        ];
        for (i, k) in instances().iter().enumerate() {
            texts[0] += &format!("{}\t0\t0\t{}/9/8\t{}\n", k.symbol, 10 + i % 2, cell(i));
            texts[1] += &format!("{}\t0\t0\t30/9/7\n", k.symbol);
        }
        texts.map(|text| Table::parse(&text, 3).unwrap())
    }

    #[test]
    fn the_worst_kernel_of_a_way_is_shown() {
        let table = render(&tables(|i| format!("20/9/{}", 16 - i % 3))).unwrap();
        let start = "clang 19.1; cells: x. gfx950: clang 21.1.\n\n\
                     | | kernels | 906 | 1100 | 950 |\n|---|---:|---|---|---|\n";
        assert!(table.starts_with(start), "{table}");
        let unary = |l: &str| l.starts_with("| unary |") && l.ends_with("| 11/8 | 20/14 | 30/7 |");
        assert!(table.lines().any(unary), "{table}");
        let empty = Table::parse("# clang\nkernel\tlds\tscratch\tgfx906\n", 3).unwrap();
        let [_, newer] = tables(|_| "1/1/1".into());
        assert!(render(&[empty, newer]).is_err(), "kernels are missing");
    }

    #[test]
    fn kernels_that_lose_waves_by_hiprtc_are_shown_and_equal_ones_are_not() {
        let clang = tables(|_| "20/9/16".into());
        let mut text =
            "# hipRTC 6.4, LLVM 21; hipRTC 7.2, LLVM 22; cells: x\nkernel\tgfx1100 6.4\tgfx1100 7.2\n"
                .to_owned();
        for k in instances() {
            let cells = match (k.symbol.as_str(), k.family) {
                ("sigmoid_f16", _) => "30/12\t20/16",
                ("sigmoid_f32", _) => "24/14\t20/16",
                ("swiglu_f16", _) => "20/16\t20/16 4 bytes of scratch",
                (_, Family::Quant) => continue,
                _ => "20/16\t20/16",
            };
            text += &format!("{}\t{cells}\n", k.symbol);
        }
        let hiprtc = Table::parse(&text, 1).unwrap();
        let table = render_hiprtc(&clang, &hiprtc, |family| family != Family::Norm);
        let rows: Vec<&str> = table.lines().skip(4).collect();
        assert_eq!(
            rows,
            ["| unary | 16 → 12, 16 |", "| binary | 16 → 16, 16 4 bytes of scratch |"],
            "{table}"
        );
        assert!(table.starts_with("hipRTC 6.4, LLVM 21 and hipRTC 7.2, LLVM 22."), "{table}");
        assert!(
            table.contains("since their sources changed: norm.")
                && table.contains("not measured yet: ")
                && table.contains(" of quant"),
            "{table}"
        );
    }
}
