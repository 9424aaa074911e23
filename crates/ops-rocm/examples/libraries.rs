//! Prints the installed ROCm libraries: where they are, their versions, and which bound functions they lack.
//! With `--compile`, hipRTC also compiles an empty kernel for every known architecture. Needs no GPU.

use std::process::ExitCode;

use hip_sys::{Functions, Library, LoadError};
use ops_rocm::hip::{Compiler, Gfx, Hip, Source};

fn main() -> ExitCode {
    let mut whole = show("HIP", hip_sys::hip::load());
    whole &= show("hipRTC", hip_sys::hiprtc::load());
    whole &= show("rocBLAS", rocblas_sys::load());
    whole &= show("hipBLASLt", hipblaslt_sys::load());
    whole &= show("MIOpen", miopen_sys::load());
    whole &= show("RCCL", rccl_sys::load());
    if std::env::args().any(|arg| arg == "--compile") {
        whole &= compile();
    }
    if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the library was found and has every function.
fn show<F: Functions>(name: &str, loaded: Result<Library<F>, LoadError>) -> bool {
    let library = match loaded {
        Ok(library) => library,
        Err(error) => {
            println!("{name}: {error}");
            return false;
        }
    };
    let version = library.version().map_or("of unknown version".to_string(), |version| version.to_string());
    let missing = library.missing();
    let (bound, path) = (F::SYMBOLS.len(), library.path().display());
    println!(
        "{name} {version}, {path}: {} of {bound} functions {}",
        bound - missing.len(),
        missing.join(" ")
    );
    missing.is_empty()
}

fn compile() -> bool {
    let compiler = match Hip::load().and_then(|hip| Compiler::load(&hip)) {
        Ok(compiler) => compiler,
        Err(error) => {
            println!("{error}");
            return false;
        }
    };
    let text = r#"extern "C" __attribute__((global)) void nothing() {}"#;
    let source = Source { name: "nothing.hip", text, headers: &[] };
    let (mut compiled, mut known) = (0, 0);
    for gfx in Gfx::known().filter(|gfx| compiler.knows(gfx)) {
        known += 1;
        match compiler.compile(source, &gfx, &[]) {
            Ok(_) => compiled += 1,
            Err(error) => println!("{error}"),
        }
    }
    println!("hipRTC compiles for {compiled} of {known} known architectures");
    compiled == known
}
