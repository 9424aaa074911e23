//! The crates, and which uses which.
use super::svg::{Anchor, Svg, WIDTH};
use crate::page::root;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::process::Command;

/// What users depend on or run. Only these are drawn, and what they use.
const ROOTS: [&str; 2] = ["rocm-ops", "ops-cli"];
const SLOTS: usize = 4;
const RESTARTS: usize = 100;
const BOX: (f64, f64) = (100.0, 28.0);
const STEP: f64 = 92.0;
const TOP: f64 = 36.0;

/// Between the names of crates that share a box.
const TOGETHER: char = ' ';

/// The crates of each crate.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The slots of the figure from left to right and from top to bottom, each with a crate or empty.
type Slots<'u> = Vec<Option<&'u str>>;

pub(super) fn figure() -> Result<String, String> {
    let uses = merged(&uses()?);
    let slots = arranged(&uses);
    let rows = slots.len() / SLOTS;
    let mut svg = Svg::new("The crates, and which uses which", TOP + STEP * rows as f64 - 54.0);
    let title = "A line leads down from a crate to one that it uses.";
    svg.text((WIDTH / 2.0, 20.0), Anchor::Middle, "small", title);
    for (from, to) in drawn(&lines(&uses), &slots) {
        svg.bent(&route(from, to, &slots), "line");
    }
    for (slot, name) in slots.iter().enumerate() {
        let (x, y) = place(slot);
        if let Some(name) = name {
            let names: Vec<&str> = name.split(TOGETHER).collect();
            svg.boxed((x - BOX.0 / 2.0, y), (BOX.0, BOX.1 + 16.0 * (names.len() - 1) as f64), &names);
        }
    }
    Ok(svg.finish())
}

/// The points of a line from a box to a lower one. It passes boxes in rows between them through the gap beside them.
fn route(from: usize, to: usize, slots: &Slots<'_>) -> Vec<(f64, f64)> {
    let ((x, y), end) = (place(from), place(to));
    let mut points = vec![(x, y + BOX.1)];
    let mut last = points[0];
    for row in from / SLOTS + 1..to / SLOTS {
        let (pitch, top) = (WIDTH / SLOTS as f64, place(row * SLOTS).1);
        let middle = top + BOX.1 / 2.0;
        let x = last.0 + (end.0 - last.0) * (middle - last.1) / (end.1 - last.1);
        if slots[row * SLOTS + (x / pitch) as usize].is_some() {
            // The gaps at the edges are too narrow.
            let gap = pitch * (x / pitch).round().clamp(1.0, SLOTS as f64 - 1.0);
            last = (gap, top + STEP - BOX.1);
            points.extend([(gap, top - 4.0), last]);
        }
    }
    points.push(end);
    points
}

/// The middle of the upper edge of a slot.
fn place(slot: usize) -> (f64, f64) {
    (WIDTH * ((slot % SLOTS) as f64 + 0.5) / SLOTS as f64, TOP + STEP * (slot / SLOTS) as f64)
}

/// The lines of the figure by name: from a crate to one that it uses.
fn lines(uses: &Uses) -> Vec<(&str, &str)> {
    let of = |name| reduced(uses, name).map(move |used: &String| (name, used.as_str()));
    uses.keys().flat_map(|name| of(name.as_str())).collect()
}

/// The lines from slot to slot.
fn drawn(lines: &[(&str, &str)], slots: &Slots<'_>) -> Vec<(usize, usize)> {
    let at = |name: &str| slots.iter().position(|slot| *slot == Some(name));
    lines.iter().filter_map(|(from, to)| Some((at(from)?, at(to)?))).collect()
}

