//! Ops by name on Python's objects.
use crate::device;
use crate::errors;
use crate::library::{For, Import, Library, Output, import};
use crate::memory::{Lends, Memory, Place, refused};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString, PyTuple};
use rocm_ops::backend::{Borrowed, OperandSlot, Role};
use rocm_ops::{DType, EitherHost, Layout, Shape};
use rocm_ops_calls::{About, Call, Makes, Value, Views, find};

/// What a call was given.
struct Arguments<'a, 'py> {
    name: &'a str,
    about: &'static About,
    /// Operands that are read, or read and written.
    inputs: Vec<(&'static OperandSlot, Import)>,
    /// Outputs that the caller has.
    given: Vec<(&'static OperandSlot, Bound<'py, PyAny>, Import)>,
    /// Optional outputs that the caller wants.
    wanted: Vec<String>,
    values: Vec<(String, Value)>,
}

/// An operand in use by a call.
struct Used<B: Lends> {
    slot: &'static str,
    write: bool,
    memory: Memory,
    held: B::Held,
}

/// Calls an op by its name.
///
/// ``operands`` are those that the op reads, in order; ``None`` leaves out an optional one. ``out`` is what it writes: one tensor, or a
/// tuple. ``wanted`` names optional outputs. ``backend`` is ``"reference"`` for the definitions of the ops, on the host.
#[pyfunction]
#[pyo3(signature = (name, operands, options=None, out=None, wanted=None, backend=None))]
pub(crate) fn call<'py>(
    py: Python<'py>,
    name: &str,
    operands: &Bound<'py, PyTuple>,
    options: Option<&Bound<'py, PyDict>>,
    out: Option<&Bound<'py, PyAny>>,
    wanted: Option<Vec<String>>,
    backend: Option<&str>,
) -> PyResult<Py<PyAny>> {
    let about =
        find(name).ok_or_else(|| PyValueError::new_err(format!("`{name}` is not an op of this build")))?;
    let arguments = Arguments {
        name,
        about,
        inputs: inputs(about, operands)?,
        given: outputs(about, out)?,
        wanted: wanted.unwrap_or_default(),
        values: options.map(values).transpose()?.unwrap_or_default(),
    };
    match (place(&arguments)?, backend) {
        (Place::Host, None | Some("cpu")) => compute(py, device::cpu(), arguments),
        (Place::Host, Some("reference")) => compute(py, &EitherHost::Reference, arguments),
        (Place::Rocm(id), None | Some("rocm")) => on_rocm(py, id, arguments),
        (place, Some(backend)) => Err(PyValueError::new_err(format!(
            "{name}: backend is {backend:?}, and the operands are on {}; expected cpu or reference on the host, rocm on a GPU",
            shown(place)
        ))),
    }
}

fn shown(place: Place) -> String {
    match place {
        Place::Host => "the host".to_owned(),
        Place::Rocm(id) => format!("GPU {id}"),
    }
}

fn inputs(
    about: &'static About,
    given: &Bound<'_, PyTuple>,
) -> PyResult<Vec<(&'static OperandSlot, Import)>> {
    let name = about.entry.name;
    let slots = about.operands.iter().map(|operand| operand.slot).filter(|slot| slot.role != Role::Out);
    let (got, want) = (given.len(), slots.clone().count());
    if got > want {
        return Err(PyTypeError::new_err(format!(
            "{name}: {got} operands were given, expected at most {want}"
        )));
    }
    let mut inputs = Vec::with_capacity(got);
    for (slot, object) in slots.zip(given.iter()) {
        if !object.is_none() {
            inputs.push((slot, import(&object, slot.role == Role::InOut, For::Call, name, slot.name)?));
        }
    }
    Ok(inputs)
}

type Given<'py> = Vec<(&'static OperandSlot, Bound<'py, PyAny>, Import)>;

fn outputs<'py>(about: &'static About, out: Option<&Bound<'py, PyAny>>) -> PyResult<Given<'py>> {
    let Some(out) = out else { return Ok(Vec::new()) };
    let name = about.entry.name;
    let slots = about.operands.iter().map(|operand| operand.slot).filter(|slot| slot.role == Role::Out);
    let objects: Vec<Bound<'py, PyAny>> = match out.cast::<PyTuple>() {
        Ok(several) => several.iter().collect(),
        Err(_) => vec![out.clone()],
    };
    let (got, want) = (objects.len(), slots.clone().count());
    if got > want {
        return Err(PyTypeError::new_err(format!("{name}: out has {got} tensors, expected at most {want}")));
    }
    let mut given = Vec::with_capacity(got);
    for (slot, object) in slots.zip(objects) {
        if !object.is_none() {
            let import = import(&object, true, For::Call, name, slot.name)?;
            given.push((slot, object, import));
        }
    }
    Ok(given)
}

