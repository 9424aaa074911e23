//! Compiling kernels before they are needed.
use ops_core::ops::*;
use ops_core::{Backend, Error, Result};
use ops_rocm::{KernelOrigin, Rocm};
use standin_testing::with_standin;
use std::fmt::{Debug, Write};
use std::sync::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

fn sums(rocm: &Rocm) -> Result<Vec<f32>> {
    let x = rocm.tensor(&[3], &[1.0f32, 2.0, 3.0])?;
    rocm.silu(&rocm.add(&x, &x)?)?;
    rocm.add(&x, &x)?.to_vec(rocm)
}

#[test]
fn calls_inside_are_not_launched_and_those_after_it_wait_for_no_compiler() {
    const TEST: &str = "prepare::calls_inside_are_not_launched_and_those_after_it_wait_for_no_compiler";
    with_standin(TEST, &[], |standin| {
        let rocm = Rocm::builder().no_cache().build().unwrap();
        let (mut order, mut inside) = (Vec::new(), Vec::new());
        let prepared = rocm.prepare_with(
            || {
                inside = sums(&rocm)?;
                sums(&rocm.fork()?).map(drop)
            },
            |unit, done, all| order.push((unit.name.clone(), done, all)),
        );
        let prepared = prepared.unwrap();
        assert_eq!(standin.count("kernel"), 0, "a kernel ran");
        assert_ne!(inside, [2.0, 4.0, 6.0]);
        let compiled = standin.count("hiprtcCompileProgram");
        order.sort_by_key(|(_, done, _)| *done);
        assert_eq!(order.iter().map(|(_, done, all)| (*done, *all)).collect::<Vec<_>>(), [(1, 2), (2, 2)]);
        assert_eq!((prepared.units().len(), prepared.compiled()), (2, 2));
        assert!(prepared.count(KernelOrigin::CompiledByHelper) > 0, "this process alone: {prepared}");
        assert_eq!(prepared.cache(), Err("this program uses no cache"));
        assert!(prepared.to_string().starts_with("2 units of kernels for gfx1100 ready in "), "{prepared}");

        assert_eq!(sums(&rocm).unwrap(), [2.0, 4.0, 6.0]);
        assert_eq!(standin.count("hiprtcCompileProgram"), compiled, "all were already loaded");
        let again = rocm.prepare(|| sums(&rocm).map(drop)).unwrap();
        assert_eq!((again.count(KernelOrigin::Loaded), again.compiled()), (2, 0));
    });
}

#[test]
fn other_threads_and_devices_are_not_affected() {
    with_standin("prepare::other_threads_and_devices_are_not_affected", &[], |_| {
        let (rocm, other) = (Rocm::new().unwrap(), Rocm::new().unwrap());
        let prepared = rocm.prepare(|| -> Result<()> {
            assert_eq!(sums(&other)?, [2.0, 4.0, 6.0], "opened independently");
            let on_another = std::thread::scope(|scope| scope.spawn(|| sums(&rocm)).join().unwrap());
            assert_eq!(on_another?, [2.0, 4.0, 6.0]);
            Ok(())
        });
        assert_eq!(prepared.unwrap().units().len(), 0);
    });
}

#[test]
fn errors_panics_and_nesting_end_it() {
    with_standin("prepare::errors_panics_and_nesting_end_it", &[], |_| {
        let rocm = Rocm::new().unwrap();
        let failed = rocm.prepare(|| Err(Error::param("test", "operand", 1, "2"))).unwrap_err();
        assert!(failed.to_string().contains("operand"), "{failed}");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = rocm.prepare(|| -> Result<()> { panic!("inside") });
        }));
        assert!(panicked.is_err());
        let nested = rocm.prepare(|| rocm.prepare(|| Ok::<(), Error>(())).map(drop)).unwrap_err();
        assert!(nested.to_string().contains("already inside a `prepare`"), "{nested}");
        assert_eq!(sums(&rocm).unwrap(), [2.0, 4.0, 6.0]);
    });
}

#[test]
fn a_kernel_that_does_not_compile_is_an_error_with_its_log() {
    let broken = [("HIP_STANDIN_REPLACE", "struct Silu=>strict Silu"), ("OPS_ROCM_CACHE", "")];
    with_standin("prepare::a_kernel_that_does_not_compile_is_an_error_with_its_log", &broken, |_| {
        let rocm = Rocm::new().unwrap();
        let error = rocm.prepare(|| sums(&rocm).map(drop)).unwrap_err().to_string();
        assert!(error.contains("unary-activation-f32.hip") && error.contains("strict"), "{error}");
    });
}

/// The messages of events.
#[derive(Default)]
pub(crate) struct Messages(Mutex<String>);

impl Visit for &Messages {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            writeln!(self.0.lock().unwrap(), "{value:?}").unwrap();
        }
    }
}

impl Messages {
    /// What was logged since the last call.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Subscriber for &'static Messages {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut visitor: &Messages = self;
        event.record(&mut visitor);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_call_that_waits_for_the_compiler_says_so_and_others_do_not() {
    let no_cache = [("OPS_ROCM_CACHE", "")];
    with_standin("prepare::a_call_that_waits_for_the_compiler_says_so_and_others_do_not", &no_cache, |_| {
        let messages: &'static Messages = Box::leak(Box::default());
        let said = || messages.take();
        tracing::subscriber::with_default(messages, || {
            let rocm = Rocm::new().unwrap();
            sums(&rocm).unwrap();
            let first = said();
            for text in
                ["add waited ", "s for hipRTC to compile binary-f32 for gfx1100", "silu waited ", "ops warm"]
            {
                assert!(first.contains(text), "{first}");
            }
            sums(&rocm).unwrap();
            let other = Rocm::new().unwrap();
            other.prepare(|| sums(&other).map(drop)).unwrap();
            sums(&other).unwrap();
            let later = said();
            assert!(!later.contains("waited"), "{later}");
        });
    });
}
