//! The bridge to `rocm-rs`, compared with the reference. Programs with `rocm-rs` link ROCm, so
//! `tools/ci/bridge.sh` builds and runs this, linking the stand-in.
use ops_core::Backend;
use ops_core::ops::*;
use ops_cpu::Reference;
use ops_rocm::Rocm;
use ops_rocm::bridge::{self, Bridge};
use rocm_rs::hip::{Device, DeviceMemory, Stream, stream_flags};

const SHAPE: [usize; 4] = [2, 3, 5, 8];
const LEN: usize = 240;

fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 37 + 11) % 65) as f32 / 16.0 - 2.0).collect()
}

fn memory(values: &[f32]) -> DeviceMemory<f32> {
    let mut memory = DeviceMemory::new(values.len()).unwrap();
    memory.copy_from_host(values).unwrap();
    memory
}

fn check(got: &DeviceMemory<f32>, want: &[f32], stream: &Stream) {
    stream.synchronize().unwrap();
    let mut host = vec![0.0f32; want.len()];
    got.copy_to_host(&mut host).unwrap();
    for (got, want) in host.iter().zip(want) {
        assert!((got - want).abs() < 1e-5, "{got} is not {want}");
    }
}

#[test]
fn norms_are_those_of_the_reference() {
    let stream = Device::current().unwrap().get_stream_with_flags(stream_flags::NON_BLOCKING).unwrap();
    let (x, w, b) = (values(LEN), values(8), values(11)[3..].to_vec());
    let (dx, dw, db, mut dy) = (memory(&x), memory(&w), memory(&b), memory(&[0.0; LEN]));
    let host = |v: &[f32], dims: &[usize]| Reference.tensor(dims, v).unwrap();
    let (hx, hw, hb) = (host(&x, &[30, 8]), host(&w, &[8]), host(&b, &[8]));

    bridge::rms_norm_f32(&dx, &mut dy, &dw, 30, 8, 1e-5, &stream).unwrap();
    let want = Reference.rms_norm(hx.as_ref(), hw.as_ref(), RmsNorm::eps(1e-5f32.into())).unwrap();
    check(&dy, &want.as_ref().to_vec(&Reference).unwrap(), &stream);

    bridge::layer_norm_f32(&dx, &mut dy, &dw, &db, 30, 8, 1e-5, &stream).unwrap();
    let op = LayerNorm::eps(1e-5f32.into());
    let want =
        Reference.layer_norm(hx.as_ref(), Some(hw.as_ref().any()), Some(hb.as_ref().any()), op).unwrap();
    check(&dy, &want.as_ref().to_vec(&Reference).unwrap(), &stream);

    let error = bridge::rms_norm_f32(&dx, &mut dy, &dw, 31, 8, 1e-5, &stream).unwrap_err();
    assert!(error.to_string().contains("[31, 8]"), "{error}");
}

#[test]
fn ropes_are_those_of_the_reference() {
    type Function = fn(
        &DeviceMemory<f32>,
        &DeviceMemory<f32>,
        &DeviceMemory<f32>,
        &mut DeviceMemory<f32>,
        usize,
        usize,
        usize,
        usize,
        usize,
        &Stream,
    ) -> ops_core::Result<()>;
    let stream = Device::current().unwrap().get_stream_with_flags(stream_flags::NON_BLOCKING).unwrap();
    let [b, one, two, d] = SHAPE;
    let functions: [(Function, RopeForm, usize); 3] = [
        (bridge::rope_f32, RopeForm::Half, two),
        (bridge::rope_i_f32, RopeForm::Interleaved, two),
        (bridge::rope_thd_f32, RopeForm::HalfThd, one),
    ];
    for (function, form, t) in functions {
        for (stride, dims) in [(0, vec![t, d / 2]), (LEN / b, vec![b, t, d / 2])] {
            let rows = dims.iter().product();
            let (x, cos, sin) = (values(LEN), values(rows), values(rows + 5)[5..].to_vec());
            let (dx, dc, ds, mut dy) = (memory(&x), memory(&cos), memory(&sin), memory(&[0.0; LEN]));
            function(&dx, &dc, &ds, &mut dy, b, one, two, d, stride, &stream).unwrap();
            let host = |v: &[f32], dims: &[usize]| Reference.tensor(dims, v).unwrap();
            let (x, cos, sin) = (host(&x, &SHAPE), host(&cos, &dims), host(&sin, &dims));
            let want = Reference.rope(x.as_ref(), cos.as_ref(), sin.as_ref(), Rope::new(form)).unwrap();
            check(&dy, &want.as_ref().to_vec(&Reference).unwrap(), &stream);
            let refused = function(&dx, &dc, &ds, &mut dy, b, one, two, d, 7, &stream).unwrap_err();
            assert!(refused.to_string().contains("stride_b is 7"), "{refused}");
        }
    }
}

