//! The crates, and which uses which.
use super::svg::{Anchor, Svg, WIDTH};
use crate::page::root;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Crates of tests and chores, which no program uses.
const NOT_DRAWN: [&str; 6] =
    ["hip-standin", "standin-testing", "ops-tests", "ops-compile-errors", "doc-examples", "xtask"];
const IN_A_ROW: usize = 4;
const BOX: (f64, f64) = (98.0, 26.0);
const STEP: f64 = 62.0;
const TOP: f64 = 34.0;

/// The crates of each crate.
type Uses = BTreeMap<String, BTreeSet<String>>;

pub(super) fn figure() -> Result<String, String> {
    let uses = uses()?;
    let rows = rows(&uses);
    let height = TOP + STEP * rows.len() as f64 + 4.0;
    let mut svg = Svg::new("The crates. A line leads down from a crate to one that it uses.", height);
    let title = "A line leads down from a crate to one that it uses.";
    svg.text((WIDTH / 2.0, 20.0), Anchor::Middle, "small", title);
    let mut places = BTreeMap::new();
    for (i, row) in rows.iter().enumerate() {
        for (k, name) in row.iter().enumerate() {
            let x = WIDTH * (k as f64 + 0.5) / row.len() as f64;
            places.insert(name, (x, TOP + STEP * i as f64));
        }
    }
    for (name, (x, y)) in &places {
        for used in reduced(&uses, name) {
            if let Some((to, below)) = places.get(used) {
                svg.line((*x, y + BOX.1), (*to, *below), "line");
            }
        }
    }
    for (name, (x, y)) in places {
        svg.boxed((x - BOX.0 / 2.0, y), BOX, name);
    }
    Ok(svg.finish())
}

/// What cargo says.
fn uses() -> Result<Uses, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root());
    let output = command.output().map_err(|e| format!("cargo metadata: {e}"))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let names: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
    let mut uses = Uses::new();
    for package in packages {
        let list = package["dependencies"].as_array().into_iter().flatten();
        // Those of tests and build scripts have a kind.
        let list = list.filter(|used| used["kind"].is_null()).map(|used| text(&used["name"]));
        uses.insert(text(&package["name"]), list.filter(|name| names.contains(name)).collect());
    }
    uses.retain(|name, _| !NOT_DRAWN.contains(&name.as_str()));
    Ok(uses)
}

/// Whether a crate uses another, also through others.
fn reaches(uses: &Uses, from: &str, to: &str) -> bool {
    uses.get(from).is_some_and(|list| list.iter().any(|used| used == to || reaches(uses, used, to)))
}

/// What a crate uses, without what others of these use.
fn reduced<'u>(uses: &'u Uses, name: &str) -> impl Iterator<Item = &'u String> {
    let list = uses.get(name).into_iter().flatten();
    list.filter(move |used| !uses[name].iter().any(|other| reaches(uses, other, used)))
}

/// The names in rows: a crate is above all that it uses. Neighbours are ordered to shorten lines.
fn rows(uses: &Uses) -> Vec<Vec<&String>> {
    fn depth(uses: &Uses, name: &str) -> usize {
        uses.get(name).into_iter().flatten().map(|used| depth(uses, used) + 1).max().unwrap_or(0)
    }
    let mut levels: BTreeMap<usize, Vec<&String>> = BTreeMap::new();
    for name in uses.keys() {
        levels.entry(depth(uses, name)).or_default().push(name);
    }
    let mut rows: Vec<Vec<&String>> = Vec::new();
    // From the lowest: the place of a crate is the mean of the places of those that it uses.
    let mut places: BTreeMap<&String, f64> = BTreeMap::new();
    for mut level in levels.into_values() {
        let mean = |name: &String, places: &BTreeMap<&String, f64>| {
            let used: Vec<f64> = reduced(uses, name).filter_map(|used| places.get(used).copied()).collect();
            if used.is_empty() { 0.5 } else { used.iter().sum::<f64>() / used.len() as f64 }
        };
        level.sort_by(|a, b| mean(a, &places).total_cmp(&mean(b, &places)));
        let count = level.len().div_ceil(IN_A_ROW);
        for part in level.chunks(level.len().div_ceil(count)) {
            for (k, name) in part.iter().enumerate() {
                places.insert(name, (k as f64 + 0.5) / part.len() as f64);
            }
            rows.insert(0, part.to_vec());
        }
    }
    rows
}
