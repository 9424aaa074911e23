//! Laws of `Fallback`, `Checked` and `Either`.
use crate::device::{Device, DeviceMemory, Transfer};
use crate::model::{data, run, tensor, values};
use rocm_ops::backend::Space;
use rocm_ops::combine::OnMismatch;
use rocm_ops::ops::*;
use rocm_ops::{
    Backend, Checked, Cpu, Either, Element, Error, Fallback, Layout, Reason, Reference, Result, Tensor,
    TensorOf, bf16, f16,
};

/// Attention with heads of `d` features.
fn heads<B: AttentionOps<f16>>(b: &B, d: usize) -> Result<Vec<f64>> {
    let (q, k): (TensorOf<B, f16>, TensorOf<B, f16>) =
        (tensor(b, &[1, 2, 3, d], 1), tensor(b, &[1, 2, 3, d], 2));
    let o = b.attention(q.as_ref(), k.as_ref(), k.as_ref(), Attention::<f16>::full())?;
    Ok(values(b, o.as_ref()))
}

#[test]
fn unsupported_is_data_and_fallback_composes() {
    let error = heads(&Device::limited(), 96).unwrap_err();
    assert!(matches!(
        error,
        Error::Unsupported { op: "attention", reason: Reason::Limit { got: 96, max: 64, .. }, .. }
    ));
    assert_eq!(error.to_string(), "attention is not supported on device: head_dim = 96, limit 64");

    let both = Fallback::new(Device::limited(), Cpu::new());
    assert_eq!(heads(&both, 96).unwrap(), heads(&Cpu::new(), 96).unwrap());
    heads(&both.clone(), 96).unwrap();
    heads(&both, 32).unwrap();
    let events = both.events();
    assert_eq!((events.len(), events[0].op, events[0].on, events[0].count), (1, "attention", "cpu", 2));

    let strict = both.strict(true);
    assert!(matches!(heads(&strict, 96), Err(Error::Unsupported { backend: "device", .. })));
    heads(&strict, 64).unwrap();
}

#[test]
fn what_neither_supports_is_unsupported() {
    let neither = Fallback::new(Device::limited(), Device::limited());
    let error = heads(&neither, 96).unwrap_err();
    assert!(matches!(error, Error::Unsupported { op: "attention", .. }), "{error}");
    assert!(neither.events().is_empty(), "nothing fell back");
}

#[test]
fn tensors_move_freely_between_combinators_of_one_space() {
    let device = Device::limited();
    let (x, w) = (tensor::<_, f32>(&device, &[2, 8], 1), tensor::<_, f32>(&device, &[8], 2));
    let a = device.rms_norm(x.as_ref(), w.as_ref(), RmsNorm::eps(1e-5)).unwrap();
    let checked = Checked::new(Fallback::new(device.clone(), Cpu::new()), Reference::new());
    let b = checked.rms_norm(x.as_ref(), w.as_ref(), RmsNorm::eps(1e-5)).unwrap();
    assert_eq!(values(&device, a.as_ref()), values(&checked, b.as_ref()));
}

#[test]
fn a_whole_model_is_checked_op_by_op() {
    let checked = Checked::new(Device::limited(), Reference::new());
    assert_eq!(
        run::<bf16, _>(&checked, &[5, 1]).unwrap(),
        run::<bf16, _>(&Device::limited(), &[5, 1]).unwrap()
    );
    assert!(checked.calls() > 20);
    let checked = Checked::new(Fallback::new(Device::limited(), Cpu::new()), Reference::new());
    run::<f32, _>(&checked, &[5, 1]).unwrap();
    run::<f16, _>(&Checked::new(Cpu::new(), Reference::new()), &[5, 1]).unwrap();
}

#[test]
fn a_wrong_op_of_a_model_is_named() {
    let error = run::<f32, _>(&Checked::new(Device::new().wrong("swiglu"), Cpu::new()), &[5]).unwrap_err();
    match &error {
        Error::Mismatch { op: "swiglu", output: "y", index, got, .. } => {
            assert_eq!((&**index, got.as_str()), (&[0, 0][..], "0.0"));
        }
        other => panic!("{other}"),
    }
    // Without the check, the error goes unnoticed.
    run::<f32, _>(&Device::new().wrong("swiglu"), &[5]).unwrap();
}

