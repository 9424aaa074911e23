//! A call on given views: the type that the op runs in, the shapes of what it writes, and the run.
use crate::describe::{About, Kind, known};
use crate::object::{Made, Makes};
use crate::options::{Fault, Given, Value};
use rocm_ops::backend::{Borrowed, OperandSlot, Role};
use rocm_ops::ops::registry::{Group, dtype as dtype_named};
use rocm_ops::{AnyMut, AnyRef, Backend, DType, Error, IntoShape, Layout, MAX_RANK, Result, Shape, Space};

/// The operands of a call that are given, by name.
pub type Views<'v, S> = Vec<(&'static str, Borrowed<'v, S>)>;

/// An op, made for operands of certain types.
pub struct Call<B: Backend> {
    about: &'static About,
    op: Made<B>,
    /// The type of outputs whose declaration has none.
    moved: DType,
}

impl<B: Makes> Call<B> {
    /// The op `name` for operands of these types, with these options.
    ///
    /// # Errors
    /// There is no such op, an option is unknown or of the wrong kind, or an operand has a type that the op does not take.
    pub fn new(
        name: &str,
        mut types: Vec<(&'static str, DType)>,
        mut values: Vec<(String, Value)>,
    ) -> Result<Self, Fault> {
        let about = known(name)?;
        let wanted =
            about.output_type.map(|(option, default)| output_type(name, option, default, &mut values));
        let wanted = wanted.transpose()?;
        let runs_in = runs_in(about, &types, wanted)?;
        if let Some(wanted) = wanted {
            let outputs = about.operands.iter().filter(|operand| operand.slot.role == Role::Out);
            types.extend(outputs.map(|operand| (operand.slot.name, wanted)));
        }
        let options = Given::new(name, &values, &types);
        let op = B::make(name, runs_in, &options)?;
        options.check_read()?;
        let call = Call { about, op, moved: wanted.unwrap_or(runs_in) };
        call.check(&types)?;
        Ok(call)
    }

    /// The operands of the op, in its types.
    pub fn slots(&self) -> &'static [OperandSlot] {
        self.op.slots()
    }

    /// What is known of the op.
    pub fn about(&self) -> &'static About {
        self.about
    }

    /// The element type of an output that the caller does not give.
    pub fn dtype_of(&self, slot: &OperandSlot) -> DType {
        slot.dtype.unwrap_or(self.moved)
    }

    /// Checks that the operands which are read are there, in types that the op takes.
    fn check(&self, types: &[(&'static str, DType)]) -> Result<(), Error> {
        let op = self.about.entry.name;
        for slot in self.slots().iter().filter(|slot| slot.role != Role::Out) {
            let given = types.iter().find(|(name, _)| *name == slot.name).map(|(_, dtype)| *dtype);
            let got = match (given, slot.dtype) {
                (None, _) if !slot.optional => "missing".to_owned(),
                (Some(given), Some(want)) if given != want => format!("of {given}"),
                _ => continue,
            };
            let want =
                slot.dtype.map_or_else(|| "a tensor".to_owned(), |dtype| format!("a tensor of {dtype}"));
            return Err(Error::Operand { op, operand: slot.name, got, want });
        }
        Ok(())
    }

    /// Broadcasts what is read to common extents, if the op is one of elements.
    ///
    /// # Errors
    /// [`Error::Broadcast`].
    pub fn broadcast(&self, views: &mut Views<'_, B::Space>) -> Result<()> {
        if !self.about.broadcasts {
            return Ok(());
        }
        let mut reads = views.iter().filter_map(|(_, view)| match view {
            Borrowed::Read(x) => Some(*x.layout()),
            Borrowed::Write(_) => None,
        });
        let Some(first) = reads.next() else { return Ok(()) };
        let shape = reads.try_fold(first.shape(), |shape, layout| common(&shape, &layout.shape()))?;
        for (_, view) in views {
            if let Borrowed::Read(x) = view
                && x.dims() != shape.dims()
            {
                *x = x.with_layout(x.layout().broadcast(shape)?)?;
            }
        }
        Ok(())
    }

    /// The shapes of what is only written, in order of declaration. `views` need not have it.
    ///
    /// # Errors
    /// The operands break the op's rule.
    pub fn infer(&self, backend: &B, views: &mut Views<'_, B::Space>) -> Result<Vec<Shape>> {
        // Memory for outputs that are not there yet: of no elements, in their types.
        let absent =
            |slot: &&OperandSlot| slot.role == Role::Out && views.iter().all(|(name, _)| *name != slot.name);
        let absent = self.slots().iter().filter(absent);
        let mut memory =
            absent.map(|slot| Ok((slot, backend.alloc::<u8>(0)?))).collect::<Result<Vec<_>>>()?;
        let empty = Layout::contiguous([0])?;
        let mut all: Views<'_, B::Space> = Vec::with_capacity(self.slots().len());
        for (slot, buffer) in &mut memory {
            let y = AnyMut::new(<B::Space as Space>::borrow_mut(buffer), self.dtype_of(slot), empty)?;
            all.push((slot.name, Borrowed::Write(y)));
        }
        all.extend(views.iter_mut().map(|(name, view)| (*name, lent(view))));
        self.op.infer(&mut |slot| take(&mut all, slot))
    }

    /// [`infer`](Self::infer) for operands of which only types and extents are known.
    ///
    /// # Errors
    /// The operands break the op's rule.
    pub fn infer_outlines(
        &self,
        backend: &B,
        outlines: &[(&'static OperandSlot, DType, Layout)],
    ) -> Result<Vec<Shape>> {
        // All elements are one: the rule looks at extents.
        let mut memory = outlines
            .iter()
            .map(|(_, dtype, _)| backend.alloc::<u8>(dtype.size()))
            .collect::<Result<Vec<_>>>()?;
        let mut views: Views<'_, B::Space> = Vec::with_capacity(outlines.len());
        for ((slot, dtype, layout), buffer) in outlines.iter().zip(&mut memory) {
            let layout = Layout::strided(layout.dims(), &[0; MAX_RANK][..layout.rank()], 0)?;
            let view = if slot.role == Role::In {
                Borrowed::Read(AnyRef::new(<B::Space as Space>::borrow(buffer), *dtype, layout)?)
            } else {
                Borrowed::Write(AnyMut::new(<B::Space as Space>::borrow_mut(buffer), *dtype, layout)?)
            };
            views.push((slot.name, view));
        }
        self.broadcast(&mut views)?;
        self.infer(backend, &mut views)
    }

    /// Runs the op on these views.
    ///
    /// # Errors
    /// Those of the op and of the backend.
    pub fn run(&self, backend: &B, mut views: Views<'_, B::Space>) -> Result<()> {
        self.op.run(backend, &mut |slot| take(&mut views, slot))
    }
}

fn take<'v, S: Space>(views: &mut Views<'v, S>, slot: &OperandSlot) -> Option<Borrowed<'v, S>> {
    let at = views.iter().position(|(name, _)| *name == slot.name)?;
    Some(views.swap_remove(at).1)
}

fn lent<'s, S: Space>(view: &'s mut Borrowed<'_, S>) -> Borrowed<'s, S> {
    match view {
        Borrowed::Read(x) => Borrowed::Read(x.shorten()),
        Borrowed::Write(y) => Borrowed::Write(y.reborrow()),
    }
}

/// The extents to which both broadcast.
fn common(a: &Shape, b: &Shape) -> Result<Shape> {
    let rank = a.rank().max(b.rank());
    let extent = |shape: &Shape, axis: usize| {
        let missing = rank - shape.rank();
        if axis < missing { 1 } else { shape.dims()[axis - missing] }
    };
    let dims: Option<Vec<usize>> = (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (m, n) if m == n || n == 1 => Some(m),
            (1, n) => Some(n),
            _ => None,
        })
        .collect();
    dims.ok_or_else(|| Error::broadcast(b, a))?.into_shape()
}

