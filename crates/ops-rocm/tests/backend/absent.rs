//! Error messages when ROCm or a device is missing.
use ops_rocm::Rocm;
use standin_testing::with_standin;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn without_rocm_there_is_one_line_at_once() {
    const INSIDE: &str = "OPS_ROCM_TEST_ABSENT";
    if std::env::var_os(INSIDE).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["absent::without_rocm_there_is_one_line_at_once", "--exact", "--nocapture"]);
        let output =
            child.env(INSIDE, "1").env_remove("OPS_ROCM_PATH").env_remove("ROCM_PATH").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        return;
    }
    let begin = Instant::now();
    let opened = Rocm::new();
    let time = begin.elapsed();
    // If ROCm is installed, there is nothing to test here.
    let Err(error) = opened else { return };
    assert!(matches!(error, ops_core::Error::NoDevice { backend: "rocm", .. }), "{error:?}");
    let text = error.to_string();
    assert!(time < Duration::from_millis(100), "{time:?}");
    assert!(!text.contains('\n'), "{text}");
    if text.contains("libamdhip64.so.7") {
        assert!(text.starts_with("opening ROCm failed on rocm: "), "{text}");
        assert!(text.contains("install ROCm") && text.contains("OPS_ROCM_PATH"), "{text}");
    }
}

#[test]
fn without_a_device_the_driver_is_looked_at() {
    let none = [("HIP_STANDIN_DEVICES", "none")];
    with_standin("absent::without_a_device_the_driver_is_looked_at", &none, |_| {
        let error = Rocm::new().unwrap_err();
        assert!(matches!(error, ops_core::Error::NoDevice { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("opening a device failed on rocm: no AMD GPU: "), "{text}");
        assert!(!text.contains('\n'), "{text}");
    });
}

#[test]
fn the_best_supported_device_is_taken() {
    let devices = [("HIP_STANDIN_DEVICES", "gfx1036:integrated,gfx803,gfx1100")];
    with_standin("absent::the_best_supported_device_is_taken", &devices, |_| {
        assert_eq!(Rocm::new().unwrap().device().info().ordinal, 2);
        assert_eq!(Rocm::builder().ordinal(0).build().unwrap().device().info().ordinal, 0);
        let text = Rocm::builder().ordinal(7).build().unwrap_err().to_string();
        assert!(text.contains("no device 7: the HIP runtime sees 3"), "{text}");
    });
}
