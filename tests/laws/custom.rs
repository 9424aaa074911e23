//! An op defined outside the workspace, with operands of every mode, and a backend that leaves ops to others.
use crate::device::{Device, DeviceMemory, Transfer};
use crate::model::values;
use rocm_ops::backend::{
    Call, Execute, Kernel, NamedTensors, Op, Operands, Role, Signature, Space, Tolerance, operands, range,
    unsupported,
};
use rocm_ops::ops::*;
use rocm_ops::{
    AnyTensor, Backend, Checked, Cpu, DType, Either, Element, Error, Fallback, Float, Host, Layout, Reason,
    Reference, Result, Shape, Tensor, TensorOf, bf16, f16,
};
use std::marker::PhantomData;

/// `state = decay · state + x · gain`, and `peak` is the largest value of each row: operands of every mode.
#[derive(Clone, Debug)]
struct Leak<T, G> {
    decay: f64,
    types: PhantomData<(T, G)>,
}

operands!(mod leak: Leak<T: Float, G: Float> { x: in T, gain: opt G, state: inout T, peak: out T });

impl<T: Float, G: Float> Op for Leak<T, G> {
    fn name(&self) -> &'static str {
        "leak"
    }
    fn infer(&self, on: &leak::Shapes<'_>) -> Result<[Shape; 1]> {
        let &[rows, n] = on.x.dims() else { return Err(Error::shape("leak", "x", on.x, "[rows, n]")) };
        if on.state.dims() != on.x.dims() {
            return Err(Error::shape("leak", "state", on.state, format!("[{rows}, {n}]")));
        }
        if let Some(gain) = on.gain.filter(|g| g.dims() != [n]) {
            return Err(Error::shape("leak", "gain", gain, format!("[{n}]")));
        }
        Ok([Shape::new(&[rows])?])
    }
    fn tolerance(&self, output: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        if output == "peak" { Tolerance::Exact } else { Tolerance::rounded(dtype) }
    }
}

fn compute<T: Float, G: Float>(op: &Leak<T, G>, a: &mut leak::Args<'_, Host, T, G>) {
    let (rows, n) = (a.x.dims()[0], a.x.dims()[1]);
    let (lx, ls, lp) = (*a.x.layout(), *a.state.layout(), *a.peak.layout());
    for r in 0..rows {
        let mut peak = f64::NEG_INFINITY;
        for j in 0..n {
            let gain = a.gain.map_or(1.0, |g| g.data()[g.layout().position(&[j])].to_f64());
            let state = &mut a.state.data_mut()[ls.position(&[r, j])];
            *state =
                T::from_f64(op.decay * state.to_f64() + a.x.data()[lx.position(&[r, j])].to_f64() * gain);
            peak = peak.max(state.to_f64());
        }
        a.peak.data_mut()[lp.position(&[r])] = T::from_f64(peak);
    }
}

impl<T: Float, G: Float> Kernel<Leak<T, G>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Leak<T, G>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        compute(op, args);
        Ok(())
    }
}
impl<T: Float, G: Float> Kernel<Leak<T, G>> for Reference {
    fn compute(&self, call: Call<'_, '_, Leak<T, G>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        compute(op, args);
        Ok(())
    }
}

type F32 = Leak<f32, f64>;
const HALF: F32 = Leak { decay: 0.5, types: PhantomData };

