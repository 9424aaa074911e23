//! Converts a file to a call: broadcasting, in-place forms, blocks, and types that this build has.
use super::dtype;
use super::file::{File, Tensor};
use crate::judge::Want;
use crate::{Array, CallError, Case, Operand, Params};
use ops_core::ops::registry::{self, Entry, Refused};
use ops_core::ops::{BinaryFn, BitwiseFn, CompareFn};
use ops_core::{DType, Layout, Role};

/// Guard elements before and after an output, which must not change; a multiple of any vector length.
const GUARD: usize = 64;
/// Maximum number of elements in a view. Broadcasting makes a large view free in a file, but expensive to
/// replay.
const MAX_ELEMENTS: usize = 1 << 28;

/// The call that a file describes, and its expected results.
pub(super) fn case(file: File) -> Result<(Case, Vec<Want>), CallError> {
    let plain = file.op.strip_suffix("_inplace").unwrap_or(&file.op);
    let entry = registry::find(plain).ok_or_else(|| Refused::Name(file.op.clone()))?;
    if let Some(name) = file.others.first() {
        return Err(CallError::Unsupported(format!("tensor `{name}` is neither `in.` nor `out.`")));
    }
    let mut builder = Builder::new(&file, entry)?;
    for tensor in file.inputs() {
        builder.input(tensor)?;
    }
    for tensor in file.outputs() {
        builder.output(tensor)?;
    }
    let Builder { mut case, wants, .. } = builder;
    inplace(&mut case);
    broadcast(&mut case)?;
    convert_to_supported_types(&mut case)?;
    Ok((case, wants))
}

struct Builder<'f> {
    file: &'f File,
    /// The op, not in its in-place form.
    entry: &'static Entry,
    block: Option<DType>,
    case: Case,
    wants: Vec<Want>,
}

impl<'f> Builder<'f> {
    fn new(file: &'f File, entry: &'static Entry) -> Result<Self, CallError> {
        let mut params = file.params.clone()?;
        let mut run_in = dtype(&file.dtype)?;
        let mut block = None;
        if entry.blocks.is_some() {
            block = Some(block_format(&mut params, run_in)?);
            if let DType::Block(_) = run_in {
                // The case's dtype is its format, so the values' type is the type that the op runs in.
                run_in = values_type(file)?;
            }
        }
        let case = Case { op: file.op.clone(), dtype: run_in, params, operands: Vec::new() };
        Ok(Builder { file, entry, block, case, wants: Vec::new() })
    }

    fn input(&mut self, tensor: &Tensor) -> Result<(), CallError> {
        let (array, shape) = self.stored(tensor)?;
        let layout = match tensor.place()? {
            Some(place) => place.layout,
            None => Layout::contiguous(&shape)?,
        };
        if !layout.fits(array.len()) || layout.len() > MAX_ELEMENTS {
            let len = array.len();
            return Err(CallError::Malformed(format!(
                "{}: the view {layout} does not fit {len} elements",
                tensor.name
            )));
        }
        let name = tensor.name.clone();
        self.case.operands.push(Operand { name, role: Role::In, array, layout });
        Ok(())
    }

    fn output(&mut self, tensor: &Tensor) -> Result<(), CallError> {
        let (values, shape) = self.stored(tensor)?;
        let name = tensor.name.as_str();
        let place = tensor.place()?;
        let layout = match (self.case.operand_mut(name), place) {
            (Some(read), place) => {
                read.role = Role::InOut;
                if place.is_some_and(|p| p.layout != read.layout) {
                    return Err(CallError::Malformed(format!(
                        "{name} is read and written through different views"
                    )));
                }
                read.layout
            }
            (None, Some(place)) => self.storage(name, place.layout, place.len)?,
            (None, None) => {
                let contiguous = Layout::contiguous(&shape)?;
                let strides = contiguous.strides().to_vec();
                let layout = Layout::strided(&shape, &strides, GUARD)?;
                self.storage(name, layout, Some(layout.extent().end.saturating_add(GUARD)))?
            }
        };
        if layout.dims() != shape {
            return Err(CallError::Malformed(format!(
                "{name}: the view {layout} does not match results of shape {shape:?}"
            )));
        }
        let tolerance = tensor.tolerance.clone()?;
        self.wants.push(Want { name: name.to_owned(), values, tolerance });
        Ok(())
    }

