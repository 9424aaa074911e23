//! Compiling, loading and launching kernels on the stand-in, and what remains when something fails.

mod common;

use common::{Standin, with_standin};
use ops_rocm::hip::{
    CodeObject, Compiler, Device, DeviceInfo, DeviceMemory, Error, Function, Gfx, IndexFault, KernelArgs,
    Launch, Module, Purpose, Result, Source, Stream,
};

const SOURCE: Source<'_> = Source { name: "kernels.hip", text: include_str!("kernels.hip"), headers: &[] };

#[repr(C)]
#[derive(Clone, Copy)]
struct Scale {
    x: *const f32,
    y: *mut f32,
    count: u64,
    factor: f32,
    reserved: u32,
}

// SAFETY: matches, field by field, the structure in kernels.hip, which has no padding.
unsafe impl KernelArgs for Scale {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Gather {
    record: *mut u8,
    index: *const i32,
    count: u64,
    bound: u64,
}

// SAFETY: as above.
unsafe impl KernelArgs for Gather {}

fn code(standin: &Standin<'_>, device: &Device) -> CodeObject {
    let wave = format!("-DOPS_WAVE={}", device.info().wave_size);
    let compiler = Compiler::load(&standin.hip).unwrap();
    compiler.compile(SOURCE, &device.info().gfx, &["-O3", "-std=c++17", &wave]).unwrap()
}

fn bytes_of<T: Copy>(values: &[T]) -> Vec<u8> {
    // SAFETY: numbers have no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) }.to_vec()
}

/// `y = factor x`, on a stream that need not be the home of either.
fn scale(
    function: &Function,
    stream: &Stream,
    x: &DeviceMemory,
    y: &mut DeviceMemory,
    factor: f32,
) -> Result<()> {
    let count = (x.len() / 4) as u64;
    let (from, to) = (x.access(stream, Purpose::Read)?, y.access(stream, Purpose::Write)?);
    let args = Scale { x: from.address().cast(), y: to.address().cast(), count, factor, reserved: 0 };
    // SAFETY: the kernel reads and writes `count` floats, which both have, and the stream may access both.
    unsafe { function.launch(stream, Launch::line(count.div_ceil(256) as u32, 256), &args) }
}

fn launch_and_compare(standin: &Standin<'_>) {
    launch_and_compare_on(standin, &standin.device());
}

fn launch_and_compare_on(standin: &Standin<'_>, device: &Device) {
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let module = Module::load(device, code(standin, device)).unwrap();
    let function = module.function("scale").unwrap();
    drop(module);
    let values: Vec<f32> = (0..1000).map(|i| i as f32 - 500.0).collect();
    let mut x = DeviceMemory::new(&stream, 4000).unwrap();
    let mut y = DeviceMemory::new(&stream, 4000).unwrap();
    x.write(&stream, 0, &bytes_of(&values)).unwrap();
    scale(&function, &other, &x, &mut y, -0.5).unwrap();
    let wanted: Vec<f32> = values.iter().map(|v| v * -0.5).collect();
    assert!(y.read(&stream, 0, 4000).unwrap() == bytes_of(&wanted));
}

#[test]
fn a_kernel_is_compiled_loaded_and_launched_on_waves_of_32() {
    let variables = [("HIP_STANDIN_WAVE", "32"), ("HIP_STANDIN_DELAY_US", "2000")];
    with_standin("a_kernel_is_compiled_loaded_and_launched_on_waves_of_32", &variables, launch_and_compare);
}

/// Works with any current device: AMD's runtime crashes when it is asked about a kernel of another device.
#[test]
fn kernels_run_on_both_devices_whichever_is_current() {
    let variables = [("HIP_STANDIN_DEVICES", "gfx1036:integrated,gfx1100"), ("HIP_STANDIN_DELAY_US", "2000")];
    with_standin("kernels_run_on_both_devices_whichever_is_current", &variables, |standin| {
        let devices = DeviceInfo::all(&standin.hip).unwrap();
        let devices: Vec<_> = devices.into_iter().map(|info| Device::new(&standin.hip, info)).collect();
        std::thread::scope(|scope| {
            for (device, current) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let device = &devices[device];
                scope.spawn(move || {
                    standin.hip.set_device(current).unwrap();
                    launch_and_compare_on(standin, device);
                    assert_eq!(standin.hip.current_device(), Ok(current));
                });
            }
        });
    });
}

#[test]
fn a_kernel_is_compiled_loaded_and_launched_on_waves_of_64() {
    let variables = [("HIP_STANDIN_WAVE", "64"), ("HIP_STANDIN_DELAY_US", "2000")];
    with_standin("a_kernel_is_compiled_loaded_and_launched_on_waves_of_64", &variables, launch_and_compare);
}

