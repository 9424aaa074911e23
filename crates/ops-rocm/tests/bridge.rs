//! The bridge to `rocm-rs` against the reference. Programs with `rocm-rs` link ROCm, so this is built and run by
//! `tools/bridge.sh`, which links the stand-in.
use ops_core::ops::*;
use ops_core::{Backend, View};
use ops_cpu::Reference;
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
    let want = Reference.layer_norm(hx.as_ref(), Some(hw.as_ref()), Some(hb.as_ref()), op).unwrap();
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
    let bridge = Bridge::new(&stream).unwrap();
    let view = bridge.tensor(&dx, &[30, 8]).unwrap();
    let turned = view.view().unwrap().transpose(0, 1).unwrap();
    let mut out = bridge.tensor_mut(&mut dy, &[8, 30]).unwrap();
    bridge.backend().copy_into(turned, out.view().unwrap()).unwrap();
    assert!(bridge.tensor(&dx, &[31, 8]).is_err(), "there is no room for it");
    drop(bridge);
    let want: Vec<f32> = (0..LEN).map(|i| x[i % 30 * 8 + i / 30]).collect();
    check(&dy, &want, &stream);
}
