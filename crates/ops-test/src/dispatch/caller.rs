//! One case on its way through a backend.
//!
//! No op can ignore part of a case: parameters are read through [`Caller::param`], which remembers their
//! names, and operands through a [`Launch`], which is only made once every parameter of the case was read
//! and every operand is one that the op takes. What is left over is why the case is unsupported.
use crate::{Array, CallError, Case, Params, Ran};
use ops_core::{AnyOf, AnyTensor, Backend, DType, Element, Execute, Op, Operands, Role, Tensor, TensorOf};

/// A case whose op is being made from its parameters.
pub(super) struct Caller<'c> {
    case: &'c Case,
    read: Vec<&'static str>,
    ran: Option<Ran>,
    failed: Option<CallError>,
}

impl<'c> Caller<'c> {
    pub(super) fn new(case: &'c Case) -> Self {
        Caller { case, read: Vec::new(), ran: None, failed: None }
    }

    pub(super) fn finish(self) -> Result<Ran, CallError> {
        let did_not_run = || CallError::Malformed(format!("{} did not run", self.case.op));
        self.failed.map_or_else(|| self.ran.ok_or_else(did_not_run), Err)
    }

    /// The op's name.
    pub(super) fn op(&self) -> &'c str {
        &self.case.op
    }
    /// The element type that the op runs in.
    pub(super) fn dtype(&self) -> DType {
        self.case.dtype
    }
    /// The element type of an operand.
    pub(super) fn dtype_of(&self, name: &str) -> Result<DType, CallError> {
        self.case.dtype_of(name)
    }

    /// Reads a parameter.
    pub(super) fn param<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Params, &str) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.read.push(name);
        read(&self.case.params, name)
    }

    /// Goes on to the operands.
    ///
    /// # Errors
    /// The case has an operand that is not one of `operands`, or a parameter that was not read.
    pub(super) fn launch(&mut self, operands: &[&str]) -> Result<Launch<'_, 'c>, CallError> {
        let Case { op, params, operands: given, .. } = self.case;
        let unknown = given.iter().filter(|o| !operands.contains(&o.name.as_str()));
        let unread = params.0.keys().filter(|name| !self.read.contains(&name.as_str()));
        let left_over: Vec<String> = unknown
            .map(|o| format!("operand `{}`", o.name))
            .chain(unread.map(|name| format!("parameter `{name}`")))
            .collect();
        if !left_over.is_empty() {
            let left_over = left_over.join(", ");
            return Err(CallError::NotOffered(format!("`{op}` of this build has no {left_over}")));
        }
        Ok(Launch { caller: self })
    }

    /// An operand to be written must be one that the op writes.
    fn check_roles(&self, args: &dyn Operands) -> Result<(), CallError> {
        let read = (0..args.count()).filter_map(|i| args.operand(i)).filter(|o| o.role == Role::In);
        for operand in read {
            if self.case.operand(operand.name).is_some_and(|o| o.role != Role::In) {
                let (op, name) = (&self.case.op, operand.name);
                let reason = format!("`{op}` of this build does not write operand `{name}`");
                return Err(CallError::NotOffered(reason));
            }
        }
        Ok(())
    }
}

/// A case of which everything is known to the op: uploads operands, runs the op, keeps what the buffers
/// hold afterwards.
pub(super) struct Launch<'l, 'c> {
    caller: &'l mut Caller<'c>,
}

impl Launch<'_, '_> {
    /// The operand as what the op takes: a tensor, or perhaps none.
    pub(super) fn upload<B: Backend, S: Slot<B>>(&self, b: &B, name: &str) -> Result<S, CallError> {
        S::upload(b, self.caller.case, name)
    }

    /// Asks for support, runs and waits.
    pub(super) fn run<O: Op, B: Execute<O>>(
        &mut self,
        b: &B,
        op: &O,
        owned: &mut O::Owned<B::Space>,
    ) -> Result<(), CallError> {
        let mut support = Ok(());
        let args = O::lend(owned);
        self.caller.check_roles(&args)?;
        // Backends are promised checked operands.
        if op.infer(&O::shapes(&args)).is_ok() {
            support = b.support(op, &args);
        }
        let result = b.run(op, args).and_then(|()| b.synchronize());
        self.caller.ran = Some(Ran { support, result, buffers: Vec::new() });
        Ok(())
    }

