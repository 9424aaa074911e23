//! What the suite found.
use ops_core::DType;
use std::collections::BTreeMap;
use std::fmt;

/// Which cases to run; the default is all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this op; its in-place form is included.
    pub op: Option<String>,
    /// Only cases that run in this type.
    pub dtype: Option<DType>,
    /// Only cases whose name contains this.
    pub name: Option<String>,
}

impl Filter {
    /// Every case.
    pub fn all() -> Self {
        Self::default()
    }
    /// The cases of one op.
    pub fn op(name: &str) -> Self {
        Filter { op: Some(name.into()), ..Self::default() }
    }
    pub(crate) fn wants(&self, op: &str, dtype: DType) -> bool {
        let plain = op.strip_suffix("_inplace").unwrap_or(op);
        self.op.as_deref().is_none_or(|o| o == op || o == plain) && self.dtype.is_none_or(|d| d == dtype)
    }
    pub(crate) fn wants_case(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|part| name.contains(part))
    }
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As promised.
    Pass,
    /// Not as promised.
    Fail(String),
    /// The backend declined, with this reason, and kept the law of it.
    Unsupported(String),
}

/// One case of the suite.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The op.
    pub op: String,
    /// The element type it ran in.
    pub dtype: DType,
    /// The case in words, `rms_norm(dtype=bf16, eps=1e-5, x=[5,123] strided)`.
    pub case: String,
    /// How it ended.
    pub ended: Ended,
}

/// How many cases of an op in a type ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// As promised.
    pub pass: usize,
    /// Not as promised.
    pub fail: usize,
    /// Declined.
    pub unsupported: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { pass, fail, unsupported } = *self;
        let text = match (pass, fail, unsupported) {
            (0, 0, 0) => "-".into(),
            (pass, 0, 0) => pass.to_string(),
            (pass, 0, u) => format!("{pass}/{u}u"),
            (pass, fail, 0) => format!("{pass}/{fail}!"),
            (pass, fail, u) => format!("{pass}/{fail}!/{u}u"),
        };
        f.pad(&text)
    }
}

/// Everything that one run of the suite found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The backend.
    pub backend: &'static str,
    /// Every case, in the order they ran.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// The cases that did not end as promised.
    pub fn failures(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|o| matches!(o.ended, Ended::Fail(_)))
    }

    /// Counts over all cases.
    pub fn total(&self) -> Counts {
        self.outcomes.iter().fold(Counts::default(), |counts, o| counts.with(&o.ended))
    }

    /// Counts for each op and type, ops in the order they ran.
    pub fn table(&self) -> Table {
        let mut table = Table { rows: Vec::new() };
        for o in &self.outcomes {
            let at = table.rows.iter().position(|(op, _)| *op == o.op).unwrap_or_else(|| {
                table.rows.push((o.op.clone(), BTreeMap::new()));
                table.rows.len() - 1
            });
            let counts = table.rows[at].1.entry(o.dtype).or_default();
            *counts = counts.with(&o.ended);
        }
        table
    }
}

impl Counts {
    fn with(mut self, ended: &Ended) -> Self {
        match ended {
            Ended::Pass => self.pass += 1,
            Ended::Fail(_) => self.fail += 1,
            Ended::Unsupported(_) => self.unsupported += 1,
        }
        self
    }
}

/// Counts by op and type; `Display` draws it: passes, failures with `!`, declined with `u`.
#[derive(Clone, Debug)]
pub struct Table {
    /// One row for each op.
    pub rows: Vec<(String, BTreeMap<DType, Counts>)>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut dtypes: Vec<DType> = self.rows.iter().flat_map(|(_, cells)| cells.keys().copied()).collect();
        dtypes.sort_unstable();
        dtypes.dedup();
        write!(f, "{:<18}", "op")?;
        for d in &dtypes {
            write!(f, " {:>9}", d.name())?;
        }
        for (op, cells) in &self.rows {
            write!(f, "\n{op:<18}")?;
            for d in &dtypes {
                write!(f, " {:>9}", cells.get(d).copied().unwrap_or_default())?;
            }
        }
        Ok(())
    }
}
