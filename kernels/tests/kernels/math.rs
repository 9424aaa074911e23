//! The elementary functions that kernels compute with are as exact as their header says.
use crate::host::run_program;

#[test]
fn errors_in_ulp() {
    let printed = run_program("math", include_str!("../host/math.cpp"));
    assert_eq!(printed.lines().count(), 31);
    for line in printed.lines() {
        let ulp = line.split_whitespace().nth(2).and_then(|u| u.parse::<f64>().ok());
        let limit = if line.starts_with("normal_cdf") { 6.0 } else { 2.5 };
        assert!(ulp.is_some_and(|u| u < limit), "{line}");
    }
}

#[test]
fn errors_of_what_is_rounded_to_f16() {
    let printed = run_program("f16_math", include_str!("../host/f16_math.cpp"));
    assert_eq!(printed.lines().count(), 9, "{printed}");
    for line in printed.lines() {
        let log2 = line.split_whitespace().last().and_then(|l| l.parse::<f64>().ok());
        assert!(log2.is_some_and(|l| l < -15.0), "{line}");
    }
}
