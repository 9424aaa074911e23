//! Tables in pages.
use crate::page::{read, root};

/// The rows below the heading whose first cell is `first`, of the first such table in a page of `docs`.
pub(super) fn rows(page: &str, first: &str) -> Result<Vec<Vec<String>>, String> {
    let text = read(&root().join("docs").join(page))?;
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let tables = text.lines().skip_while(|line| !(line.starts_with('|') && cells(line)[0] == first));
    let rows: Vec<_> = tables.skip(2).take_while(|line| line.starts_with('|')).map(cells).collect();
    if rows.is_empty() {
        return Err(format!("docs/{page}: no table whose first heading is `{first}`"));
    }
    Ok(rows)
}

/// A number with separators of thousands or a percent sign; `None` for a dash.
pub(super) fn number(cell: &str) -> Option<f64> {
    cell.replace([',', '%', ' '], "").parse().ok()
}

/// The figures of `docs/performance.md` for an op: its name with shape and type, its time in µs, percent of a copy, GFLOP/s, and the
/// ratio to the fastest peer.
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) micros: f64,
    pub(super) of_copy: Option<f64>,
    pub(super) gflops: Option<f64>,
    pub(super) ratio: Option<f64>,
}

/// The table of ops in `docs/performance.md`.
pub(super) fn measured() -> Result<Vec<Measured>, String> {
    let rows = rows("performance.md", "op")?.into_iter();
    let read = |row: Vec<String>| {
        let [name, ours, _, _, of_copy, gflops, ratio] = <[String; 7]>::try_from(row).ok()?;
        let [of_copy, gflops, ratio] = [of_copy, gflops, ratio].map(|cell| number(&cell));
        Some(Measured { name, micros: number(&ours)?, of_copy, gflops, ratio })
    };
    rows.map(|row| read(row).ok_or_else(|| "docs/performance.md: a row without 7 cells".to_owned())).collect()
}

/// Rows, columns, terms and type of a row of `op`, such as `linear 8x4096x2048 q8_0`: `([8, 4096, 2048], "q8_0")`.
pub(super) fn product<'n>(name: &'n str, op: &str) -> Option<([f64; 3], &'n str)> {
    let (shape, dtype) = name.strip_prefix(op)?.strip_prefix(' ')?.split_once(' ')?;
    let extents: Vec<f64> = shape.split('x').filter_map(|extent| extent.parse().ok()).collect();
    Some((<[f64; 3]>::try_from(extents).ok()?, dtype))
}
