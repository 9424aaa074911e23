//! One case on its way through a backend.
use crate::{Array, CallError, Case, Ran};
use ops_core::{Backend, Element, Execute, Op, Tensor, TensorOf};

/// Uploads operands, runs the op, keeps what the buffers hold afterwards.
pub(super) struct Caller<'c> {
    pub(super) case: &'c Case,
    ran: Option<Ran>,
    failed: Option<CallError>,
}

impl<'c> Caller<'c> {
    pub(super) fn new(case: &'c Case) -> Self {
        Caller { case, ran: None, failed: None }
    }

    pub(super) fn finish(self) -> Result<Ran, CallError> {
        let did_not_run = || CallError::Malformed(format!("{} did not run", self.case.op));
        self.failed.map_or_else(|| self.ran.ok_or_else(did_not_run), Err)
    }

    /// The operand as what the op takes: a tensor, or perhaps none.
    pub(super) fn upload<B: Backend, S: Slot<B>>(&self, b: &B, name: &str) -> Result<S, CallError> {
        S::upload(b, self.case, name)
    }

    /// Asks for support, runs and waits.
    pub(super) fn run<O: Op, B: Execute<O>>(&mut self, b: &B, op: &O, owned: &mut O::Owned<B::Space>) {
        let mut support = Ok(());
        let args = O::lend(owned);
        // Backends are promised checked operands.
        if op.infer(&O::shapes(&args)).is_ok() {
            support = b.support(op, &args);
        }
        let result = b.run(op, args).and_then(|()| b.synchronize());
        self.ran = Some(Ran { support, result, buffers: Vec::new() });
    }

    /// Reads a buffer back. A failure is kept for [`finish`](Caller::finish): hundreds of callers have
    /// that much less to compile.
    #[inline(never)]
    pub(super) fn keep<B: Backend, S: Slot<B>>(&mut self, b: &B, name: &'static str, slot: &S) {
        match (slot.download(b), &mut self.ran) {
            (Ok(Some(array)), Some(ran)) => ran.buffers.push((name, array)),
            (Err(e), _) => self.failed = Some(e),
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

impl<B: Backend, T: Element> Slot<B> for Option<Tensor<B::Space, T>> {
    fn upload(b: &B, case: &Case, name: &str) -> Result<Self, CallError> {
        case.operand(name).map(|_| tensor(b, case, name)).transpose()
    }
    fn download(&self, b: &B) -> Result<Option<Array>, CallError> {
        self.as_ref().map(|t| array(b, t)).transpose()
    }
}

// Not inlined: one copy for each type, not one for each op.
#[inline(never)]
fn tensor<B: Backend, T: Element>(b: &B, case: &Case, name: &str) -> Result<TensorOf<B, T>, CallError> {
    let operand = case.expect(name)?;
    let buffer = b.upload(operand.array.slice::<T>().map_err(|e| e.of(name))?)?;
    Ok(Tensor::new(buffer, operand.layout)?)
}

#[inline(never)]
fn array<B: Backend, T: Element>(b: &B, tensor: &TensorOf<B, T>) -> Result<Array, CallError> {
    let data = tensor.as_ref();
    Array::from_slice(&b.read_vec(data.data(), 0, data.data_len())?)
}

/// Writes the body of a call: uploads every operand into the op's `Owned`, runs, reads all back.
macro_rules! launch {
    ($b:expr, $c:expr, $op:expr, $Owned:ident { $($name:ident),+ $(,)? }) => {{
        let op = $op;
        let mut owned = $Owned { $($name: $c.upload($b, stringify!($name))?),+ };
        $c.run($b, &op, &mut owned);
        $($c.keep($b, stringify!($name), &owned.$name);)+
        Ok(())
    }};
}
pub(super) use launch;
