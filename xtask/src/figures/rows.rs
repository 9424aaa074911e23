//! How the speed of a product grows with its rows, from `docs/performance.md`.
use super::svg::{Anchor, COLOURS, Log, Svg, WIDTH};
use super::table::{measured, product};
use std::collections::BTreeMap;

const TYPES: [&str; 6] = ["f32", "f16", "bf16", "q8_0", "q4_k", "q4_0"];

pub(super) fn figure() -> Result<String, String> {
    let mut curves: BTreeMap<usize, Vec<(f64, f64)>> = BTreeMap::new();
    for op in &measured()? {
        let Some(([rows, ..], dtype)) = product(&op.name, "linear") else { continue };
        let (Some(curve), Some(gflops)) = (TYPES.iter().position(|known| *known == dtype), op.gflops) else {
            continue;
        };
        curves.entry(curve).or_default().push((rows, gflops));
    }
    let (top, bottom) = (34.0, 270.0);
    let mut svg =
        Svg::new("Speed of a product with a weight of 4096 x 4096, by rows and type of the weight", 310.0);
    svg.text((8.0, 16.0), Anchor::Start, "small", "linear on the CPU, weight of 4096 × 4096: GFLOP/s");
    let x = Log { values: (1.0, 512.0), places: (48.0, WIDTH - 78.0) };
    let y = Log { values: (30.0, 2000.0), places: (bottom, top) };
    svg.values(x, y, &[30.0, 100.0, 300.0, 1000.0]);
    let mut all: Vec<f64> = curves.values().flatten().map(|(rows, _)| *rows).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    for rows in all {
        svg.line((x.at(rows), top), (x.at(rows), bottom), "grid");
        let label = if rows == 1.0 { "1 row".to_owned() } else { format!("{rows} rows") };
        svg.text((x.at(rows), bottom + 18.0), Anchor::Middle, "small", &label);
    }
    let curves = curves.iter().map(|(curve, points)| {
        let places = points.iter().map(|(rows, gflops)| (x.at(*rows), y.at(*gflops))).collect();
        (TYPES[*curve], COLOURS[*curve % COLOURS.len()], places)
    });
    svg.curves(x.places.1, &curves.collect::<Vec<_>>());
    Ok(svg.finish())
}
