//! The path of a call, from a method to a kernel.
use super::svg::{Anchor, Svg, WIDTH};

/// Each step: what runs, and what it does.
const STEPS: [(&str, &str); 7] = [
    ("b.rms_norm(&x, &weight, 1e-5)", "a method: allocates the result"),
    ("Backend::run", "the gate: the only way from users to kernels"),
    ("Call::check, Op::infer", "shapes, types, bounds, overlaps: once for all backends"),
    ("Execute<RmsNorm<T>>::execute", "the backend's kernel for the op gets a checked Call"),
    ("Rocm: the list of providers", "the first that can compute it and that the policy allows"),
    ("hip", "our kernel, compiled by hipRTC or embedded; or a library"),
    ("a launch on the queue", "the call returns; to_vec waits for the result"),
];

pub(super) fn figure() -> String {
    const STEP: f64 = 74.0;
    let mut svg = Svg::new("The path of a call on Rocm", 10.0 + STEP * STEPS.len() as f64);
    for (i, (what, does)) in STEPS.iter().enumerate() {
        let y = 10.0 + STEP * i as f64;
        if i > 0 {
            svg.arrow((WIDTH / 2.0, y), 22.0);
        }
        svg.boxed(((WIDTH - 250.0) / 2.0, y), (250.0, 26.0), &[what]);
        svg.text((WIDTH / 2.0, y + 42.0), Anchor::Middle, "small", does);
    }
    svg.finish()
}
