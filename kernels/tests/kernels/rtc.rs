//! hipRTC of the stand-in for ROCm. It keeps what it compiled, so the conformance suite on the stand-in, which needs the same units,
//! finds them compiled. A warning is an error.
use libloading::{Library, Symbol};
use ops_kernels::{Matrix, Unit, source, target};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::LazyLock;

/// Two wave sizes and every kind of matrix units.
const TARGETS: [&str; 4] = ["gfx1201", "gfx90a", "gfx1100", "gfx942"];

/// The header of the stand-in's code objects, before the shared library.
const HEADER_BYTES: usize = 104;

type Create = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
type Copy = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut *mut c_void) -> c_int;

static RTC: LazyLock<Library> = LazyLock::new(|| {
    let build = hip_standin::Build::new(false).expect("the target folder is writable");
    let folder = build.libraries().expect("the stand-in can be built");
    // SAFETY: the library's constructors only read its settings.
    unsafe { Library::new(folder.join("libhiprtc.so.7")) }.expect("the stand-in loads")
});

/// The unit as a shared library for the host, for a wave size and, if it needs them, matrix units.
pub(crate) fn compile(unit: Unit, wave: u32, matrix: Option<Matrix>) -> Vec<u8> {
    let fits =
        |name: &&str| target::wave_of(name) == Some(wave) && (matrix.is_none() || Matrix::of(name) == matrix);
    let target = TARGETS.iter().copied().find(fits).expect("a target with these units");
    let options = source::hiprtc_options(target).expect("a known target");
    let c_string = |text: String| CString::new(text).expect("no zero in a source");
    let options: Vec<CString> = options.into_iter().map(c_string).collect();
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let (text, name) = (c_string(unit.text(target)), c_string(unit.name()));
    // SAFETY: the declarations are those of hipRTC; all texts end with a zero and live until the end of this function, and
    // `read` gets as many bytes as are written.
    unsafe {
        let mut program = null_mut();
        let created = function::<Create>("hiprtcCreateProgram")(
            &mut program,
            text.as_ptr(),
            name.as_ptr(),
            0,
            [].as_ptr(),
            [].as_ptr(),
        );
        assert_eq!(created, 0, "hiprtcCreateProgram");
        let compiled =
            function::<Compile>("hiprtcCompileProgram")(program, options.len() as c_int, options.as_ptr());
        let log = read(program, "hiprtcGetProgramLogSize", "hiprtcGetProgramLog");
        assert!(compiled == 0, "{} for {target}: {}", unit.name(), String::from_utf8_lossy(&log));
        let code = read(program, "hiprtcGetCodeSize", "hiprtcGetCode");
        function::<Destroy>("hiprtcDestroyProgram")(&mut program);
        code.get(HEADER_BYTES..).expect("a code object of the stand-in").to_vec()
    }
}

fn function<F>(name: &str) -> Symbol<'static, F> {
    // SAFETY: the callers name each function with its declaration.
    unsafe { RTC.get(name.as_bytes()) }.expect("the stand-in has the function")
}

/// # Safety
/// The program is live, and the functions are a size and a text or code of that size.
unsafe fn read(program: *mut c_void, size: &str, copy: &str) -> Vec<u8> {
    let mut bytes = 0;
    // SAFETY: one size is written, and then as many bytes.
    unsafe {
        assert_eq!(function::<Size>(size)(program, &mut bytes), 0, "{size}");
        let mut out = vec![0u8; bytes];
        assert_eq!(function::<Copy>(copy)(program, out.as_mut_ptr().cast()), 0, "{copy}");
        out
    }
}
