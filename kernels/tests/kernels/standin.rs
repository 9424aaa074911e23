//! The stand-in for ROCm, with a device for each wave size and kind of matrix units: compiles units and launches their kernels. It
//! keeps what it compiled, so the conformance suite, which needs the same units, finds them compiled. A warning is an error.
use hip_sys::{Search, hip, hiprtc};
use ops_kernels::{Device, Launch, Matrix, Unit, source, target};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

const TARGETS: [&str; 4] = ["gfx1201", "gfx90a", "gfx1100", "gfx942"];

struct Standin {
    hip: hip::Lib,
    rtc: hiprtc::Lib,
}

static STANDIN: LazyLock<Standin> = LazyLock::new(|| {
    let build = hip_standin::Build::new(false).expect("the target folder is writable");
    let folder = build.libraries().expect("the stand-in can be built");
    // Modules are never unloaded; without this setting, the stand-in would report them as leaks.
    let settings = [("HIP_STANDIN_DEVICES", TARGETS.join(",")), ("HIP_STANDIN_REPORT", "0".to_owned())];
    // SAFETY: the only code in this program that reads the environment without std's lock is the stand-in, which is loaded after this.
    unsafe {
        ["WAVE", "GFX", "LAUNCH", "STRICT"]
            .iter()
            .for_each(|name| std::env::remove_var(format!("HIP_STANDIN_{name}")));
        settings.into_iter().for_each(|(name, value)| std::env::set_var(name, value));
    }
    let search = Search::new().folder(folder);
    let hip = hip::load_from(&search).expect("the stand-in loads");
    let rtc = hiprtc::load_from(&hip, &search).expect("the stand-in's hipRTC loads");
    Standin { hip, rtc }
});

/// The number of the device with a wave size and, if a kernel needs them, matrix units.
fn ordinal(wave: u32, matrix: Option<Matrix>) -> usize {
    let fits =
        |name: &&str| target::wave_of(name) == Some(wave) && (matrix.is_none() || Matrix::of(name) == matrix);
    TARGETS.iter().position(fits).expect("a target with these units")
}

/// The unit's code object for a target.
fn compile(unit: Unit, target: &str) -> Vec<u8> {
    let rtc = &STANDIN.rtc;
    let options = source::hiprtc_options(target).expect("a known target");
    let c_string = |text: String| CString::new(text).expect("no zero in a source");
    let options: Vec<CString> = options.into_iter().map(c_string).collect();
    let mut options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let (text, name) = (c_string(unit.text(target)), c_string(unit.name()));
    let (mut program, mut bytes) = (null_mut(), 0);
    // SAFETY: all texts end with a zero and live until the end of this function, and each copy has the size that was asked for.
    unsafe {
        let created =
            rtc.hiprtcCreateProgram(&mut program, text.as_ptr(), name.as_ptr(), 0, null_mut(), null_mut());
        assert_eq!(created, Ok(hiprtc::HIPRTC_SUCCESS), "hiprtcCreateProgram");
        let compiled = rtc.hiprtcCompileProgram(program, options.len() as c_int, options.as_mut_ptr());
        assert_eq!(rtc.hiprtcGetProgramLogSize(program, &mut bytes), Ok(hiprtc::HIPRTC_SUCCESS));
        let mut log = vec![0u8; bytes];
        assert_eq!(rtc.hiprtcGetProgramLog(program, log.as_mut_ptr().cast()), Ok(hiprtc::HIPRTC_SUCCESS));
        let log = String::from_utf8_lossy(&log);
        assert_eq!(compiled, Ok(hiprtc::HIPRTC_SUCCESS), "{} for {target}: {log}", unit.name());
        assert_eq!(rtc.hiprtcGetCodeSize(program, &mut bytes), Ok(hiprtc::HIPRTC_SUCCESS));
        let mut code = vec![0u8; bytes];
        assert_eq!(rtc.hiprtcGetCode(program, code.as_mut_ptr().cast()), Ok(hiprtc::HIPRTC_SUCCESS));
        assert_eq!(rtc.hiprtcDestroyProgram(&mut program), Ok(hiprtc::HIPRTC_SUCCESS));
        code
    }
}

struct Module(hip::hipModule_t);

// SAFETY: a module is a handle, which HIP lets every thread use.
unsafe impl Send for Module {}
// SAFETY: the same.
unsafe impl Sync for Module {}

type Slot = Arc<OnceLock<Module>>;
static MODULES: LazyLock<Mutex<HashMap<(Unit, usize), Slot>>> = LazyLock::new(Mutex::default);

/// The unit on a device, which is the current one. It is compiled on first use, without blocking other units.
fn module(unit: Unit, device: usize) -> Slot {
    let slot = MODULES.lock().unwrap_or_else(|e| e.into_inner()).entry((unit, device)).or_default().clone();
    slot.get_or_init(|| {
        let (code, mut module) = (compile(unit, TARGETS[device]), null_mut());
        // SAFETY: the stand-in copies the code, which is complete.
        let loaded = unsafe { STANDIN.hip.hipModuleLoadData(&mut module, code.as_ptr().cast()) };
        assert_eq!(loaded, Ok(hip::hipSuccess), "{}", unit.name());
        Module(module)
    });
    slot
}

/// Held from a launch to its end: HIP reports a kernel's error to whichever thread waits for the device first.
static LAUNCHING: [Mutex<()>; TARGETS.len()] = [const { Mutex::new(()) }; TARGETS.len()];

/// Runs one launch to its end. The stand-in says on standard error what a kernel did wrong.
///
/// # Safety
/// The kernel may access all memory that its arguments name.
pub(crate) unsafe fn run(device: &Device, launch: &Launch, args: &[u8]) {
    let kernel = launch.instance;
    let matrix = device.matrix.filter(|_| kernel.family.needs_matrix());
    let ordinal = ordinal(device.wave, matrix);
    let hip = &STANDIN.hip;
    let symbol = CString::new(kernel.symbol.as_str()).expect("no zero in a name");
    let mut size = args.len();
    // HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END.
    let [pointer, bytes, end] = [1usize, 2, 3].map(|name| name as *mut c_void);
    let mut extra = [pointer, args.as_ptr().cast_mut().cast(), bytes, (&raw mut size).cast(), end];
    let [x, y, z] = launch.grid;
    // SAFETY: the module is of the current device, `extra` is as HIP wants it, and the caller promises the rest.
    let result = unsafe {
        assert_eq!(hip.hipSetDevice(ordinal as c_int), Ok(hip::hipSuccess));
        let slot = module(Unit::of(kernel), ordinal);
        let (module, mut function) = (slot.get().expect("loaded above").0, null_mut());
        let found = hip.hipModuleGetFunction(&mut function, module, symbol.as_ptr());
        assert_eq!(found, Ok(hip::hipSuccess), "{}", kernel.symbol);
        let _mine = LAUNCHING[ordinal].lock().unwrap_or_else(|e| e.into_inner());
        let (none, extra) = (null_mut(), extra.as_mut_ptr());
        let launched =
            hip.hipModuleLaunchKernel(function, x, y, z, launch.block, 1, 1, 0, null_mut(), none, extra);
        assert_eq!(launched, Ok(hip::hipSuccess), "{}", kernel.symbol);
        hip.hipDeviceSynchronize()
    };
    assert_eq!(result, Ok(hip::hipSuccess), "{} on {}", kernel.symbol, TARGETS[ordinal]);
}
