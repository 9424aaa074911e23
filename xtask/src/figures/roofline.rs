//! Rooflines: products on the CPU (`docs/performance.md`) and on an H200 (`docs/lab/nvidia-h200-2026-11-21.md`).
use super::svg::{Anchor, COLOURS, Log, Svg, WIDTH};
use super::table::{Measured, measured, number, product, rows};

/// A copy of 256 MiB on the H200 in GB/s, and its measured rate of multiply-adds of f32 in GFLOP/s, from the page's text.
const H200: (f64, f64) = (4000.0, 29_500.0);
const LAB: &str = "lab/nvidia-h200-2026-11-21.md";

/// What a machine can do, and what was measured there.
struct Roof {
    name: String,
    /// Bytes that a copy reads and writes, in GB/s.
    copy: f64,
    /// Multiply-adds in GFLOP/s, if they were measured.
    peak: Option<f64>,
    /// Label, operations per byte, GFLOP/s.
    points: Vec<(String, f64, f64)>,
}

pub(super) fn figure() -> Result<String, String> {
    let roofs = [h200()?, cpu(&measured()?)?];
    let (top, bottom) = (34.0, 330.0);
    let mut svg = Svg::new("Rooflines of products in f32, on the CPU and on an H200", 372.0);
    svg.text((8.0, 16.0), Anchor::Start, "small", "linear in f32, weight of 4096 × 4096: GFLOP/s");
    let x = Log { values: (0.4, 300.0), places: (56.0, WIDTH - 20.0) };
    let y = Log { values: (20.0, 60_000.0), places: (bottom, top) };
    svg.values(x, y, &[100.0, 1000.0, 10_000.0]);
    for value in [1.0, 10.0, 100.0] {
        svg.line((x.at(value), top), (x.at(value), bottom), "grid");
        svg.text((x.at(value), bottom + 18.0), Anchor::Middle, "small", &value.to_string());
    }
    svg.text((x.places.1, bottom + 34.0), Anchor::End, "small", "operations per byte");
    for (roof, colour) in roofs.iter().zip(COLOURS) {
        let reach = roof.peak.unwrap_or(y.values.1);
        let knee = (reach / roof.copy).min(x.values.1);
        let mut line: Vec<_> = [x.values.0, knee].map(|v| (x.at(v), y.at((v * roof.copy).min(reach)))).into();
        line.extend(roof.peak.map(|peak| (x.places.1, y.at(peak))));
        svg.polyline(&line, colour);
        match roof.peak {
            Some(peak) => svg.text((x.places.1, y.at(peak) - 8.0), Anchor::End, "strong", &roof.name),
            None => {
                svg.text((x.at(12.0), y.at(12.0 * roof.copy) + 22.0), Anchor::Start, "strong", &roof.name)
            }
        }
        for (label, intensity, gflops) in &roof.points {
            let (x, y) = (x.at(*intensity), y.at(*gflops));
            svg.dot((x, y), colour);
            let (side, anchor) = if x > WIDTH / 2.0 { (-8.0, Anchor::End) } else { (8.0, Anchor::Start) };
            svg.text((x + side, y + 12.0), anchor, "small", label);
        }
    }
    Ok(svg.finish())
}

/// Operations and bytes of `x[rows, k] · weight[n, k]ᵀ` in f32.
fn work([rows, n, k]: [f64; 3]) -> (f64, f64) {
    (2.0 * rows * n * k, 4.0 * (rows * k + n * k + rows * n))
}

fn label(rows: f64) -> String {
    if rows == 1.0 { "1 row".to_owned() } else { format!("{rows} rows") }
}

fn cpu(ops: &[Measured]) -> Result<Roof, String> {
    let products: Vec<_> = ops
        .iter()
        .filter_map(|op| match product(&op.name, "linear")? {
            (extents, "f32") => Some((extents, op)),
            _ => None,
        })
        .collect();
    // Our time is a known share of a copy's.
    let copy = products
        .iter()
        .find_map(|(extents, op)| Some(work(*extents).1 / op.micros / 1000.0 * 100.0 / op.of_copy?));
    let points = products.iter().filter_map(|(extents, op)| {
        let (operations, bytes) = work(*extents);
        Some((label(extents[0]), operations / bytes, op.gflops?))
    });
    Ok(Roof {
        name: "CPU, 2 cores".to_owned(),
        copy: copy.ok_or("docs/performance.md: no product beside a copy")?,
        peak: None,
        points: points.collect(),
    })
}

fn h200() -> Result<Roof, String> {
    let (copy, peak) = H200;
    let mut points = Vec::new();
    for row in rows(LAB, "product, 4096 x 4096 weight")? {
        let Some(rows) = row[0].strip_prefix("linear, ").and_then(|text| number(text.split(' ').next()?))
        else {
            continue;
        };
        let (operations, bytes) = work([rows, 4096.0, 4096.0]);
        let intensity = operations / bytes;
        let gflops = match row[1].split_once(' ') {
            Some((share, "% of bandwidth")) => number(share).map(|share| share / 100.0 * copy * intensity),
            Some((rate, "TFLOP/s")) => number(rate).map(|rate| rate * 1000.0),
            _ => None,
        };
        points.extend(gflops.map(|gflops| (label(rows), intensity, gflops)));
    }
    Ok(Roof { name: "H200, through the stand-in".to_owned(), copy, peak: Some(peak), points })
}
