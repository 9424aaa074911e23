//! Orders of providers measured on a device, by class of problem.
use ops_core::{Operands, Role};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// What each provider took for a class of problems on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The op's name.
    pub op: String,
    /// The class of problems: see [`class_of`].
    pub class: String,
    /// The day, such as `2026-11-30`.
    pub date: String,
    /// Nanoseconds of each provider that computed it correctly, fastest first.
    pub times: Vec<(String, f64)>,
}

impl fmt::Display for Measurement {
    /// `hip 41.0 µs, miopen 63.2 µs (2026-11-30)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times: Vec<String> =
            self.times.iter().map(|(id, ns)| format!("{id} {:.1} µs", ns / 1e3)).collect();
        write!(f, "{} ({})", times.join(", "), self.date)
    }
}

/// The class of a problem: name, type and extents of every operand that is read. For an operand of two axes or more, the product
/// of all but the last counts as the next power of two if it is the first operand's, because it is the number of tokens or texts;
/// in other operands, such as weights, all extents count.
pub fn class_of(on: &dyn Operands) -> String {
    let mut class = String::new();
    for (place, operand) in on.iter().filter(|operand| operand.role != Role::Out).enumerate() {
        let separator = if place == 0 { "" } else { ", " };
        let dims = operand.layout.dims();
        let extents = match dims {
            [leading @ .., last] if place == 0 && !leading.is_empty() => {
                let rows = leading.iter().product::<usize>();
                format!("rows<={}, {last}", rows.checked_next_power_of_two().unwrap_or(rows))
            }
            _ => dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        // Writing to a String cannot fail.
        let _ = write!(class, "{separator}{} {} [{extents}]", operand.name, operand.dtype);
    }
    class
}

/// All that was measured on a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    /// The version of each library that was measured, by provider.
    pub(crate) libraries: BTreeMap<String, String>,
    /// By op and class.
    rows: BTreeMap<(String, String), Measurement>,
}

impl Measured {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds rows, which replace older ones of the same op and class.
    pub(crate) fn add(&mut self, rows: impl IntoIterator<Item = Measurement>) {
        self.rows.extend(rows.into_iter().map(|row| ((row.op.clone(), row.class.clone()), row)));
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Measurement> {
        self.rows.values()
    }

    /// The rows whose libraries still have the versions that were measured. `version_of` is that of a provider's library here.
    pub(crate) fn current(
        &self,
        version_of: &dyn Fn(&str) -> Option<String>,
    ) -> impl Iterator<Item = &Measurement> {
        self.rows().filter(|row| self.is_current(row, version_of))
    }

    /// The row for a problem, if it is [`current`](Self::current).
    pub(crate) fn find(
        &self,
        op: &str,
        on: &dyn Operands,
        version_of: &dyn Fn(&str) -> Option<String>,
    ) -> Option<&Measurement> {
        let row = self.rows.get(&(op.to_owned(), class_of(on)))?;
        self.is_current(row, version_of).then_some(row)
    }

    fn is_current(&self, row: &Measurement, version_of: &dyn Fn(&str) -> Option<String>) -> bool {
        let mut versions = row.times.iter().filter_map(|(id, _)| Some((id, self.libraries.get(id)?)));
        versions.all(|(id, then)| version_of(id).as_ref() == Some(then))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::{DType, Layout, Operand};

    struct Product(Layout, Layout);
    impl Operands for Product {
        fn count(&self) -> usize {
            3
        }
        fn operand(&self, index: usize) -> Option<Operand<'_>> {
            let (name, role, layout) =
                [("x", Role::In, &self.0), ("weight", Role::In, &self.1), ("y", Role::Out, &self.0)][index];
            Some(Operand { name, role, dtype: DType::F16, layout, packing: None })
        }
    }

    #[test]
    fn a_class_has_problems_of_about_as_many_rows() {
        let class = |rows| {
            let layout = |dims: &[usize]| Layout::contiguous(dims).unwrap();
            class_of(&Product(layout(&[2, rows, 64]), layout(&[96, 64])))
        };
        assert_eq!(class(3), "x f16 [rows<=8, 64], weight f16 [96, 64]");
        assert_eq!((class(4), class(5) == class(4)), (class(3), false));
    }
}
