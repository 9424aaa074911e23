//! Conditions on the shape of a problem, in the rules of a [`Policy`](super::Policy).
use super::error::PolicyError;
use ops_core::Operands;
use std::fmt;

/// The conditions for a rule to apply to a problem: all must hold. There may be none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions(Vec<Condition>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    quantity: Quantity,
    comparison: Comparison,
    number: usize,
}

/// An extent of the op's first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    /// The product of all axes but the last.
    Rows,
    /// The last axis.
    Columns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    AtMost,
    AtLeast,
    Less,
    More,
    Equal,
}

const QUANTITIES: [(&str, Quantity); 2] = [("rows", Quantity::Rows), ("columns", Quantity::Columns)];

const COMPARISONS: [(&str, Comparison); 5] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::More),
    ("=", Comparison::Equal),
];

impl Conditions {
    /// Reads `rows<=8,columns>=4096`.
    ///
    /// # Errors
    /// [`PolicyError::Condition`] with the part that is no condition.
    pub(super) fn parse(text: &str) -> Result<Self, PolicyError> {
        let bad = |part: &str| PolicyError::Condition { text: part.trim().to_string() };
        let parts = text.split(',').map(|part| Condition::parse(part).ok_or_else(|| bad(part)));
        parts.collect::<Result<_, _>>().map(Conditions)
    }

    /// Whether there are no conditions.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a problem meets all conditions.
    pub(super) fn hold(&self, on: &dyn Operands) -> bool {
        self.0.iter().all(|condition| condition.holds(on))
    }
}

impl Condition {
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_at(text.find(['<', '>', '='])?);
        let (_, quantity) = QUANTITIES.into_iter().find(|(known, _)| *known == name.trim())?;
        let read = |(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?));
        let (comparison, number) = COMPARISONS.into_iter().find_map(read)?;
        Some(Condition { quantity, comparison, number: number.trim().parse().ok()? })
    }

    fn holds(&self, on: &dyn Operands) -> bool {
        let Some(first) = on.iter().next() else { return false };
        let (columns, leading) = first.layout.dims().split_last().unwrap_or((&1, &[]));
        let got = match self.quantity {
            Quantity::Rows => leading.iter().product(),
            Quantity::Columns => *columns,
        };
        match self.comparison {
            Comparison::AtMost => got <= self.number,
            Comparison::AtLeast => got >= self.number,
            Comparison::Less => got < self.number,
            Comparison::More => got > self.number,
            Comparison::Equal => got == self.number,
        }
    }
}

impl fmt::Display for Conditions {
    /// In brackets, as in a rule; empty if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        if conditions.is_empty() { Ok(()) } else { write!(f, "[{}]", conditions.join(",")) }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = QUANTITIES.iter().find(|(_, quantity)| *quantity == self.quantity);
        let sign = COMPARISONS.iter().find(|(_, comparison)| *comparison == self.comparison);
        write!(f, "{}{}{}", name.map_or("", |n| n.0), sign.map_or("", |s| s.0), self.number)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ops_core::{DType, Layout, Operand, Role};

    /// A problem with one operand of this shape.
    pub(in super::super) struct Shaped(Layout);

    impl Shaped {
        pub(in super::super) fn new(dims: &[usize]) -> Self {
            Shaped(Layout::contiguous(dims).unwrap())
        }
    }

    impl Operands for Shaped {
        fn count(&self) -> usize {
            1
        }
        fn operand(&self, index: usize) -> Option<Operand<'_>> {
            let operand =
                Operand { name: "x", role: Role::In, dtype: DType::F16, layout: &self.0, packing: None };
            (index == 0).then_some(operand)
        }
    }

    #[test]
    fn conditions_compare_rows_and_columns() {
        let holds = |text: &str, dims: &[usize]| Conditions::parse(text).unwrap().hold(&Shaped::new(dims));
        assert!(holds("rows<=8", &[2, 4, 16]) && !holds("rows<=8", &[3, 3, 16]));
        assert!(holds("rows<9", &[8, 16]) && !holds("rows<8", &[8, 16]));
        assert!(holds("rows>=8", &[8, 16]) && !holds("rows>8", &[8, 16]) && holds("rows>7", &[8, 16]));
        assert!(
            holds(" rows = 1 , columns >= 4096 ", &[1, 4096]) && !holds("rows=1,columns>4096", &[1, 4096])
        );
        assert!(holds("rows=1", &[16]) && holds("columns=0", &[3, 0]) && holds("rows=3", &[3, 0]));
        assert!(Conditions::default().hold(&Shaped::new(&[3])));
    }

    #[test]
    fn what_is_no_condition_is_named() {
        for (text, part) in [
            ("", ""),
            ("rows", "rows"),
            ("rows<=", "rows<="),
            ("rows<=x", "rows<=x"),
            ("rows<=-1", "rows<=-1"),
            ("rows==8", "rows==8"),
            ("rows=<8", "rows=<8"),
            ("row<=8", "row<=8"),
            ("rows<=8, cols>1", "cols>1"),
            ("rows<=99999999999999999999", "rows<=99999999999999999999"),
        ] {
            let error = Conditions::parse(text).unwrap_err();
            assert_eq!(error, PolicyError::Condition { text: part.to_string() }, "{text:?}");
        }
    }

    #[test]
    fn they_are_written_as_they_are_read() {
        for text in ["rows<=8", "rows>8,columns>=4096", "columns<1,rows=2"] {
            assert_eq!(Conditions::parse(text).unwrap().to_string(), format!("[{text}]"));
        }
    }
}