    /// Reads a buffer back. A failure is kept for [`finish`](Caller::finish): hundreds of callers have
    /// that much less to compile.
    #[inline(never)]
    pub(super) fn keep<B: Backend, S: Slot<B>>(&mut self, b: &B, name: &'static str, slot: &S) {
        match (slot.download(b), &mut self.caller.ran) {
            (Ok(Some(array)), Some(ran)) => ran.buffers.push((name, array)),
            (Err(e), _) => self.caller.failed = Some(e),
            _ => {}
        }
    }
}

/// What stands in an op's place for an operand.
pub(super) trait Slot<B: Backend>: Sized {
    fn upload(b: &B, case: &Case, name: &str) -> Result<Self, CallError>;
    fn download(&self, b: &B) -> Result<Option<Array>, CallError>;
}

impl<B: Backend, T: Element> Slot<B> for Tensor<B::Space, T> {
    fn upload(b: &B, case: &Case, name: &str) -> Result<Self, CallError> {
        tensor(b, case, name)
    }
    fn download(&self, b: &B) -> Result<Option<Array>, CallError> {
        array(b, self).map(Some)
    }
}

impl<B: Backend> Slot<B> for AnyTensor<B::Space> {
    fn upload(b: &B, case: &Case, name: &str) -> Result<Self, CallError> {
        any_tensor(b, case, name)
    }
    fn download(&self, b: &B) -> Result<Option<Array>, CallError> {
        any_array(b, self).map(Some)
    }
}

impl<B: Backend, S: Slot<B>> Slot<B> for Option<S> {
    fn upload(b: &B, case: &Case, name: &str) -> Result<Self, CallError> {
        case.operand(name).map(|_| S::upload(b, case, name)).transpose()
    }
    fn download(&self, b: &B) -> Result<Option<Array>, CallError> {
        self.as_ref().map_or(Ok(None), |slot| slot.download(b))
    }
}

// Not inlined: one copy for each type, not one for each op.
#[inline(never)]
fn tensor<B: Backend, T: Element>(b: &B, case: &Case, name: &str) -> Result<TensorOf<B, T>, CallError> {
    let operand = case.expect(name)?;
    let (want, got) = (T::DTYPE, operand.array.dtype());
    if got != want {
        let Case { op, dtype, .. } = case;
        return Err(CallError::NotOffered(format!(
            "`{op}` in {dtype} takes `{name}` in {want}, not in {got}"
        )));
    }
    let buffer = b.upload(operand.array.slice::<T>()?)?;
    Ok(Tensor::new(buffer, operand.layout)?)
}

#[inline(never)]
fn any_tensor<B: Backend>(b: &B, case: &Case, name: &str) -> Result<AnyOf<B>, CallError> {
    let operand = case.expect(name)?;
    let buffer = b.upload(operand.array.bytes())?;
    Ok(AnyTensor::new(buffer, operand.array.dtype(), operand.layout)?)
}

#[inline(never)]
fn any_array<B: Backend>(b: &B, tensor: &AnyOf<B>) -> Result<Array, CallError> {
    let data = tensor.as_ref();
    let size = data.data_len() * data.dtype().size();
    Array::from_bytes(data.dtype(), &b.read_vec(data.bytes(), 0, size)?)
}

#[inline(never)]
fn array<B: Backend, T: Element>(b: &B, tensor: &TensorOf<B, T>) -> Result<Array, CallError> {
    let data = tensor.as_ref();
    Array::from_slice(&b.read_vec(data.data(), 0, data.data_len())?)
}

/// Writes the body of a call: uploads every operand into the op's `Owned`, runs, reads all back. The op is
/// made first, since that reads the parameters.
macro_rules! launch {
    ($b:expr, $c:expr, $op:expr, $Owned:ident { $($name:ident),+ $(,)? }) => {{
        let op = $op;
        let mut launch = $c.launch(&[$(stringify!($name)),+])?;
        let mut owned = $Owned { $($name: launch.upload($b, stringify!($name))?),+ };
        launch.run($b, &op, &mut owned)?;
        $(launch.keep($b, stringify!($name), &owned.$name);)+
        Ok(())
    }};
}
pub(super) use launch;