#[test]
fn any_op_runs_on_their_memory_and_stream() {
    let stream = Device::current().unwrap().get_stream_with_flags(stream_flags::NON_BLOCKING).unwrap();
    let x = values(LEN);
    let (dx, mut dy) = (memory(&x), memory(&[0.0; LEN]));
    Bridge::scope(&stream, |bridge| {
        let view = bridge.tensor(&dx, &[30, 8]).unwrap();
        let turned = view.view().unwrap().transpose(0, 1).unwrap();
        let mut out = bridge.tensor_mut(&mut dy, &[8, 30]).unwrap();
        bridge.backend().copy_into(turned, out.view().unwrap()).unwrap();
        assert!(bridge.tensor(&dx, &[31, 8]).is_err(), "there is no room for it");
    })
    .unwrap();
    let want: Vec<f32> = (0..LEN).map(|i| x[i % 30 * 8 + i / 30]).collect();
    check(&dy, &want, &stream);
}

unsafe extern "C" {
    /// A function of the stand-in.
    safe fn standin_misuses() -> u64;
}

fn new_stream() -> Stream {
    Device::current().unwrap().get_stream_with_flags(stream_flags::NON_BLOCKING).unwrap()
}

fn is_over<T: std::fmt::Debug>(result: ops_core::Result<T>) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains("the loan has ended"), "{error}");
}

#[test]
fn nothing_of_a_scope_uses_the_stream_after_it() {
    let before = standin_misuses();
    let product = |b: &Rocm| {
        let a = b.tensor(&[8, 8], &values(64)).unwrap();
        b.matmul(a.as_ref(), a.as_ref()).unwrap()
    };
    let (rocm, other, kept, foreign, event) = {
        let stream = new_stream();
        Bridge::scope(&stream, |bridge| {
            let rocm = bridge.backend().clone();
            let other = rocm.fork().unwrap();
            // A library's handle, a buffer, a buffer that both queues used, and an event.
            let kept = product(&rocm);
            let foreign = product(&other);
            rocm.add(foreign.as_ref(), kept.as_ref()).unwrap();
            let event = rocm.mark().unwrap();
            (rocm, other, kept, foreign, event)
        })
        .unwrap()
    };
    is_over(rocm.tensor(&[8], &values(8)));
    is_over(rocm.add(kept.as_ref(), kept.as_ref()));
    is_over(rocm.matmul(kept.as_ref(), kept.as_ref()));
    is_over(rocm.synchronize());
    is_over(rocm.mark().map(drop));
    is_over(rocm.fork().map(drop));
    is_over(kept.as_ref().to_vec(&rocm));
    // A queue that is still alive can read the results.
    assert!(event.is_reached().unwrap());
    event.synchronize().unwrap();
    other.wait(&event).unwrap();
    let sum = other.add(kept.as_ref(), foreign.as_ref()).unwrap();
    let (sum, want) = (sum.as_ref().to_vec(&other).unwrap(), kept.as_ref().to_vec(&other).unwrap());
    assert!(sum.iter().zip(&want).all(|(sum, want)| *sum == 2.0 * want));
    drop((kept, foreign, event, rocm));
    other.synchronize().unwrap();
    drop(other);
    assert_eq!(standin_misuses(), before);
}

#[test]
fn a_scope_ends_by_a_panic_too() {
    let (before, mut escaped) = (standin_misuses(), None);
    let stream = new_stream();
    let work = std::panic::AssertUnwindSafe(|| {
        Bridge::scope(&stream, |bridge| {
            escaped = Some(bridge.backend().clone());
            panic!("in the scope");
        })
    });
    assert!(std::panic::catch_unwind(work).is_err());
    drop(stream);
    is_over(escaped.unwrap().tensor(&[8], &values(8)));
    assert_eq!(standin_misuses(), before);
}

/// Threads use a clone while the scope ends and the stream is destroyed.
#[test]
fn a_scope_ends_while_other_threads_use_its_queue() {
    let (before, mut rounds) = (standin_misuses(), 0);
    for round in 0..20 {
        let mut threads = Vec::new();
        let stream = new_stream();
        Bridge::scope(&stream, |bridge| {
            for _ in 0..3 {
                let rocm = bridge.backend().clone();
                threads.push(std::thread::spawn(move || {
                    let other = rocm.fork();
                    let run = |done: &mut usize| -> ops_core::Result<()> {
                        loop {
                            let x = rocm.tensor(&[64], &values(64))?;
                            let y = rocm.add(x.as_ref(), x.as_ref())?;
                            if let Ok(other) = &other {
                                other.mul(y.as_ref(), y.as_ref())?;
                            }
                            rocm.mark()?.is_reached()?;
                            y.as_ref().to_vec(&rocm)?;
                            *done += 1;
                        }
                    };
                    let mut done = 0;
                    is_over(run(&mut done));
                    done
                }));
            }
            std::thread::sleep(std::time::Duration::from_millis(1 + round % 5));
        })
        .unwrap();
        drop(stream);
        rounds += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>();
    }
    assert!(rounds > 0, "no thread used the queue while it was open");
    assert_eq!(standin_misuses(), before);
}
