//! How the speed of an op grows with the size of its operands, from `docs/lab/nvidia-h200-sizes.md`.
use super::svg::{Anchor, COLOURS, Log, Svg, WIDTH};
use super::table::{number, rows};

/// The columns that are drawn, and their names.
const CURVES: [(usize, &str); 4] =
    [(1, "add, Cpu"), (2, "add, Rocm"), (5, "softmax, Cpu"), (6, "softmax, Rocm")];

pub(super) fn figure() -> Result<String, String> {
    const PAGE: &str = "lab/nvidia-h200-sizes.md";
    let table = rows(PAGE, "bytes of a tensor")?;
    let (top, bottom) = (34.0, 290.0);
    let mut svg = Svg::new("Speed of add and softmax by size, on the CPU and on an H200", 346.0);
    svg.text((8.0, 16.0), Anchor::Start, "small", "f32, 16 cores and an H200: GB/s, read plus written");
    let x = Log { values: (4096.0, 268_435_456.0), places: (48.0, WIDTH - 118.0) };
    let y = Log { values: (0.5, 5000.0), places: (bottom, top) };
    svg.values(x, y, &[1.0, 10.0, 100.0, 1000.0]);
    let sizes = table.iter().map(|row| bytes(&row[0]));
    let sizes: Vec<f64> =
        sizes.collect::<Option<_>>().ok_or_else(|| format!("docs/{PAGE}: sizes are like 4 KiB"))?;
    for (size, row) in sizes.iter().zip(&table).step_by(2) {
        svg.line((x.at(*size), top), (x.at(*size), bottom), "grid");
        svg.text(
            (x.at(*size), bottom + 18.0),
            Anchor::Middle,
            "small",
            row[0].split_once(' ').map_or("", |of| of.0),
        );
        svg.text(
            (x.at(*size), bottom + 33.0),
            Anchor::Middle,
            "small",
            row[0].split_once(' ').map_or("", |of| of.1),
        );
    }
    let mut curves = Vec::new();
    for ((column, name), colour) in CURVES.into_iter().zip(COLOURS) {
        let place = |(size, row): (&f64, &Vec<String>)| Some((x.at(*size), y.at(number(row.get(column)?)?)));
        let places: Option<Vec<_>> = sizes.iter().zip(&table).map(place).collect();
        curves.push((
            name,
            colour,
            places.ok_or_else(|| format!("docs/{PAGE}: column {column} is not of numbers"))?,
        ));
    }
    svg.curves(x.places.1, &curves);
    Ok(svg.finish())
}

/// The bytes of a size such as `64 KiB`.
fn bytes(size: &str) -> Option<f64> {
    let (count, unit) = size.split_once(' ')?;
    let factor = match unit {
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        _ => return None,
    };
    Some(number(count)? * factor)
}