    /// Allocates memory that is written through `layout`, filled with a pattern.
    fn storage(&mut self, name: &str, layout: Layout, len: Option<usize>) -> Result<Layout, CallError> {
        let len = len.unwrap_or(layout.extent().end);
        let mut array = Array::zeroed(self.output_type(name)?, len)?;
        if !layout.fits(len) {
            return Err(CallError::Malformed(format!(
                "{name}: the view {layout} reaches beyond {len} elements"
            )));
        }
        array.fill_with_pattern();
        self.case.operands.push(Operand { name: name.to_owned(), role: Role::Out, array, layout });
        Ok(layout)
    }

    fn output_type(&self, name: &str) -> Result<DType, CallError> {
        if self.file.op == "cast" {
            return Ok(self.case.params.dtype("to")?.ok_or(Refused::Missing("to"))?);
        }
        let slot = self.entry.slots(self.case.dtype).iter().find(|slot| slot.name == name);
        let of_blocks = self.block.filter(|_| self.entry.blocks == Some(name));
        Ok(of_blocks.or(slot.and_then(|slot| slot.dtype)).unwrap_or(self.case.dtype))
    }

    /// The tensor as elements of its operand's type, with its shape in elements.
    fn stored(&self, tensor: &Tensor) -> Result<(Array, Vec<usize>), CallError> {
        let array = tensor.array()?;
        match self.block {
            Some(block) if self.entry.blocks == Some(&*tensor.name) => self.blocks(tensor, array, block),
            _ => Ok((array.clone(), tensor.shape.clone())),
        }
    }

    fn blocks(&self, tensor: &Tensor, array: &Array, block: DType) -> Result<(Array, Vec<usize>), CallError> {
        let size = block.size();
        let blocks = Array::from_bytes(block, array.bytes()).map_err(|e| e.of(&tensor.name))?;
        // As many axes as the values; weights are matrices.
        let other = self.file.tensors.iter().find(|t| t.name != tensor.name);
        let rank = match self.file.op.as_str() {
            "qlinear" | "qembedding" => 2,
            "qlinear_experts" => 3,
            _ => other.map_or(tensor.shape.len(), |t| match &t.view {
                Some(Ok(place)) => place.layout.rank(),
                _ => t.shape.len(),
            }),
        };
        let mut shape = tensor.shape.clone();
        match shape.pop() {
            _ if tensor.view.is_some() => shape = vec![blocks.len()],
            Some(last) if last == size && shape.len() == rank => {}
            Some(last) if last % size == 0 => shape.push(last / size),
            _ => {
                let (name, shape) = (&tensor.name, &tensor.shape);
                return Err(CallError::Malformed(format!("{name}: {shape:?} bytes are not rows of {block}")));
            }
        }
        Ok((blocks, shape))
    }
}

fn block_format(params: &mut Params, run_in: DType) -> Result<DType, CallError> {
    for key in ["format", "to", "type", "qtype", "block"] {
        if let Some(format) = params.dtype(key)? {
            params.0.remove(key);
            return Ok(format);
        }
    }
    match run_in {
        DType::Block(_) => Ok(run_in),
        _ => Err(CallError::Malformed("`format` is missing".into())),
    }
}

fn values_type(file: &File) -> Result<DType, CallError> {
    match file.op.as_str() {
        "qlinear" | "qlinear_experts" => {
            let missing = || CallError::Malformed(format!("{} requires an operand `x`", file.op));
            Ok(file.find(false, "x").ok_or_else(missing)?.array()?.dtype())
        }
        _ => Ok(DType::F32),
    }
}