#[test]
fn mismatches_can_be_logged_instead() {
    let logging = Checked::new(Device::new().wrong("rms_norm"), Cpu::new()).on_mismatch(OnMismatch::Log);
    run::<f32, _>(&logging, &[5]).unwrap();
    let mismatches = logging.mismatches();
    assert_eq!(mismatches.len(), 2, "two norms in a layer");
    assert!(mismatches.iter().all(|e| matches!(e, Error::Mismatch { op: "rms_norm", .. })));
}

#[test]
fn one_call_in_n_can_be_checked() {
    let wrong = || Device::new().wrong("neg");
    let neg = |b: &Checked<Device, Cpu>, x: &Tensor<DeviceMemory, f32>| b.neg(x.as_ref()).map(drop);
    let third = Checked::new(wrong(), Cpu::new()).every(3);
    let x = tensor::<_, f32>(&third, &[4], 1);
    let found: Vec<bool> = (0..7).map(|_| neg(&third, &x).is_err()).collect();
    assert_eq!(found, [true, false, false, true, false, false, true]);
    assert_eq!(third.calls(), 7);
    // A clone shares the counter with the original; 0 means every call.
    assert!(neg(&third.clone(), &x).is_ok());
    assert_eq!(third.calls(), 8);
    let off = Checked::new(wrong(), Cpu::new()).on(false);
    assert!((0..3).all(|_| neg(&off, &x).is_ok()), "nothing is checked");
    assert_eq!(off.calls(), 0);
    let every = Checked::new(wrong(), Cpu::new()).every(0);
    assert!((0..3).all(|_| neg(&every, &x).is_err()));
}

#[test]
fn checked_compares_only_what_a_view_touches() {
    let device = Device::new();
    let checked = Checked::new(device.clone(), Reference::new());
    let mut y: TensorOf<Device, f32> = device.tensor(&[8], &[f32::NAN; 8]).unwrap();
    let x: TensorOf<Device, f32> = tensor(&device, &[4], 1);
    let view = y.as_mut().with_layout(Layout::strided(&[4], &[2], 0).unwrap()).unwrap();
    checked.copy_into(x.as_ref(), view).unwrap();
    let all = values(&device, y.as_ref());
    assert!(all.iter().enumerate().all(|(i, v)| v.is_nan() == (i % 2 == 1)), "{all:?}");
}

fn everything_falls_back() -> (Device, Fallback<Device, Cpu>) {
    let device = Device::declining(|_, _| Some(Reason::Missing));
    (device.clone(), Fallback::new(device, Cpu::new()))
}

#[test]
fn fallback_stages_only_the_extent_of_a_view() {
    let (device, both) = everything_falls_back();
    let x: TensorOf<Device, f32> = tensor(&device, &[100, 10], 1);
    let mut y: TensorOf<Device, f32> = device.zeros(&[1000]).unwrap();
    device.transfers();
    let rows = x.as_ref().narrow(0, 40, 2).unwrap();
    let mut out = y.as_mut().narrow(0, 7, 20).unwrap();
    both.copy_into(rows, out.reborrow().reshape(&[2, 10]).unwrap()).unwrap();
    // The output has no gaps, so it is not read.
    assert_eq!(device.transfers(), [Transfer::Read(1600..1680), Transfer::Write(28..108)]);
    assert_eq!(values(&device, y.as_ref())[7..27], values(&device, x.as_ref())[400..420]);
}

#[test]
fn fallback_keeps_what_lies_in_the_gaps() {
    let (device, both) = everything_falls_back();
    let x: TensorOf<Device, f32> = tensor(&device, &[3], 1);
    let mut y: TensorOf<Device, f32> = device.tensor(&[9], &[7.0; 9]).unwrap();
    let view = Layout::strided(&[3], &[3], 1).unwrap();
    both.copy_into(x.as_ref(), y.as_mut().with_layout(view).unwrap()).unwrap();
    let (got, x) = (values(&device, y.as_ref()), values(&device, x.as_ref()));
    assert_eq!(got, [7.0, x[0], 7.0, 7.0, x[1], 7.0, 7.0, x[2], 7.0]);
}