fn tensors<B: Backend>(b: &B, gain: bool) -> NamedTensors<B::Space> {
    let mut tensors =
        NamedTensors::new().with("x", b.tensor(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
    if gain {
        tensors.insert("gain", b.tensor(&[3], &[1f64, 10.0, 100.0]).unwrap());
    }
    tensors
        .with("state", b.tensor(&[2, 3], &[2.0f32; 6]).unwrap())
        .with("peak", b.zeros::<f32>(&[2]).unwrap())
}

/// The values of an f32 tensor.
fn floats<B: Backend>(b: &B, x: &AnyTensor<B::Space>) -> Vec<f64> {
    values(b, x.as_ref().typed::<f32>().unwrap())
}

fn leak<B: Execute<F32>>(b: &B, gain: bool) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut tensors = tensors(b, gain);
    b.run(&HALF, tensors.args(&HALF)?)?;
    Ok((floats(b, &tensors["state"]), floats(b, &tensors["peak"])))
}

#[test]
fn an_op_from_outside_runs_on_every_backend_and_combinator() {
    let plain = (vec![2.0, 3.0, 4.0, 5.0, 6.0, 7.0], vec![4.0, 7.0]);
    let gained = (vec![2.0, 21.0, 301.0, 5.0, 51.0, 601.0], vec![301.0, 601.0]);
    fn both<B: Execute<F32>>(b: &B) -> [(Vec<f64>, Vec<f64>); 2] {
        [false, true].map(|gain| leak(b, gain).unwrap())
    }
    let want = [plain, gained];
    assert_eq!(both(&Cpu::new()), want);
    assert_eq!(both(&Device::new()), want);
    assert_eq!(both(&Fallback::new(Device::declining(|_, _| Some(Reason::Missing)), Cpu::new())), want);
    // The operand that is read and written is unchanged when the second backend reads it.
    assert_eq!(both(&Checked::new(Device::new(), Cpu::new())), want);
    assert_eq!(both(&Either::<Device, Cpu>::Right(Cpu::new())), want);
    let wrong = leak(&Checked::new(Device::new().wrong("leak"), Cpu::new()), false).unwrap_err();
    assert!(matches!(wrong, Error::Mismatch { op: "leak", output: "state", .. }), "{wrong}");
}

#[test]
fn operands_are_seen_in_order_with_their_roles() {
    for (gain, names) in [(false, &["x", "state", "peak"][..]), (true, &["x", "gain", "state", "peak"])] {
        let mut tensors = tensors(&Cpu::new(), gain);
        let args = tensors.args(&HALF).unwrap();
        let on: &dyn Operands = &args;
        assert_eq!(on.count(), 4);
        assert_eq!(on.iter().map(|o| o.name).collect::<Vec<_>>(), names);
        assert_eq!(on.get("state").map(|o| (o.role, o.dtype)), Some((Role::InOut, DType::F32)));
        assert_eq!(on.get("peak").map(|o| o.role), Some(Role::Out));
        assert_eq!(on.get("gain").map(|o| o.dtype), gain.then_some(DType::F64));
        assert!(on.operand(4).is_none() && on.get("y").is_none());
        assert_eq!(F32::shapes(&args).gain.is_some(), gain);
    }
}

#[test]
fn every_operand_of_an_outside_op_is_checked() {
    let b = Cpu::new();
    let fails = |name: &'static str, tensor: AnyTensor<Host>| {
        let mut tensors = tensors(&b, true).with(name, tensor);
        let error = tensors.args(&HALF).and_then(|args| b.run(&HALF, args)).unwrap_err();
        assert_eq!(floats(&b, &tensors["peak"]).iter().sum::<f64>(), 0.0, "nothing ran");
        error
    };
    let e = fails("gain", b.zeros::<f64>(&[4]).unwrap().into());
    assert_eq!(e.to_string(), "leak: gain has shape [4], expected [3]");
    let e = fails("state", b.zeros::<f32>(&[3, 2]).unwrap().into());
    assert_eq!(e.to_string(), "leak: state has shape [3, 2], expected [2, 3]");
    let e = fails("peak", b.zeros::<f32>(&[3]).unwrap().into());
    assert_eq!(e.to_string(), "leak: peak has shape [3], expected [2]");
    // Tensors by name must have the op's types and the names of its operands.
    let e = fails("gain", b.zeros::<f32>(&[3]).unwrap().into());
    assert_eq!(e.to_string(), "leak: gain is of f32, expected a tensor of f64");
    let e = fails("bias", b.zeros::<f32>(&[3]).unwrap().into());
    assert_eq!(
        e.to_string(),
        "leak: bias is not an operand of this op, expected one of x, gain, state, peak"
    );
    let mut missing = tensors(&b, true);
    missing.remove("state");
    let e = missing.args(&HALF).map(drop).unwrap_err();
    assert_eq!(e.to_string(), "leak: state is missing, expected a tensor of f32");

    // Output views must not repeat an element, whether or not they are also read.
    let repeated = |tensors: &mut NamedTensors<Host>, state: bool| {
        let mut args = tensors.args(&HALF)?;
        if state {
            args.state = args.state.with_layout(Layout::strided(&[2, 3], &[0, 1], 0)?)?;
        } else {
            args.peak = args.peak.with_layout(Layout::strided(&[2], &[0], 0)?)?;
        }
        b.run(&HALF, args)
    };
    for (state, operand) in [(true, "state"), (false, "peak")] {
        let error = repeated(&mut tensors(&b, false), state).unwrap_err();
        assert!(matches!(&error, Error::Overlap { op: "leak", operand: o, .. } if *o == operand), "{error}");
    }
}

#[test]
fn staging_copies_what_each_mode_needs() {
    let device = Device::declining(|_, _| Some(Reason::Missing));
    let both = Fallback::new(device.clone(), Cpu::new());
    let mut tensors = tensors(&device, true);
    device.transfers();
    both.run(&HALF, tensors.args(&HALF).unwrap()).unwrap();
    let (read, write) = (Transfer::Read, Transfer::Write);
    // Read: x, gain and state. Written: state and peak. Counted in bytes.
    assert_eq!(device.transfers(), [read(0..24), read(0..24), read(0..24), write(0..24), write(0..8)]);
}

