//! What every op takes and returns, as Python's objects: from which the functions of the package are written.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rocm_ops::DType;
use rocm_ops::Wide;
use rocm_ops::backend::Role;
use rocm_ops::ops::registry::OptionValue;
use rocm_ops_calls::{About, Kind, OPS, OptionAbout};

/// All ops: a list of dictionaries with ``name``, ``types``, ``operands``, ``options``, ``broadcasts`` and ``output_type``.
#[pyfunction]
pub(crate) fn ops(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let all = OPS.iter().map(|about| described(py, about)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, all)
}

fn described<'py>(py: Python<'py>, about: &About) -> PyResult<Bound<'py, PyDict>> {
    let op = PyDict::new(py);
    op.set_item("name", about.entry.name)?;
    op.set_item("types", names(about.entry.runs_in.members()))?;
    op.set_item("broadcasts", about.broadcasts)?;
    op.set_item("output_type", about.output_type.map(|(name, default)| (name, default.map(DType::name))))?;
    let operands = PyList::empty(py);
    for operand in &about.operands {
        let one = PyDict::new(py);
        one.set_item("name", operand.slot.name)?;
        one.set_item(
            "role",
            match operand.slot.role {
                Role::In => "in",
                Role::Out => "out",
                Role::InOut => "inout",
            },
        )?;
        one.set_item("optional", operand.slot.optional)?;
        one.set_item("extents", operand.slot.extents)?;
        match operand.kind {
            Kind::Runs => one.set_item("kind", "runs")?,
            Kind::Fixed(dtype) => one.set_item("kind", dtype.name())?,
            Kind::Group(group) => one.set_item("kind", names(group.members()))?,
            Kind::Blocks => one.set_item("kind", "blocks")?,
            Kind::Any => one.set_item("kind", "any")?,
        }
        operands.append(one)?;
    }
    op.set_item("operands", operands)?;
    let options = about.options.iter().map(|option| option_of(py, option)).collect::<PyResult<Vec<_>>>()?;
    op.set_item("options", options)?;
    Ok(op)
}

fn names(types: &[DType]) -> Vec<&'static str> {
    types.iter().map(|dtype| dtype.name()).collect()
}

fn option_of<'py>(py: Python<'py>, option: &OptionAbout) -> PyResult<Bound<'py, PyDict>> {
    let one = PyDict::new(py);
    one.set_item("name", option.name)?;
    one.set_item("kind", option.kind)?;
    one.set_item("words", option.words.clone())?;
    one.set_item("needed", option.needed)?;
    match &option.default {
        None => one.set_item("default", py.None())?,
        Some(OptionValue::Number(number) | OptionValue::Value(Wide::Float(number))) => {
            one.set_item("default", number)?
        }
        Some(OptionValue::Value(Wide::Int(number))) => one.set_item("default", number)?,
        Some(OptionValue::Count(count)) => one.set_item("default", count)?,
        Some(OptionValue::Axis(axis)) => one.set_item("default", axis)?,
        Some(OptionValue::Counts(counts)) => one.set_item("default", counts.clone())?,
        Some(OptionValue::Axes(axes)) => one.set_item("default", axes.list().map(<[isize]>::to_vec))?,
        Some(OptionValue::Flag(flag)) => one.set_item("default", flag)?,
        Some(OptionValue::Window((left, right))) => one.set_item("default", (left, right))?,
        Some(OptionValue::Word(word)) => one.set_item("default", word)?,
        Some(other) => one.set_item("default", format!("{other:?}"))?,
    }
    Ok(one)
}