#[test]
fn the_compilers_words_are_in_the_error() {
    with_standin("the_compilers_words_are_in_the_error", &[], |standin| {
        let compiler = Compiler::load(&standin.hip).unwrap();
        let source = Source {
            name: "broken.hip",
            text: "#include \"there.h\"\nint f() { return no_such_name; }",
            headers: &[("there.h", "// a header")],
        };
        let error = compiler.compile(source, &Gfx::parse("gfx1100").unwrap(), &[]).unwrap_err();
        assert!(error.failure.contains("HIPRTC_ERROR_COMPILATION"), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("broken.hip") && text.contains("gfx1100") && text.contains("no_such_name"),
            "{text}"
        );
        assert!(!text.contains("there.h:"), "{text}");
    });
}

#[test]
fn a_code_object_of_another_device_and_an_unknown_kernel_are_errors() {
    with_standin("a_code_object_of_another_device_and_an_unknown_kernel_are_errors", &[], |standin| {
        let device = standin.device();
        // SAFETY: the stand-in checks a code object's first bytes before it uses the rest.
        let foreign = unsafe { CodeObject::from_bytes(&[0x7f; 4096]) };
        let error = Module::load(&device, foreign).unwrap_err();
        assert!(
            matches!(&error, Error::Module { gfx, .. } if *gfx == device.info().gfx.to_string()),
            "{error}"
        );
        let module = Module::load(&device, code(standin, &device)).unwrap();
        let error = module.function("no_such_kernel").unwrap_err();
        assert!(matches!(&error, Error::NoKernel { kernel, .. } if kernel == "no_such_kernel"), "{error}");
        assert!(matches!(module.function("a\0b"), Err(Error::Launch { .. })));
    });
}

#[test]
fn impossible_sizes_are_refused_before_hip_sees_them() {
    with_standin("impossible_sizes_are_refused_before_hip_sees_them", &[], |standin| {
        let (device, stream) = standin.device_and_stream();
        let function = Module::load(&device, code(standin, &device)).unwrap().function("scale").unwrap();
        let args = Scale { x: std::ptr::null(), y: std::ptr::null_mut(), count: 0, factor: 0.0, reserved: 0 };
        let too_much_lds = Launch { dynamic_lds: 1 << 30, ..Launch::line(1, 32) };
        for launch in [Launch::line(0, 256), Launch::line(1, 0), Launch::line(1, 1025), too_much_lds] {
            // SAFETY: the kernel is not run, and would not access memory.
            let error = unsafe { function.launch(&stream, launch, &args) }.unwrap_err();
            assert!(matches!(&error, Error::Launch { kernel, .. } if kernel == "scale"), "{error}");
        }
        assert_eq!(standin.count("hipModuleLaunchKernel"), 0);
    });
}

#[test]
fn an_index_out_of_range_is_told_once_on_the_stream_that_met_it() {
    with_standin("an_index_out_of_range_is_told_once_on_the_stream_that_met_it", &[], |standin| {
        let (device, stream) = standin.device_and_stream();
        let other = device.stream().unwrap();
        let function =
            Module::load(&device, code(standin, &device)).unwrap().function("check_indices").unwrap();
        let check = |indices: &[i32]| {
            let mut memory = DeviceMemory::new(&stream, indices.len() * 4).unwrap();
            memory.write(&stream, 0, &bytes_of(indices)).unwrap();
            let (record, index) =
                (stream.index_check().unwrap(), memory.access(&stream, Purpose::Read).unwrap());
            let (record, index) = (record.address().cast(), index.address().cast());
            let args = Gather { record, index, count: indices.len() as u64, bound: 10 };
            // SAFETY: the kernel reads `count` indices and writes the record.
            unsafe { function.launch(&stream, Launch::line(1, 32), &args) }.unwrap();
        };
        let taken = || {
            stream.synchronize().unwrap();
            stream.take_index_fault().unwrap()
        };
        check(&[0, 9, 5]);
        assert_eq!(taken(), None);
        check(&[3, -1, 77]);
        check(&[10]);
        assert_eq!(other.take_index_fault().unwrap(), None);
        let fault = IndexFault { op: 5, operand: 1, position: 1, index: -1, bound: 10 };
        assert_eq!(taken(), Some(fault));
        assert_eq!(taken(), None);
        check(&[1, 10]);
        assert_eq!(taken().map(|fault| fault.index), Some(10));
    });
}