/// The place of all operands.
fn place(arguments: &Arguments<'_, '_>) -> PyResult<Place> {
    let inputs = arguments.inputs.iter().map(|(slot, import)| (slot, import));
    let all = inputs.chain(arguments.given.iter().map(|(slot, _, import)| (slot, import)));
    let mut first: Option<(&str, Place)> = None;
    for (slot, import) in all {
        let place = import.memory.place;
        match first {
            None => first = Some((slot.name, place)),
            Some((name, other)) if other != place => {
                let why =
                    format!("is on {}, and {name} is on {}; move one of them", shown(place), shown(other));
                return Err(refused(arguments.name, slot.name, &why));
            }
            Some(_) => {}
        }
    }
    first
        .map(|(_, place)| place)
        .ok_or_else(|| PyTypeError::new_err(format!("{}: there are no operands", arguments.name)))
}

/// The options of a call. `None` leaves one out.
fn values(options: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Value)>> {
    let mut values = Vec::with_capacity(options.len());
    for (name, value) in options.iter() {
        if !value.is_none() {
            values.push((name.extract()?, value_of(&value)?));
        }
    }
    Ok(values)
}

fn value_of(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(value.extract()?));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Flag(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Value::Int(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::Text(value.extract()?));
    }
    // Numbers of NumPy are no Python numbers.
    if let Ok(int) = value.extract::<i64>() {
        return Ok(Value::Int(int));
    }
    if let Ok(float) = value.extract::<f64>() {
        return Ok(Value::Float(float));
    }
    Ok(Value::Ints(value.extract()?))
}

/// The queue of a call: on the stream of the library of the first operand that has one, or else ours.
fn on_rocm(py: Python<'_>, id: u32, arguments: Arguments<'_, '_>) -> PyResult<Py<PyAny>> {
    let libraries = arguments.inputs.iter().map(|(_, import)| import.library);
    let libraries: Vec<Library> =
        libraries.chain(arguments.given.iter().map(|(_, _, import)| import.library)).collect();
    let mut stream = None;
    for library in &libraries {
        stream = stream.or(library.stream(py, id)?);
    }
    // Operands of a library that cannot say which stream it works on, or of this one beside those of another.
    let mixed = libraries.iter().any(|library| match library {
        Library::Own => stream.is_some(),
        _ => stream.is_none(),
    });
    if mixed {
        py.detach(|| device::synchronize(id))?;
    }
    let queue = match stream {
        // SAFETY: the library has just said that it is the stream on which it works.
        Some(handle) => unsafe { device::on_stream(id, handle) }?,
        None => device::own(id)?,
    };
    let result = compute(py, &queue, arguments)?;
    if mixed {
        py.detach(|| rocm_ops::Backend::synchronize(&queue)).map_err(errors::op)?;
    }
    Ok(result)
}

fn compute<B: Makes + Lends>(
    py: Python<'_>,
    backend: &B,
    arguments: Arguments<'_, '_>,
) -> PyResult<Py<PyAny>> {
    let Arguments { name, about, inputs, given, wanted, values } = arguments;
    // Large enough for all operands, here and below: a small call takes no longer than a few allocations.
    let mut types: Vec<(&'static str, DType)> = Vec::with_capacity(about.operands.len());
    types.extend(inputs.iter().map(|(slot, import)| (slot.name, import.memory.dtype)));
    types.extend(given.iter().map(|(slot, _, import)| (slot.name, import.memory.dtype)));
    let call = Call::<B>::new(name, types, values).map_err(errors::fault)?;

    let hold = |slot: &OperandSlot, memory: Memory| Used::<B> {
        slot: slot.name,
        write: slot.role != Role::In,
        memory,
        // SAFETY: the arguments keep the memory until this function returns. The interpreter is attached, or the call below runs,
        // whose documentation says that other threads must not use its operands, as for every library that computes without the
        // interpreter. What is written shares no memory with other operands, which is checked before the call.
        held: unsafe { backend.hold(&memory) },
    };
    let mut used: Vec<Used<B>> = Vec::with_capacity(about.operands.len());
    used.extend(inputs.iter().map(|(slot, import)| hold(slot, import.memory)));
    used.extend(given.iter().map(|(slot, _, import)| hold(slot, import.memory)));

    // What the call allocates below overlaps with nothing.
    check_overlap(about, &used)?;

    let is_new = |slot: &&'static OperandSlot| {
        slot.role == Role::Out && given.iter().all(|(known, ..)| known.name != slot.name)
    };
    let chosen = |slot: &OperandSlot| !slot.optional || wanted.iter().any(|name| name == slot.name);
    let mut made: Vec<(&'static str, Output)> = Vec::new();
    if call.slots().iter().any(|slot| is_new(&slot) && chosen(slot)) {
        let shapes = shapes(backend, &call, &mut used)?;
        let library = inputs.first().map_or(Library::Own, |(_, import)| import.library);
        let place = inputs.first().map_or(Place::Host, |(_, import)| import.memory.place);
        for (slot, shape) in call.slots().iter().filter(|slot| slot.role == Role::Out).zip(shapes) {
            if is_new(&slot) && chosen(slot) {
                let output = Output::new(py, library, place, call.dtype_of(slot), &shape)?;
                used.push(hold(slot, output.memory));
                made.push((slot.name, output));
            }
        }
    }
    py.detach(|| run(backend, &call, &mut used)).map_err(errors::op)?;

    let mut results = Vec::with_capacity(made.len() + given.len());
    for slot in about.operands.iter().map(|operand| operand.slot).filter(|slot| slot.role == Role::Out) {
        if let Some(at) = made.iter().position(|(name, _)| *name == slot.name) {
            results.push(made.swap_remove(at).1.into_object(py)?);
        } else if let Some((_, object, _)) = given.iter().find(|(known, ..)| known.name == slot.name) {
            results.push(object.clone().unbind());
        }
    }
    match results.len() {
        0 => Ok(py.None()),
        1 => results.pop().ok_or_else(|| PyRuntimeError::new_err("the result is lost")),
        _ => Ok(PyTuple::new(py, results)?.into_any().unbind()),
    }
}

fn views<B: Lends>(used: &mut [Used<B>]) -> rocm_ops::Result<Views<'_, B::Space>> {
    let mut views: Views<'_, B::Space> = Vec::with_capacity(used.len());
    for Used { slot, write, memory, held } in used {
        let view = if *write {
            Borrowed::Write(B::view_mut(held, memory)?)
        } else {
            Borrowed::Read(B::view(held, memory)?)
        };
        views.push((slot, view));
    }
    Ok(views)
}