/// A backend without most kernels, which declines them for all types at once.
#[derive(Clone, Debug)]
struct Bare;

unsupported!(<T: Float> Bare: RmsNorm<T>, Linear<T>);
unsupported!(<T: Float> Bare: Softmax<T>);
unsupported!(Bare: TensorCopy, Fill<f32>,);

impl Backend for Bare {
    type Space = DeviceMemory;
    type Event = ();
    fn name(&self) -> &'static str {
        "bare"
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<<DeviceMemory as Space>::Buffer<T>> {
        Device::new().alloc(len)
    }
    fn read<T: Element>(
        &self,
        src: <DeviceMemory as Space>::Ref<'_, T>,
        start: usize,
        dst: &mut [T],
    ) -> Result<()> {
        range("read", start, dst.len(), DeviceMemory::len(src))?;
        Device::new().read(src, start, dst)
    }
    fn write<T: Element>(
        &self,
        src: &[T],
        dst: <DeviceMemory as Space>::Mut<'_, T>,
        start: usize,
    ) -> Result<()> {
        Device::new().write(src, dst, start)
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn fork(&self) -> Result<Self> {
        Ok(Bare)
    }
    fn mark(&self) -> Result<()> {
        Ok(())
    }
    fn wait(&self, (): &()) -> Result<()> {
        Ok(())
    }
}

#[test]
fn unsupported_ops_are_declined_and_fall_back() {
    fn softmax<B: SoftmaxOps<f32> + Execute<RmsNorm<f64>> + CopyOps>(b: &B) -> Result<Vec<f64>> {
        let x: TensorOf<B, f32> = b.tensor(&[1, 2], &[0.0, 0.0])?;
        Ok(values(b, b.softmax(x.as_ref(), Softmax::axis(-1))?.as_ref()))
    }
    let error = softmax(&Bare).unwrap_err();
    assert_eq!(error.to_string(), "softmax is not supported on bare: not implemented by this backend");
    let mut x: Tensor<DeviceMemory, f32> = Bare.tensor(&[1], &[1.0]).unwrap();
    let args = args::fill::Args { y: x.as_mut() };
    assert_eq!(Bare.support(&Fill::new(2.0), &args), Err(Reason::Missing));
    assert!(matches!(
        Bare.run(&Fill::new(2.0), args),
        Err(Error::Unsupported { reason: Reason::Missing, .. })
    ));

    let both = Fallback::new(Bare, Cpu::new());
    assert_eq!(softmax(&both).unwrap(), [0.5, 0.5]);
    both.fill(x.as_mut(), 2.0).unwrap();
    assert_eq!(values(&both, x.as_ref()), [2.0]);
    assert_eq!(both.events().iter().map(|e| e.op).collect::<Vec<_>>(), ["softmax", "fill"]);
}

/// A kernel can borrow and inspect its call, and the call names its op.
#[derive(Clone, Debug)]
struct Nosy(Cpu);

impl rocm_ops::combine::Wrapper for Nosy {
    type Inner = Cpu;
    fn inner(&self) -> &Cpu {
        &self.0
    }
    fn around(&self, inner: Cpu) -> Self {
        Nosy(inner)
    }
}
impl<O: Op> rocm_ops::combine::Intercept<O> for Nosy
where
    Cpu: Execute<O>,
{
    fn execute(&self, mut call: Call<'_, '_, O, Host>) -> Result<()> {
        let names: Vec<_> = call.operands().iter().map(|o| o.name).collect();
        call.lend(|lent| self.0.execute(lent))?;
        // The call is lent, not moved, so it can be run again.
        assert_eq!(call.operands().iter().map(|o| o.name).collect::<Vec<_>>(), names);
        self.0.execute(call)
    }
}

#[test]
fn a_wrapper_from_outside_is_a_backend() {
    let (state, _) = leak(&Nosy(Cpu::new()), false).unwrap();
    // Run twice: 0.5 · (0.5 · 2 + 1) + 1.
    assert_eq!(state[0], 2.0);
    assert_eq!(state[5], 0.5 * 7.0 + 6.0);
}

/// `y` = `x` in the type of `y`, and `rest` = the rounding error, if requested: outputs whose type is a value, and which may
/// be absent.
#[derive(Clone, Debug)]
struct Round;

operands!(mod round: Round { x: in f32, y: out any, rest: opt_out f32 });

impl Op for Round {
    fn name(&self) -> &'static str {
        "round"
    }
    fn infer(&self, on: &round::Shapes<'_>) -> Result<[Shape; 2]> {
        if !on.y.is_computed() {
            return Err(Error::DType { op: "round", operand: "y", got: on.y, want: "a float type" });
        }
        Ok([on.x.shape(), on.x.shape()])
    }
}

