//! Results of the suite.
use ops_core::DType;
use ops_core::ops::registry::entries;
use std::collections::BTreeMap;
use std::fmt;

/// Selects the cases to run; the default is all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this op, or these, separated by commas; their in-place forms are included.
    pub op: Option<String>,
    /// Only cases that run in this type.
    pub dtype: Option<DType>,
    /// Only cases whose name contains this text.
    pub name: Option<String>,
    /// Only cases with one of these names; all if empty.
    pub names: Vec<String>,
    /// Stops after the first failed case.
    pub until_failure: bool,
    /// With `Some(4)`, each op runs in about one in four of its types, and the next op in different ones.
    pub one_type_in: Option<usize>,
    /// With `Some(4)`, the first of every four cases of an op and type.
    pub one_case_in: Option<usize>,
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
    /// Whether it leaves out any case.
    pub fn is_partial(&self) -> bool {
        let counts = [self.one_type_in, self.one_case_in];
        self.op.is_some()
            || self.dtype.is_some()
            || self.name.is_some()
            || !self.names.is_empty()
            || self.until_failure
            || counts.into_iter().flatten().any(|count| count > 1)
    }
    /// This filter with what the variables of the suite's tests ask for.
    ///
    /// An op or type that it names stays. Without a type, `OPS_TEST_ONE_TYPE_IN` replaces what it says of types; `OPS_TEST_ONE_CASE_IN`
    /// always replaces what it says of cases. `OPS_TEST_OP` names an op, or several separated by commas; `OPS_TEST_DTYPE` names a type.
    /// `OPS_TEST_UNTIL_FAILURE` stops at the first case that fails.
    ///
    /// # Panics
    ///
    /// If a variable has no such value.
    pub fn with_variables(self) -> Self {
        let one_type_in = count("OPS_TEST_ONE_TYPE_IN").filter(|_| self.dtype.is_none());
        let dtype = self.dtype.or_else(|| {
            let name = std::env::var("OPS_TEST_DTYPE").ok()?;
            let dtype = ops_core::ops::registry::dtype(&name);
            Some(dtype.unwrap_or_else(|| {
                panic!("OPS_TEST_DTYPE is `{name}`; it names an element type, such as f16")
            }))
        });
        Filter {
            op: self.op.or_else(|| std::env::var("OPS_TEST_OP").ok().inspect(|list| require_ops(list))),
            dtype,
            // Of one type, all ops.
            one_type_in: one_type_in.or(self.one_type_in.filter(|_| dtype.is_none())),
            one_case_in: count("OPS_TEST_ONE_CASE_IN").or(self.one_case_in),
            until_failure: self.until_failure || std::env::var_os("OPS_TEST_UNTIL_FAILURE").is_some(),
            ..self
        }
    }
    pub(crate) fn wants(&self, op: &str, dtype: DType) -> bool {
        let plain = op.strip_suffix("_inplace").unwrap_or(op);
        let named = |list: &str| list.split(',').any(|o| o == op || o == plain);
        self.op.as_deref().is_none_or(named)
            && self.dtype.is_none_or(|d| d == dtype)
            && self.one_type_in.is_none_or(|count| has_turn(plain, dtype, count))
    }
    pub(crate) fn wants_case(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|part| name.contains(part))
            && (self.names.is_empty() || self.names.iter().any(|one| one == name))
    }
}

/// Panics if `OPS_TEST_OP` names an op that does not exist: no case would run, and nothing would fail.
fn require_ops(list: &str) {
    for name in list.split(',') {
        let exists = entries().iter().any(|entry| entry.name == name);
        assert!(
            exists,
            "OPS_TEST_OP names `{name}`, which is not an op; it is like softmax or add,mul (`ops support` lists all ops)"
        );
    }
}

/// The value of a variable that is a count.
fn count(variable: &str) -> Option<usize> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is `{value}`; it is a count, such as 4")))
}

/// Whether an op runs in this type if it runs only in one in `count` of its types.
fn has_turn(op: &str, dtype: DType, count: usize) -> bool {
    let Some(at) = entries().iter().position(|entry| entry.name == op) else { return true };
    let types = entries()[at].runs_in.members();
    let count = count.clamp(1, types.len());
    types.iter().position(|of_op| *of_op == dtype).is_none_or(|of_op| (at + of_op).is_multiple_of(count))
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseStatus {
    /// The result is right.
    Pass,
    /// The result is wrong, for this reason.
    Fail(String),
    /// The backend declined, for this reason, and changed nothing.
    Unsupported(String),
}

/// One case of the suite.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The op.
    pub op: String,
    /// The element type it ran in.
    pub dtype: DType,
    /// The case's name, such as `rms_norm(dtype=bf16, eps=1e-5, x=[5,123] strided)`.
    pub case: String,
    /// The result.
    pub status: CaseStatus,
}

/// Number of cases by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub pass: usize,
    /// Failed.
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

/// The results of one run of the suite.
#[derive(Clone, Debug)]
pub struct Report {
    /// The backend.
    pub backend: &'static str,
    /// Every case, in run order.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|o| matches!(o.status, CaseStatus::Fail(_)))
    }

    /// Counts over all cases.
    pub fn total(&self) -> Counts {
        self.outcomes.iter().fold(Counts::default(), |counts, o| counts.with(&o.status))
    }

    /// Counts for each op and type, with ops in run order.
    pub fn table(&self) -> Table {
        let mut table = Table { rows: Vec::new() };
        for o in &self.outcomes {
            let at = table.rows.iter().position(|(op, _)| *op == o.op).unwrap_or_else(|| {
                table.rows.push((o.op.clone(), BTreeMap::new()));
                table.rows.len() - 1
            });
            let counts = table.rows[at].1.entry(o.dtype).or_default();
            *counts = counts.with(&o.status);
        }
        table
    }
}

impl Counts {
    fn with(mut self, status: &CaseStatus) -> Self {
        match status {
            CaseStatus::Pass => self.pass += 1,
            CaseStatus::Fail(_) => self.fail += 1,
            CaseStatus::Unsupported(_) => self.unsupported += 1,
        }
        self
    }
}

/// Counts by op and type; `Display` draws it: passed cases as a number, failed ones with `!`, declined ones with `u`.
#[derive(Clone, Debug)]
pub struct Table {
    /// One row per op.
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

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::ops::registry::Group;

    #[test]
    fn names_select_whole_names() {
        let filter = Filter { names: vec!["a(x)".into(), "b(x)".into()], ..Filter::all() };
        assert!(filter.wants_case("a(x)") && filter.wants_case("b(x)"));
        assert!(!filter.wants_case("a(x), b(x)") && !filter.wants_case("a("));
        assert!(Filter::all().wants_case("a("));
    }

    #[test]
    fn every_op_and_every_type_has_a_turn() {
        let filter = Filter { one_type_in: Some(4), ..Filter::all() };
        for entry in entries() {
            let members = entry.runs_in.members();
            let plain = entry.name.strip_suffix("_inplace").unwrap_or(entry.name);
            let wanted = members.iter().filter(|dtype| filter.wants(plain, **dtype)).count();
            assert!((1..=members.len().div_ceil(4)).contains(&wanted), "{plain}: {wanted} types");
        }
        for dtype in Group::Numbers.members() {
            assert!(entries().iter().any(|entry| filter.wants(entry.name, *dtype)), "{dtype}");
        }
    }
}
