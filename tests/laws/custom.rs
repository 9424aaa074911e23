//! An op from outside, with an operand of every mode, and a backend that leaves ops to others.
use crate::device::{Device, DeviceMemory, Transfer};
use crate::model::values;
use rocm_ops::ops::*;
use rocm_ops::{
    Backend, Call, Checked, Cpu, DType, Either, Element, Error, Execute, Fallback, Float, Host, Kernel,
    Layout, Op, Operands, Reason, Reference, Result, Role, Shape, Signature, Space, Tensor, TensorOf,
    Tolerance, View, operands, range, unsupported,
};
use std::marker::PhantomData;

/// `state = decay · state + x · gain`, `peak` the largest of each row: an operand of every mode.
#[derive(Clone, Debug)]
struct Leak<T, G> {
    decay: f64,
    types: PhantomData<(T, G)>,
}

operands!(Leak<T: Float, G: Float> { x: in T, gain: opt G, state: inout T, peak: out T });

impl<T: Float, G: Float> Op for Leak<T, G> {
    fn name(&self) -> &'static str {
        "leak"
    }
    fn infer(&self, on: &LeakShapes<'_>) -> Result<[Shape; 1]> {
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

fn compute<T: Float, G: Float>(op: &Leak<T, G>, a: &mut LeakArgs<'_, Host, T, G>) {
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

fn owned<B: Backend>(b: &B, gain: bool) -> LeakOwned<B::Space, f32, f64> {
    LeakOwned {
        x: b.tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap(),
        gain: gain.then(|| b.tensor(&[3], &[1.0, 10.0, 100.0]).unwrap()),
        state: b.tensor(&[2, 3], &[2.0f32; 6]).unwrap(),
        peak: b.zeros(&[2]).unwrap(),
    }
}

fn leak<B: Execute<F32>>(b: &B, gain: bool) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut owned = owned(b, gain);
    b.run(&HALF, F32::lend(&mut owned))?;
    Ok((values(b, owned.state.as_ref()), values(b, owned.peak.as_ref())))
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
    // The operand that is read and written is still as it was when the second backend reads it.
    assert_eq!(both(&Checked::new(Device::new(), Cpu::new())), want);
    assert_eq!(both(&Either::<Device, Cpu>::Right(Cpu::new())), want);
    let wrong = leak(&Checked::new(Device::new().wrong("leak"), Cpu::new()), false).unwrap_err();
    assert!(matches!(wrong, Error::Mismatch { op: "leak", output: "state", .. }), "{wrong}");
}

#[test]
fn operands_are_seen_in_order_with_their_roles() {
    for (gain, names) in [(false, &["x", "state", "peak"][..]), (true, &["x", "gain", "state", "peak"])] {
        let mut owned = owned(&Cpu::new(), gain);
        let args = F32::lend(&mut owned);
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
    let fails = |change: &dyn Fn(&mut LeakOwned<Host, f32, f64>)| {
        let mut owned = owned(&b, true);
        change(&mut owned);
        let error = b.run(&HALF, F32::lend(&mut owned)).unwrap_err();
        assert_eq!(values(&b, owned.peak.as_ref()).iter().sum::<f64>(), 0.0, "nothing ran");
        error
    };
    let e = fails(&|o| o.gain = Some(b.zeros(&[4]).unwrap()));
    assert_eq!(e.to_string(), "leak: gain has shape [4], expected [3]");
    let e = fails(&|o| o.state = b.zeros(&[3, 2]).unwrap());
    assert_eq!(e.to_string(), "leak: state has shape [3, 2], expected [2, 3]");
    let e = fails(&|o| o.peak = b.zeros(&[3]).unwrap());
    assert_eq!(e.to_string(), "leak: peak has shape [3], expected [2]");

    // Views to be written must not repeat an element, whether they are read too or not.
    let repeated = |owned: &mut LeakOwned<Host, f32, f64>, state: bool| {
        let mut args = F32::lend(owned);
        if state {
            args.state = args.state.with_layout(Layout::strided(&[2, 3], &[0, 1], 0)?)?;
        } else {
            args.peak = args.peak.with_layout(Layout::strided(&[2], &[0], 0)?)?;
        }
        b.run(&HALF, args)
    };
    for (state, operand) in [(true, "state"), (false, "peak")] {
        let error = repeated(&mut owned(&b, false), state).unwrap_err();
        assert!(matches!(&error, Error::Overlap { op: "leak", operand: o, .. } if *o == operand), "{error}");
    }
}

#[test]
fn staging_copies_what_each_mode_needs() {
    let device = Device::declining(|_, _| Some(Reason::Missing));
    let both = Fallback::new(device.clone(), Cpu::new());
    let mut owned = owned(&device, true);
    device.transfers();
    both.run(&HALF, F32::lend(&mut owned)).unwrap();
    let (read, write) = (Transfer::Read, Transfer::Write);
    // Read: x, gain and state. Written: state and peak.
    assert_eq!(device.transfers(), [read(0..6), read(0..3), read(0..6), write(0..6), write(0..2)]);
}

/// A backend without most kernels, which says so for all types at once.
#[derive(Clone, Debug)]
struct Bare;

unsupported!(<T: Float> Bare: RmsNorm<T>, Linear<T>);
unsupported!(<T: Float> Bare: Softmax<T>);
unsupported!(Bare: Copy<f32>, Fill<f32>,);

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
    fn record(&self) -> Result<()> {
        Ok(())
    }
    fn wait(&self, (): &()) -> Result<()> {
        Ok(())
    }
}

#[test]
fn unsupported_ops_are_declined_and_fall_back() {
    fn softmax<B: SoftmaxOps<f32> + Execute<RmsNorm<f64>> + CopyOps<f32>>(b: &B) -> Result<Vec<f64>> {
        let x: TensorOf<B, f32> = b.tensor(&[1, 2], &[0.0, 0.0])?;
        Ok(values(b, b.softmax(x.as_ref(), Softmax::axis(-1))?.as_ref()))
    }
    let error = softmax(&Bare).unwrap_err();
    assert_eq!(error.to_string(), "softmax is not supported on bare: not implemented by this backend");
    let mut x: Tensor<DeviceMemory, f32> = Bare.tensor(&[1], &[1.0]).unwrap();
    let args = FillArgs { y: x.as_mut() };
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

/// The call that a kernel gets can be lent and looked at, and names its op.
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
impl<O: Op> Execute<O> for Nosy
where
    Cpu: Execute<O>,
{
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        self.0.support(op, on)
    }
    fn execute(&self, mut call: Call<'_, '_, O, Host>) -> Result<()> {
        let names: Vec<_> = call.operands().iter().map(|o| o.name).collect();
        call.lend(|lent| self.0.execute(lent))?;
        // Lent, not given: it can be run again.
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
