//! With feature `aot`: compiles this project's kernels, so that a program needs no compiler where it runs.
// By their paths: modules of a build script would otherwise lie beside it, and the library's file is used as it is, because a crate
// for it alone would have to be built before everything here.
#[cfg(feature = "aot")]
#[path = "build/aot.rs"]
mod aot;
#[cfg(feature = "aot")]
#[allow(dead_code)]
#[path = "src/fingerprint.rs"]
mod fingerprint;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "aot")]
    if let Err(message) = aot::main() {
        println!("cargo::error={}", message.replace('\n', "; "));
        eprintln!("{message}");
        std::process::exit(1);
    }
}