#[test]
fn fallback_writes_only_on_success() {
    let (device, both) = everything_falls_back();
    let x: TensorOf<Device, f32> = tensor(&device, &[4, 2], 1);
    let ids = device.tensor(&[3], &[0u32, 9, 1]).unwrap();
    let mut y: TensorOf<Device, f32> = device.tensor(&[3, 2], &[5.0; 6]).unwrap();
    device.transfers();
    let error =
        both.index_select_into(x.as_ref(), ids.as_ref(), y.as_mut(), IndexSelect::axis(0)).unwrap_err();
    assert!(matches!(error, Error::Index { position: 1, index: 9, bound: 4, .. }), "{error}");
    assert!(!device.transfers().iter().any(|t| matches!(t, Transfer::Write(_))));
    assert_eq!(values(&device, y.as_ref()), [5.0; 6]);
}

#[test]
fn fallback_stages_operands_that_are_read_and_written() {
    let (device, both) = everything_falls_back();
    let mut x: TensorOf<Device, f32> = device.tensor(&[3], &[1.0, 2.0, 3.0]).unwrap();
    both.affine_inplace(x.as_mut(), 2.0, 1.0).unwrap();
    assert_eq!(values(&device, x.as_ref()), [3.0, 5.0, 7.0]);
    both.fill(x.as_mut(), 4.0).unwrap();
    assert_eq!(values(&device, x.as_ref()), [4.0; 3]);
}

/// Chooses a side at run time.
fn choose_side(device: bool) -> Either<Fallback<Device, Cpu>, Cpu> {
    if device {
        Either::Left(Fallback::new(Device::limited(), Cpu::new()))
    } else {
        Either::Right(Cpu::new())
    }
}

#[test]
fn a_backend_is_chosen_at_run_time() {
    assert_eq!(
        run::<f16, _>(&choose_side(false), &[5, 1]).unwrap(),
        run::<f16, _>(&Cpu::new(), &[5, 1]).unwrap()
    );
    assert_eq!(
        run::<f16, _>(&choose_side(true), &[5, 1]).unwrap(),
        run::<f16, _>(&Device::limited(), &[5, 1]).unwrap()
    );
    assert_eq!((choose_side(true).name(), choose_side(false).name()), ("device", "cpu"));
}

#[test]
fn tensors_of_two_sides_do_not_mix() {
    let (left, right) = (choose_side(true), choose_side(false));
    let (x, w) = (tensor::<_, f32>(&left, &[2, 8], 1), tensor::<_, f32>(&right, &[8], 2));
    let error = left.rms_norm(x.as_ref(), w.as_ref(), RmsNorm::eps(1e-5)).unwrap_err();
    assert!(matches!(error, Error::WrongSide { call: "rms_norm" }), "{error}");
    assert!(matches!(x.as_ref().to_vec(&right), Err(Error::WrongSide { call: "read" })));
    assert!(matches!(left.wait(&right.mark().unwrap()), Err(Error::WrongSide { call: "wait" })));
}

#[test]
fn queues_fork_through_every_combinator() {
    fn fork<B: ElementwiseOps<f32>>(b: &B) {
        let event = b.mark().unwrap();
        let other = b.fork().unwrap();
        other.wait(&event).unwrap();
        let x: TensorOf<B, f32> = b.tensor(&[2], &data::<f32>(2, 1)).unwrap();
        // The fork computes on the same memory.
        let y = other.neg(x.as_ref()).unwrap();
        other.synchronize().unwrap();
        assert_eq!(values(b, y.as_ref())[0], -values(b, x.as_ref())[0]);
    }
    fork(&Cpu::new());
    fork(&Fallback::new(Device::limited(), Cpu::new()));
    fork(&Checked::new(Device::limited(), Cpu::new()));
    fork(&choose_side(true));
}

/// The writes to the device that `zeros` of 1 MiB causes.
fn zeros_written<B: Backend>(b: &B, device: &Device) -> Vec<Transfer> {
    device.transfers();
    let x = b.zeros::<f32>(&[1 << 18]).unwrap();
    assert!(values(b, x.as_ref()).iter().all(|v| *v == 0.0));
    device.transfers().into_iter().filter(|t| matches!(t, Transfer::Write(_))).collect()
}

