//! A figure as SVG: readable on light and dark pages, and on a narrow screen.
use std::fmt::Write as _;

/// Width of every figure. On a phone it is scaled down by less than a fifth, so its text stays readable.
pub(super) const WIDTH: f64 = 440.0;

/// Readable on light and on dark backgrounds.
pub(super) const COLOURS: [&str; 6] = ["#3f7fd0", "#2f9d72", "#cf7a22", "#c2527c", "#8b66cf", "#7d8894"];

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}.small{font-size:12px}.strong{font-weight:600}\
    .back{fill:#fff}.grid{stroke:#d5d9df}.line{stroke:#7d8894;fill:none}.box{fill:#eef2f7;stroke:#7d8894}\
    @media(prefers-color-scheme:dark){text{fill:#e3e6ea}.back{fill:#1b1f26}.grid{stroke:#3a414c}.box{fill:#2a313c}}";

/// Where a text is attached.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A curve: its name, colour and points.
pub(super) type Curve<'c> = (&'c str, &'c str, Vec<(f64, f64)>);

/// A figure that is being drawn.
pub(super) struct Svg {
    title: String,
    height: f64,
    body: String,
}

impl Svg {
    /// An empty figure. Its title is read by those who do not see it.
    pub(super) fn new(title: &str, height: f64) -> Svg {
        Svg { title: escape(title), height, body: String::new() }
    }

    /// A text whose base line is at `y`. `class` may be empty.
    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.push(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor}{class}>{}</text>", escape(text)));
    }

    /// A straight line of a class of the style.
    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.push(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        ));
    }

    /// A line through points, in a colour.
    pub(super) fn polyline(&mut self, points: &[(f64, f64)], colour: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.push(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        ));
    }

    /// A line through points, of a class of the style.
    pub(super) fn bent(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.push(&format!("<polyline points=\"{}\" class=\"{class}\"/>", points.join(" ")));
    }

    /// A dot in a colour.
    pub(super) fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        self.push(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"));
    }

    /// A bar in a colour.
    pub(super) fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.push(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    /// Lines across the figure at values of the scale upwards, each with its value.
    pub(super) fn values(&mut self, x: Log, y: Log, values: &[f64]) {
        for value in values {
            self.line((x.places.0, y.at(*value)), (x.places.1, y.at(*value)), "grid");
            self.text((x.places.0 - 6.0, y.at(*value) + 4.0), Anchor::End, "small", &value.to_string());
        }
    }

    /// Lines through points, each with a dot at every point and its name beside its end.
    pub(super) fn curves(&mut self, right: f64, curves: &[Curve<'_>]) {
        let ends: Vec<f64> =
            curves.iter().map(|(.., places)| places.last().map_or(0.0, |place| place.1)).collect();
        for ((name, colour, places), label) in curves.iter().zip(apart(&ends, 15.0)) {
            self.polyline(places, colour);
            places.iter().for_each(|place| self.dot(*place, colour));
            self.bar((right + 8.0, label - 5.0), (8.0, 8.0), colour);
            self.text((right + 20.0, label + 4.0), Anchor::Start, "", name);
        }
    }

    /// A box with lines of text in its middle.
    pub(super) fn boxed(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), lines: &[&str]) {
        const LINE: f64 = 16.0;
        self.push(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\" class=\"box\"/>"
        ));
        let first = y + height / 2.0 + 4.5 - LINE * (lines.len() - 1) as f64 / 2.0;
        for (i, line) in lines.iter().enumerate() {
            self.text((x + width / 2.0, first + LINE * i as f64), Anchor::Middle, "", line);
        }
    }

    /// An arrow downwards, whose point is at `(x, y)`.
    pub(super) fn arrow(&mut self, (x, y): (f64, f64), length: f64) {
        self.push(&format!(
            "<path d=\"M{x:.1} {:.1}V{y:.1}M{:.1} {:.1}L{x:.1} {y:.1}L{:.1} {:.1}\" class=\"line\"/>",
            y - length,
            x - 4.0,
            y - 6.0,
            x + 4.0,
            y - 6.0
        ));
    }

    fn push(&mut self, element: &str) {
        self.body += element;
        self.body += "\n";
    }

    /// The file.
    pub(super) fn finish(self) -> String {
        let Svg { title, height, body } = self;
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
             height=\"{height:.0}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" class=\"back\"/>\n{body}</svg>\n"
        );
        out
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Moves positions apart until neighbours are `gap` away, and keeps their order.
fn apart(wanted: &[f64], gap: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut placed = wanted.to_vec();
    for pair in order.windows(2) {
        placed[pair[1]] = placed[pair[1]].max(placed[pair[0]] + gap);
    }
    placed
}

/// A logarithmic scale from values to positions.
#[derive(Clone, Copy)]
pub(super) struct Log {
    pub(super) values: (f64, f64),
    pub(super) places: (f64, f64),
}

impl Log {
    /// Where a value is; those outside the scale are at its ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let ((least, most), (begin, end)) = (self.values, self.places);
        let share = (value.clamp(least, most) / least).ln() / (most / least).ln();
        begin + share * (end - begin)
    }
}