/// A case that writes an operand that it reads runs the op's in-place form.
fn inplace(case: &mut Case) {
    let written = case.operand("x").is_some_and(|x| x.role == Role::InOut);
    if written && !case.op.ends_with("_inplace") {
        case.op.push_str("_inplace");
    }
}

/// Broadcasts operands through stride 0, as the op's methods do.
fn broadcast(case: &mut Case) -> Result<(), CallError> {
    match case.op.as_str() {
        "where" => to_output(case, &["cond", "on_true", "on_false"], "y"),
        "attention" => {
            let dims = |name| case.expect(name).map(|o| o.layout.dims().to_vec());
            let (q, k) = (dims("q")?, dims("k")?);
            let (&[b, h, t, _], &[_, _, s, _]) = (q.as_slice(), k.as_slice()) else { return Ok(()) };
            match case.operand_mut("mask") {
                Some(mask) => widen(mask, &[b, h, t, s]),
                None => Ok(()),
            }
        }
        "matmul" => {
            let batch = case.expect("c")?.layout.dims().to_vec();
            let batch = &batch[..batch.len().saturating_sub(2)];
            for name in ["a", "b"] {
                if let Some(operand) = case.operand_mut(name)
                    && let [.., m, n] = *operand.layout.dims()
                {
                    widen(operand, &[batch, &[m, n]].concat())?;
                }
            }
            Ok(())
        }
        op if BinaryFn::ALL.iter().any(|f| f.name() == op) => to_output(case, &["a", "b"], "y"),
        op if BitwiseFn::ALL.iter().any(|f| f.name() == op) => to_output(case, &["a", "b"], "y"),
        op if CompareFn::ALL.iter().any(|f| f.name() == op) => to_output(case, &["a", "b"], "y"),
        _ => Ok(()),
    }
}

fn to_output(case: &mut Case, names: &[&str], output: &str) -> Result<(), CallError> {
    let dims = case.expect(output)?.layout.dims().to_vec();
    names.iter().try_for_each(|name| case.operand_mut(name).map_or(Ok(()), |operand| widen(operand, &dims)))
}

fn widen(operand: &mut Operand, dims: &[usize]) -> Result<(), CallError> {
    operand.layout = operand.layout.broadcast(dims)?;
    Ok(())
}

/// Converts weights, tables and masks to a type that the op supports: if this build does not have the combination of types,
/// the values are converted to a type that it has, provided that changes none of them.
fn convert_to_supported_types(case: &mut Case) -> Result<(), CallError> {
    let run_in = case.dtype;
    let has = |name: &str| case.operand(name).map(|o| o.array.dtype());
    match case.op.as_str() {
        "layer_norm" | "group_norm" => unify_types(case, "weight", "bias"),
        op if op.starts_with("rope") => unify_types(case, "cos", "sin"),
        "linear" if has("bias").is_some_and(|d| d != run_in && d != DType::F32) => {
            convert_operand(case, "bias", DType::F32).or_else(|_| convert_operand(case, "bias", run_in))
        }
        "attention" => {
            if has("mask").is_some_and(|d| d != DType::U8) {
                convert_operand(case, "mask", run_in)?;
            }
            convert_operand(case, "alibi", run_in)
        }
        _ => Ok(()),
    }
}

/// Converts two operands to one type: that of the operand whose type can represent the other's values.
fn unify_types(case: &mut Case, a: &str, b: &str) -> Result<(), CallError> {
    let of = |name: &str| case.operand(name).map(|o| o.array.dtype());
    let (Some(first), Some(second)) = (of(a), of(b)) else { return Ok(()) };
    if first == second {
        return Ok(());
    }
    convert_operand(case, b, first).or_else(|_| convert_operand(case, a, second)).or_else(|_| {
        convert_operand(case, a, DType::F32)?;
        convert_operand(case, b, DType::F32)
    })
}

fn convert_operand(case: &mut Case, name: &str, dtype: DType) -> Result<(), CallError> {
    if let Some(operand) = case.operand_mut(name) {
        operand.array = operand.array.to_equal(dtype).map_err(|e| e.of(name))?;
    }
    Ok(())
}
