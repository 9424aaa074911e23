//! The error of each block format, from the table in `docs/formats.md`, which a test compares with the code.
use super::svg::{Anchor, COLOURS, Log, Svg, WIDTH};
use super::table::{number, rows};

const TOP: f64 = 46.0;
const STEP: f64 = 21.0;

pub(super) fn figure() -> Result<String, String> {
    let table = rows("formats.md", "format")?;
    let read = |row: &Vec<String>| Some((row.first()?.clone(), number(row.get(3)?)?, number(row.get(4)?)?));
    let mut formats: Vec<(String, f64, f64)> = table.iter().filter_map(read).collect();
    formats.sort_by(|(_, a, x), (_, b, y)| a.total_cmp(b).then(y.total_cmp(x)));
    let bottom = TOP + STEP * formats.len() as f64;
    let title = "Error of quantizing normal values, by bits per value; to the left is better";
    let mut svg = Svg::new(title, bottom + 10.0);
    svg.text(
        (8.0, 16.0),
        Anchor::Start,
        "small",
        "mean squared error of normal values, relative; shorter is better",
    );
    let scale = Log { values: (1e-5, 1e-1), places: (138.0, WIDTH - 54.0) };
    for power in -5..=-1 {
        let x = scale.at(10f64.powi(power));
        svg.line((x, TOP - 4.0), (x, bottom), "grid");
        svg.text((x, TOP - 10.0), Anchor::Middle, "small", &format!("1e{power}"));
    }
    for (i, (name, bits, error)) in formats.iter().enumerate() {
        let y = TOP + STEP * i as f64;
        svg.text((62.0, y + 13.0), Anchor::End, "", name);
        svg.text((130.0, y + 13.0), Anchor::End, "small", &format!("{bits:.2} bits"));
        let (begin, end) = (scale.places.0, scale.at(*error));
        svg.bar((begin, y + 3.0), (end - begin, STEP - 7.0), COLOURS[0]);
        svg.text((end + 4.0, y + 13.0), Anchor::Start, "small", &format!("{error:.1e}"));
    }
    Ok(svg.finish())
}
