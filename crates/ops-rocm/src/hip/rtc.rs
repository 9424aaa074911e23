//! Compiling kernels at run time with hipRTC.

use crate::sync::Mutex;
use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::ptr::null_mut;

use hip_sys::hiprtc::{self as sys, HIPRTC_SUCCESS, hiprtcProgram, hiprtcResult};
use hip_sys::{LoadError, MissingSymbol, Search};

use super::error::CompileError;
use super::gfx::Gfx;
use super::module::CodeObject;
use super::result::Hip;

/// A source with the headers that it includes.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    /// Its name, for messages.
    pub name: &'s str,
    /// Its text.
    pub text: &'s str,
    /// Header names, as in the includes, and their texts.
    pub headers: &'s [(&'s str, &'s str)],
}

/// hipRTC.
#[derive(Debug)]
pub struct Compiler {
    lib: sys::Lib,
    /// hipRTC keeps state between its calls, and versions differ in how well they protect it.
    one_at_a_time: Mutex<()>,
}

impl Compiler {
    /// Opens the hipRTC that belongs to a HIP runtime.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when there is none.
    pub fn load(hip: &Hip) -> Result<Compiler, LoadError> {
        let lib = sys::load_from(hip.lib(), &Search::standard())?;
        Ok(Compiler { lib, one_at_a_time: Mutex::default() })
    }

    /// The open library.
    pub fn lib(&self) -> &sys::Lib {
        &self.lib
    }

    /// The file of comgr, the compiler that hipRTC uses, if it is known.
    pub fn comgr(&self) -> Option<PathBuf> {
        sys::comgr(&self.lib)
    }

    /// Whether this version of hipRTC knows an architecture. An unknown version counts as too old for one that ROCm 6.4 does not know.
    pub fn knows(&self, gfx: &Gfx) -> bool {
        gfx.since().is_none_or(|since| {
            self.lib.version().is_some_and(|version| (version.major, version.minor) >= since)
        })
    }

    /// Compiles a source for an architecture. `options` are the compiler's, without `--offload-arch`, which
    /// is always passed: without it, hipRTC reports an error without a reason.
    ///
    /// # Errors
    ///
    /// [`CompileError`], with the compiler's log. A hipRTC that does not [know](Self::knows) the architecture is not called.
    pub fn compile(
        &self,
        source: Source<'_>,
        gfx: &Gfx,
        options: &[&str],
    ) -> Result<CodeObject, CompileError> {
        let fail = |failure: String| CompileError {
            source: source.name.to_string(),
            gfx: gfx.to_string(),
            failure,
            log: String::new(),
        };
        if let Some((major, minor)) = gfx.since().filter(|_| !self.knows(gfx)) {
            let own =
                self.lib.version().map_or_else(|| "of unknown version".to_owned(), |own| own.to_string());
            return Err(fail(format!("this hipRTC is {own}, {gfx} requires ROCm {major}.{minor} or newer")));
        }
        let (names, texts): (Vec<&str>, Vec<&str>) = source.headers.iter().copied().unzip();
        let arch = format!("--offload-arch={gfx}");
        let options: Vec<&str> = [arch.as_str()].into_iter().chain(options.iter().copied()).collect();
        let c_strings =
            |texts: &[&str]| CStrings::new(texts).map_err(|text| fail(format!("a zero in {text:?}")));
        let (mut names, mut texts, mut options) =
            (c_strings(&names)?, c_strings(&texts)?, c_strings(&options)?);
        let source_texts = c_strings(&[source.text, source.name])?;

        let _one = self.one_at_a_time.lock();
        let mut handle = null_mut();
        // SAFETY: all texts end with a zero and outlive the program.
        let created = unsafe {
            let [text, name] = [source_texts.pointers[0], source_texts.pointers[1]];
            let count = texts.count();
            self.lib.hiprtcCreateProgram(
                &mut handle,
                text,
                name,
                count,
                texts.as_mut_ptr(),
                names.as_mut_ptr(),
            )
        };
        self.check("hiprtcCreateProgram", created).map_err(fail)?;
        let program = Program { lib: &self.lib, handle };
        // SAFETY: the program is live, the options end with zeros.
        let compiled =
            unsafe { self.lib.hiprtcCompileProgram(handle, options.count(), options.as_mut_ptr()) };
        self.check("hiprtcCompileProgram", compiled)
            .and_then(|()| self.code(&program))
            .map_err(|failure| CompileError { log: self.log(&program).unwrap_or_default(), ..fail(failure) })
    }

    fn code(&self, program: &Program<'_>) -> Result<CodeObject, String> {
        let mut bytes = 0;
        // SAFETY: the program is live; one size is written.
        let sized = unsafe { self.lib.hiprtcGetCodeSize(program.handle, &mut bytes) };
        self.check("hiprtcGetCodeSize", sized)?;
        if bytes == 0 {
            return Err("hiprtcGetCodeSize returned 0".to_string());
        }
        let mut code = vec![0u8; bytes];
        // SAFETY: the program is live; the buffer has as many bytes as are written.
        let copied = unsafe { self.lib.hiprtcGetCode(program.handle, code.as_mut_ptr().cast()) };
        self.check("hiprtcGetCode", copied)?;
        // SAFETY: the compiler's complete output.
        Ok(unsafe { CodeObject::from_bytes(&code) })
    }

    fn log(&self, program: &Program<'_>) -> Result<String, String> {
        let mut bytes = 0;
        // SAFETY: the program is live; one size is written.
        let sized = unsafe { self.lib.hiprtcGetProgramLogSize(program.handle, &mut bytes) };
        self.check("hiprtcGetProgramLogSize", sized)?;
        // The log's size may or may not include the final zero.
        let mut log = vec![0u8; bytes + 1];
        // SAFETY: the program is live; the buffer has as many bytes as are written.
        let copied = unsafe { self.lib.hiprtcGetProgramLog(program.handle, log.as_mut_ptr().cast()) };
        self.check("hiprtcGetProgramLog", copied)?;
        Ok(CStr::from_bytes_until_nul(&log).map(|log| log.to_string_lossy().into_owned()).unwrap_or_default())
    }

    fn check(&self, call: &str, status: Result<hiprtcResult, MissingSymbol>) -> Result<(), String> {
        match status {
            Ok(HIPRTC_SUCCESS) => Ok(()),
            Ok(code) => Err(format!("{call} failed with {} ({code})", sys::status_name(code).unwrap_or("?"))),
            Err(missing) => Err(missing.to_string()),
        }
    }
}

/// A hipRTC program.
struct Program<'l> {
    lib: &'l sys::Lib,
    handle: hiprtcProgram,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is live, and not used afterwards.
        let destroyed = unsafe { self.lib.hiprtcDestroyProgram(&mut self.handle) };
        if destroyed != Ok(HIPRTC_SUCCESS) {
            tracing::warn!("hiprtcDestroyProgram failed: {destroyed:?}");
        }
    }
}

/// A list of texts for C.
struct CStrings {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl CStrings {
    /// If a text contains a zero byte, it is returned as the error.
    fn new(texts: &[&str]) -> Result<CStrings, String> {
        let texts = texts.iter().map(|&text| CString::new(text).map_err(|_| text.to_string()));
        let texts: Vec<CString> = texts.collect::<Result<_, _>>()?;
        let pointers = texts.iter().map(|text| text.as_ptr()).collect();
        Ok(CStrings { _texts: texts, pointers })
    }

    fn count(&self) -> i32 {
        self.pointers.len() as i32
    }

    fn as_mut_ptr(&mut self) -> *mut *const c_char {
        self.pointers.as_mut_ptr()
    }
}