/// How hard the figure is to read: lines behind boxes count most, then lines that cross, then their lengths.
fn cost(lines: &[(&str, &str)], slots: &Slots<'_>) -> f64 {
    let lines = drawn(lines, slots);
    let mut cost = 0.0;
    for (i, (from, to)) in lines.iter().enumerate() {
        let ((x, y), (end, below)) = (place(*from), place(*to));
        cost += (x - end).abs() / WIDTH;
        let at = |height: f64| x + (end - x) * (height - y - BOX.1) / (below - y - BOX.1);
        for (slot, _) in slots.iter().enumerate().filter(|(_, name)| name.is_some()) {
            let (middle, top) = place(slot);
            let (left, right) = (at(top).min(at(top + BOX.1)), at(top).max(at(top + BOX.1)));
            let reach = BOX.0 / 2.0 + 4.0;
            if y < top && top < below && right > middle - reach && left < middle + reach {
                cost += 20.0;
            }
        }
        for (other, target) in &lines[..i] {
            let (row, end_row) = (from / SLOTS, to / SLOTS);
            let is_level = other / SLOTS == row && target / SLOTS == end_row;
            if is_level && (from < other) != (to < target) && from != other && to != target {
                cost += 1.0;
            }
        }
    }
    cost
}

/// The crates in slots: each is above all that it uses, and the figure is as easy to read as a search finds.
fn arranged(uses: &Uses) -> Slots<'_> {
    fn depth(uses: &Uses, name: &str) -> usize {
        uses.get(name).into_iter().flatten().map(|used| depth(uses, used) + 1).max().unwrap_or(0)
    }
    let mut levels: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for name in uses.keys() {
        levels.entry(depth(uses, name)).or_default().push(name);
    }
    let (mut slots, mut ranges) = (Slots::new(), Vec::new());
    for level in levels.into_values().rev() {
        let begin = slots.len();
        let rows = level.len().div_ceil(SLOTS);
        slots.extend(level.into_iter().map(Some));
        slots.resize(begin + rows * SLOTS, None);
        ranges.push(begin..slots.len());
    }
    let lines = lines(uses);
    let mut best = (f64::INFINITY, slots.clone());
    let mut random = 1u64;
    for _ in 0..RESTARTS {
        // A walk ends where no exchange helps. Each begins elsewhere.
        for range in &ranges {
            for a in range.clone() {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                slots.swap(a, range.start + (random >> 33) as usize % range.len());
            }
        }
        let cost = improved(&lines, &ranges, &mut slots);
        if cost < best.0 {
            best = (cost, slots.clone());
        }
    }
    best.1
}

/// Exchanges crates of a level as long as that helps, and returns the cost.
fn improved(lines: &[(&str, &str)], ranges: &[Range<usize>], slots: &mut Slots<'_>) -> f64 {
    let mut best = cost(lines, slots);
    loop {
        let before = best;
        for range in ranges {
            for (a, b) in range.clone().flat_map(|a| (a + 1..range.end).map(move |b| (a, b))) {
                slots.swap(a, b);
                let cost = cost(lines, slots);
                if cost < best { best = cost } else { slots.swap(a, b) }
            }
        }
        if best >= before {
            return best;
        }
    }
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
    let drawn: BTreeSet<String> = uses
        .keys()
        .filter(|name| ROOTS.iter().any(|root| name == root || reaches(&uses, root, name)))
        .cloned()
        .collect();
    uses.retain(|name, _| drawn.contains(name));
    Ok(uses)
}

/// Crates that use the same, and that the same use, become one, with all their names.
fn merged(uses: &Uses) -> Uses {
    let users = |name: &str| -> Vec<&String> {
        uses.iter().filter(|(_, used)| used.contains(name)).map(|(user, _)| user).collect()
    };
    let mut groups: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (name, used) in uses {
        groups.entry((users(name), used)).or_default().push(name);
    }
    let names: BTreeMap<&str, String> = groups
        .values()
        .flat_map(|group| group.iter().map(|name| (*name, group.join(&TOGETHER.to_string()))))
        .collect();
    let of = |name: &String| names.get(name.as_str()).cloned();
    uses.iter().filter_map(|(name, used)| Some((of(name)?, used.iter().filter_map(of).collect()))).collect()
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