impl Kernel<Round> for Cpu {
    fn compute(&self, call: Call<'_, '_, Round, Host>) -> Result<()> {
        fn stored<T: Float>(a: &mut round::Args<'_, Host>) -> Option<()> {
            let (lx, x) = (*a.x.layout(), a.x.data());
            let mut y = a.y.reborrow().typed::<T>()?;
            let ly = *y.layout();
            for (p, q) in lx.positions().zip(ly.positions()) {
                y.data_mut()[q] = T::from_f64(x[p].into());
            }
            if let Some(rest) = &mut a.rest {
                let lr = *rest.layout();
                for (p, q) in lx.positions().zip(lr.positions()) {
                    rest.data_mut()[q] = x[p] - T::from_f64(x[p].into()).to_f64() as f32;
                }
            }
            Some(())
        }
        let (_, a) = call.into_parts();
        let done = stored::<f16>(a).or_else(|| stored::<bf16>(a)).or_else(|| stored::<f32>(a));
        done.ok_or(Error::DType { op: "round", operand: "y", got: a.y.dtype(), want: "f16, bf16 or f32" })
    }
}
impl Kernel<Round> for Reference {
    fn compute(&self, call: Call<'_, '_, Round, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, rest) = (a.x.shorten(), a.rest.as_mut().map(|rest| rest.reborrow()));
        Cpu::new().run(op, round::Args { x, y: a.y.reborrow(), rest })
    }
}

#[test]
fn outputs_may_be_of_any_type_and_absent() {
    fn go<B: Execute<Round>>(b: &B) {
        for asked in [false, true] {
            let mut tensors = NamedTensors::new()
                .with("x", b.tensor(&[3], &[1.0f32, 1.0001, -2.5]).unwrap())
                .with("y", b.tensor(&[3], &[f16::ONE; 3]).unwrap());
            if asked {
                tensors.insert("rest", b.tensor(&[3], &[9.0f32; 3]).unwrap());
            }
            b.run(&Round, tensors.args(&Round).unwrap()).unwrap();
            let y = values(b, tensors["y"].as_ref().typed::<f16>().unwrap());
            assert_eq!(y, [1.0, 1.0, -2.5], "{}", b.name());
            let rest = tensors.get("rest").map(|rest| floats(b, rest));
            assert_eq!(rest, asked.then(|| vec![0.0, f64::from(1.0001f32 - 1.0), 0.0]), "{}", b.name());
        }
        // The rule sees the type that the caller chose, and the shape of the output that is not requested.
        let mut wrong = NamedTensors::new()
            .with("x", b.tensor(&[3], &[1.0f32; 3]).unwrap())
            .with("y", b.tensor(&[3], &[1u8; 3]).unwrap());
        let error = wrong.args(&Round).and_then(|args| b.run(&Round, args)).unwrap_err();
        assert_eq!(error.to_string(), "round: y is of u8, expected a float type");
        let mut short = NamedTensors::new()
            .with("x", b.tensor(&[3], &[1.0f32; 3]).unwrap())
            .with("y", b.tensor(&[3], &[f16::ONE; 3]).unwrap())
            .with("rest", b.tensor(&[2], &[1.0f32; 2]).unwrap());
        let error = short.args(&Round).and_then(|args| b.run(&Round, args)).unwrap_err();
        assert_eq!(error.to_string(), "round: rest has shape [2], expected [3]");
    }
    go(&Cpu::new());
    go(&Device::new());
    go(&Fallback::new(Device::declining(|_, _| Some(Reason::Missing)), Cpu::new()));
    go(&Checked::new(Device::new(), Cpu::new()));
    go(&Either::<Device, Cpu>::Left(Device::new()));
    let slots: Vec<_> = Round::SLOTS.iter().map(|slot| (slot.name, slot.optional, slot.dtype)).collect();
    assert_eq!(slots, [("x", false, Some(DType::F32)), ("y", false, None), ("rest", true, Some(DType::F32))]);
    let wrong = Checked::new(Device::new().wrong("round"), Cpu::new());
    let mut tensors = NamedTensors::new()
        .with("x", wrong.tensor(&[1], &[1.0f32]).unwrap())
        .with("y", wrong.tensor(&[1], &[bf16::ONE]).unwrap());
    let error = tensors.args(&Round).and_then(|args| wrong.run(&Round, args)).unwrap_err();
    assert!(
        matches!(&error, Error::Mismatch { output: "y", got, want, .. } if got == "0.0" && want == "1.0"),
        "{error}"
    );
}