/// The element type that a call names for its outputs. The option is taken out, unless the op reads it itself.
fn output_type(
    op: &str,
    option: &str,
    default: Option<DType>,
    values: &mut Vec<(String, Value)>,
) -> Result<DType, Fault> {
    let at = values.iter().position(|(name, _)| name == option);
    let given = at.map(|at| if op == "cast" { values[at].1.clone() } else { values.swap_remove(at).1 });
    let wanted = || format!("{op}: {option} is {{}}, expected the name of an element type, such as \"f32\"");
    match given {
        Some(Value::Text(name)) => {
            dtype_named(&name).ok_or_else(|| Fault::Wrong(wanted().replace("{}", &format!("{name:?}"))))
        }
        Some(other) => Err(Fault::Wrong(wanted().replace("{}", &other.to_string()))),
        None => default.ok_or_else(|| Fault::Wrong(wanted().replace("{}", "missing"))),
    }
}

/// The type that the op runs in: that of the first operand which has it.
fn runs_in(about: &About, types: &[(&'static str, DType)], wanted: Option<DType>) -> Result<DType, Fault> {
    let given = |name: &str| types.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype);
    if about.entry.runs_in == Group::Single {
        return Ok(DType::F32);
    }
    let reads = || about.operands.iter().filter(|operand| operand.slot.role != Role::Out);
    let running = reads().find(|operand| operand.kind == Kind::Runs);
    // Ops that move elements have no such operand; what they move comes last.
    let moved = reads().rfind(|operand| operand.kind == Kind::Any);
    let operand = match (running, about.output_type) {
        (None, Some(("dtype", _))) => {
            return wanted.ok_or_else(|| Fault::Wrong("no element type".to_owned()));
        }
        (running, _) => running.or(moved),
    };
    let Some(operand) = operand else { return Ok(about.entry.runs_in.members()[0]) };
    given(operand.slot.name).ok_or_else(|| {
        let (op, operand) = (about.entry.name, operand.slot.name);
        Fault::Op(Error::Operand { op, operand, got: "missing".to_owned(), want: "a tensor".to_owned() })
    })
}
