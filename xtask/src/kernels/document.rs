//! The table of registers and occupancy in `docs/kernels.md`, from `kernels/resources.tsv`.
use crate::page::{self, root};
use ops_kernels::{ElementType, Instance, instances};
use std::collections::HashMap;

const BEGIN: &str = "<!-- made by `cargo xtask kernels --document` from kernels/resources.tsv -->";

/// Rewrites the generated part.
pub(super) fn write() -> Result<(), String> {
    let (page, table) = (root().join("docs/kernels.md"), root().join("kernels/resources.tsv"));
    let part = render(&page::read(&table)?)?;
    page::write(&page, &page::with_part(&page, BEGIN, &part)?)
}

/// The vector registers of a kernel on a target, and its occupancy in waves per SIMD.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    vgprs: u32,
    occupancy: u32,
}

/// Renders a row for each family and algorithm, over the kernels whose first type is not f64: the most registers and the
/// lowest occupancy.
fn render(recorded: &str) -> Result<String, String> {
    let mut lines = recorded.lines();
    let compiler = lines.next().and_then(|l| l.strip_prefix("# ")).ok_or("the table names no compiler")?;
    let heading: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let targets = heading.get(3..).unwrap_or_default();
    let kernels: HashMap<&str, Vec<&str>> =
        lines.map(|line| line.split('\t').collect::<Vec<_>>()).map(|row| (row[0], row)).collect();
    let mut rows: Vec<(String, usize, Vec<Option<Cell>>)> = Vec::new();
    for k in instances().iter().filter(|k| k.types.first() != Some(&ElementType::F64)) {
        let row = kernels.get(k.symbol.as_str()).ok_or_else(|| format!("{} is not recorded", k.symbol))?;
        let cells = row.get(3..).unwrap_or_default().iter().map(|cell| parse(cell));
        let name = name(k);
        match rows.iter_mut().find(|(of, ..)| *of == name) {
            Some((_, count, worst)) => {
                *count += 1;
                worst.iter_mut().zip(cells).for_each(|(worst, cell)| *worst = worse(*worst, cell));
            }
            None => rows.push((name, 1, cells.collect())),
        }
    }
    let mut out = format!("{compiler}.\n\n| | kernels |");
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

    #[test]
    fn the_worst_kernel_of_a_way_is_shown() {
        let mut recorded = "# clang 19.1\nkernel\tlds\tscratch\tgfx906\tgfx1100\n".to_owned();
        for (i, k) in instances().iter().enumerate() {
            recorded += &format!("{}\t0\t0\t{}/9/8\t20/9/{}\n", k.symbol, 10 + i % 2, 16 - i % 3);
        }
        let table = render(&recorded).unwrap();
        assert!(
            table.starts_with("clang 19.1.\n\n| | kernels | 906 | 1100 |\n|---|---:|---|---|\n"),
            "{table}"
        );
        assert!(
            table.lines().any(|l| l.starts_with("| unary |") && l.ends_with("| 11/8 | 20/14 |")),
            "{table}"
        );
        assert!(render("# clang\nkernel\tlds\tscratch\tgfx906\n").is_err(), "kernels are missing");
    }
}
