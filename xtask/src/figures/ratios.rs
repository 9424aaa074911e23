//! The fastest peer's time over ours for every op in `docs/performance.md`.
use super::svg::{Anchor, COLOURS, Log, Svg, WIDTH};
use super::table::measured;

const TOP: f64 = 48.0;
const STEP: f64 = 18.0;

pub(super) fn figure() -> Result<String, String> {
    let table = measured()?;
    let ops: Vec<_> = table.iter().filter_map(|op| Some((&op.name, op.ratio?))).collect();
    let bottom = TOP + STEP * ops.len() as f64;
    let mut svg = Svg::new("The fastest peer's time over ours, for each op", bottom + 8.0);
    svg.text(
        (8.0, 16.0),
        Anchor::Start,
        "small",
        "the fastest peer's time over ours; right of 1, we are faster",
    );
    let scale = Log { values: (0.2, 64.0), places: (246.0, WIDTH - 42.0) };
    for tick in [0.25, 1.0, 4.0, 16.0, 64.0] {
        svg.line(
            (scale.at(tick), TOP - 6.0),
            (scale.at(tick), bottom),
            if tick == 1.0 { "line" } else { "grid" },
        );
        svg.text((scale.at(tick), TOP - 11.0), Anchor::Middle, "small", &tick.to_string());
    }
    for (i, (name, ratio)) in ops.into_iter().enumerate() {
        let y = TOP + STEP * i as f64;
        svg.text((240.0, y + 12.0), Anchor::End, "small", name);
        let (one, end) = (scale.at(1.0), scale.at(ratio));
        let colour = if ratio >= 1.0 { COLOURS[1] } else { COLOURS[2] };
        svg.bar((one.min(end), y + 2.0), ((end - one).abs(), STEP - 5.0), colour);
        svg.text((one.max(end) + 4.0, y + 12.0), Anchor::Start, "small", &format!("{ratio:.2}"));
    }
    Ok(svg.finish())
}