#[test]
fn zeros_are_created_in_device_memory() {
    // A device that fills memory itself still does so behind every combinator.
    let device = Device::new();
    assert_eq!(zeros_written(&device, &device), []);
    assert_eq!(zeros_written(&Fallback::new(device.clone(), Cpu::new()), &device), []);
    assert_eq!(zeros_written(&Checked::new(device.clone(), Reference::new()), &device), []);
    assert_eq!(zeros_written(&Either::<Device, Cpu>::Left(device.clone()), &device), []);
    assert_eq!(zeros_written(&Either::<Cpu, Device>::Right(device.clone()), &device), []);
}

#[test]
fn memory_from_a_combinator_is_what_its_backend_gives() {
    fn all<B: Backend>(b: &B) {
        let x = b.tensor(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(b.read_vec(x.as_ref().data(), 2, 3).unwrap(), [3.0, 4.0, 5.0]);
        assert_eq!(b.empty::<u8>(x.shape()).unwrap().dims(), [2, 3]);
        assert_eq!(b.zeros::<f64>(&[0, 4]).unwrap().dims(), [0, 4]);
        assert!(b.zeros::<f64>(&[usize::MAX, 2]).is_err() && b.tensor(&[3], &[1u8]).is_err());
        assert_eq!(values(b, b.zeros::<i64>(&[3]).unwrap().as_ref()), [0.0; 3]);
    }
    let device = Device::new();
    all(&Cpu::new());
    all(&device);
    all(&Fallback::new(device.clone(), Cpu::new()));
    all(&Checked::new(device.clone(), Reference::new()));
    all(&Either::<Device, Cpu>::Left(device.clone()));
    all(&Either::<Device, Cpu>::Right(Cpu::new()));
    // With two sides, the memory comes from the chosen one.
    let (l, r) = (Either::<Device, Cpu>::Left(device), Either::<Device, Cpu>::Right(Cpu::new()));
    let x = l.tensor(&[1], &[1.0f32]).unwrap();
    assert!(matches!(r.read_vec(x.as_ref().data(), 0, 1), Err(Error::WrongSide { .. })));
}

/// A backend with only the required methods.
#[derive(Clone)]
struct Bare(Device);

impl Backend for Bare {
    type Space = DeviceMemory;
    type Event = ();

    fn name(&self) -> &'static str {
        "bare"
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<<DeviceMemory as Space>::Buffer<T>> {
        // Not zero, so that writing zeros is observable.
        self.0.upload(&vec![all_ones::<T>(); len])
    }
    fn read<T: Element>(
        &self,
        src: <DeviceMemory as Space>::Ref<'_, T>,
        start: usize,
        dst: &mut [T],
    ) -> Result<()> {
        self.0.read(src, start, dst)
    }
    fn write<T: Element>(
        &self,
        src: &[T],
        dst: <DeviceMemory as Space>::Mut<'_, T>,
        start: usize,
    ) -> Result<()> {
        self.0.write(src, dst, start)
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }
    fn mark(&self) -> Result<()> {
        Ok(())
    }
    fn wait(&self, (): &()) -> Result<()> {
        Ok(())
    }
}

/// An element with every bit set.
fn all_ones<T: Element>() -> T {
    let mut one = T::zeroed();
    bytemuck::bytes_of_mut(&mut one).fill(0xff);
    one
}

#[test]
fn zeros_by_default_need_little_host_memory() {
    let device = Device::new();
    let bare = Bare(device.clone());
    for len in [0usize, 1, 5, 1 << 14, (1 << 18) + 3] {
        device.transfers();
        let x = bare.zeros::<f32>(&[len]).unwrap();
        let writes = device.transfers().into_iter().filter_map(|t| match t {
            Transfer::Write(range) => Some(range.len()),
            Transfer::Read(_) => None,
        });
        // The first transfer is this backend's own, which fills fresh memory with ones.
        assert!(writes.skip(1).all(|len| len <= (64 << 10) / 4 + 1), "{len}");
        assert_eq!(values(&bare, x.as_ref()), vec![0.0; len]);
    }
}