fn shapes<B: Makes + Lends>(backend: &B, call: &Call<B>, used: &mut [Used<B>]) -> PyResult<Vec<Shape>> {
    let mut views = views(used).map_err(errors::op)?;
    call.broadcast(&mut views).map_err(errors::op)?;
    call.infer(backend, &mut views).map_err(errors::op)
}

fn run<B: Makes + Lends>(backend: &B, call: &Call<B>, used: &mut [Used<B>]) -> rocm_ops::Result<()> {
    let mut views = views(used)?;
    call.broadcast(&mut views)?;
    call.run(backend, views)
}

/// What is written must have no memory in common with any other operand.
fn check_overlap<B: Lends>(about: &About, used: &[Used<B>]) -> PyResult<()> {
    for (at, one) in used.iter().enumerate().filter(|(_, one)| one.write) {
        let shares =
            |(other_at, other): &(usize, &Used<B>)| *other_at != at && one.memory.overlaps(&other.memory);
        if let Some((_, other)) = used.iter().enumerate().find(shares) {
            let why = format!("shares memory with {}; pass a copy of one of them", other.slot);
            return Err(refused(about.entry.name, one.slot, &why));
        }
    }
    Ok(())
}

/// The outputs of a call on tensors of these extents and types, without memory: a list of `(shape, dtype)`. For ``torch.compile``.
#[pyfunction]
#[pyo3(signature = (name, operands, options=None, wanted=None))]
pub(crate) fn infer<'py>(
    py: Python<'py>,
    name: &str,
    operands: Vec<Option<(Vec<usize>, String)>>,
    options: Option<&Bound<'py, PyDict>>,
    wanted: Option<Vec<String>>,
) -> PyResult<Vec<(Bound<'py, PyTuple>, &'static str)>> {
    let about =
        find(name).ok_or_else(|| PyValueError::new_err(format!("`{name}` is not an op of this build")))?;
    let wanted = wanted.unwrap_or_default();
    let slots = about.operands.iter().map(|operand| operand.slot).filter(|slot| slot.role != Role::Out);
    let mut outlines = Vec::new();
    for (slot, outline) in slots.zip(operands) {
        if let Some((dims, dtype)) = outline {
            outlines.push((
                slot,
                crate::tensor::dtype(&dtype)?,
                Layout::contiguous(&dims[..]).map_err(errors::op)?,
            ));
        }
    }
    let types: Vec<_> = outlines.iter().map(|(slot, dtype, _)| (slot.name, *dtype)).collect();
    let values = options.map(values).transpose()?.unwrap_or_default();
    let call = Call::<EitherHost>::new(name, types, values).map_err(errors::fault)?;
    let shapes = call.infer_outlines(device::cpu(), &outlines).map_err(errors::op)?;
    let outputs = call.slots().iter().filter(|slot| slot.role == Role::Out).zip(shapes);
    let chosen = outputs.filter(|(slot, _)| !slot.optional || wanted.iter().any(|name| name == slot.name));
    chosen.map(|(slot, shape)| Ok((PyTuple::new(py, shape.dims())?, call.dtype_of(slot).name()))).collect()
}