/// Allocates all of the device's memory and leaves it in the cache.
fn fill_cache(stream: &Stream) {
    let blocks: Vec<_> = std::iter::from_fn(|| DeviceMemory::new(stream, 16 << 10).ok()).collect();
    assert!(blocks.len() > 50, "{} blocks", blocks.len());
}

#[test]
fn what_takes_device_memory_is_given_what_is_cached() {
    let small = [("HIP_STANDIN_MEMORY", "2097152"), ("HIP_STANDIN_OVERHEAD", "65536")];
    with_standin("what_takes_device_memory_is_given_what_is_cached", &small, |standin| {
        let (device, stream) = standin.device_and_stream();
        let code = code(standin, &device);
        fill_cache(&stream);
        let other = device.stream().unwrap();
        fill_cache(&stream);
        let module = Module::load(&device, code.clone()).unwrap();
        fill_cache(&stream);
        other.index_check().unwrap();
        assert_eq!((device.memory_stats().retries, device.memory_stats().trims), (3, 3));

        // Memory in use is not freed, and the error says what to do.
        let held: Vec<_> = std::iter::from_fn(|| DeviceMemory::new(&stream, 16 << 10).ok()).collect();
        let error = device.stream().unwrap_err();
        assert!(error.to_string().contains("hipErrorOutOfMemory"), "{error}");
        let error = Module::load(&device, code.clone()).unwrap_err();
        assert!(matches!(&error, Error::Hip(source) if source.call() == "hipModuleLoadData"), "{error}");
        assert!(ops_core::Error::from(error).to_string().contains("the device is full"));
        drop(held);
        Module::load(&device, code).unwrap().function("scale").unwrap();
        drop(module);
    });
}

/// The operations of a typical program: memory, copies, a launch on a second stream, and a result.
fn step(device: &Device, function: &Function) -> Result<Vec<u8>> {
    let (home, other) = (device.stream()?, device.stream()?);
    let values: Vec<f32> = (0..600).map(|i| i as f32).collect();
    let mut x = DeviceMemory::new(&home, 2400)?;
    let mut y = DeviceMemory::new(&other, 2400)?;
    x.write(&home, 0, &bytes_of(&values))?;
    y.fill(&other, 0, 2400, 0)?;
    scale(function, &other, &x, &mut y, 2.0)?;
    let mut copy = DeviceMemory::new(&home, 2400)?;
    copy.copy_from(&home, 0, &y, 0, 2400)?;
    drop((x, y));
    let bytes = copy.read(&home, 0, 2400)?;
    home.synchronize()?;
    other.synchronize()?;
    Ok(bytes)
}

#[test]
fn every_call_of_a_step_may_fail_and_nothing_is_lost() {
    with_standin("every_call_of_a_step_may_fail_and_nothing_is_lost", &[], |standin| {
        const FUNCTIONS: [&str; 13] = [
            "hipGetDevice",
            "hipMalloc",
            "hipHostMalloc",
            "hipMemcpyAsync",
            "hipMemsetAsync",
            "hipStreamCreateWithFlags",
            "hipStreamSynchronize",
            "hipStreamWaitEvent",
            "hipEventCreateWithFlags",
            "hipEventRecord",
            "hipEventSynchronize",
            "hipModuleLaunchKernel",
            "kernel",
        ];
        let code = code(standin, &standin.device());
        let wanted: Vec<f32> = (0..600).map(|i| 2.0 * i as f32).collect();
        for (name, onwards) in FUNCTIONS.into_iter().flat_map(|name| [(name, ""), (name, "+")]) {
            let mut failures = 0;
            for nth in 1.. {
                let device = standin.device();
                let function = Module::load(&device, code.clone()).unwrap().function("scale").unwrap();
                let before = standin.count(name);
                let retries = device.memory_stats().retries;
                standin.fail(&format!("{name}:{nth}{onwards}"));
                let result = step(&device, &function).and_then(|_| device.synchronize());
                let reached = standin.count(name) - before >= nth;
                standin.fail("");
                // By design, a failed allocation is retried after freeing the cache.
                let mended = device.memory_stats().retries > retries;
                assert_eq!(result.is_err(), reached && !mended, "{name}:{nth}{onwards}: {result:?}");
                let again = (0..3).find_map(|_| step(&device, &function).ok());
                assert!(
                    again.as_deref() == Some(&bytes_of(&wanted)),
                    "{name}:{nth}{onwards}: unusable afterwards"
                );
                drop((function, device));
                assert_eq!(standin.live(), 0, "{name}:{nth}{onwards}: left behind");
                if !reached {
                    break;
                }
                failures += 1;
            }
            assert!(failures > 0, "a step does not call {name}");
        }
    });
}
