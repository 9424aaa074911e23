//! The accuracy of normal random numbers.
use rocm_ops::Reference;
use rocm_ops::ops::*;

/// The largest distance from the exact numbers that `random_normal` promises, in units of the last place.
pub const UNITS: f64 = 4.0;

/// The largest distance of a backend's normal numbers from those of the reference, which computes them in f64 and rounds once.
pub fn units_of_normal_numbers<B: RandomOps<f32>>(b: &B) -> f64 {
    let reference = Reference::new();
    let numbers = |seed| {
        let op = Random::<f32>::normal(seed);
        let got = b.random([50_000], op).and_then(|y| y.to_vec(b)).expect("random numbers");
        let want = reference.random([50_000], op).and_then(|y| y.to_vec(&reference)).expect("random numbers");
        units(&got, &want)
    };
    (0..4).map(numbers).fold(0.0, f64::max)
}

/// The largest difference, in units of the last place of the wanted number.
pub fn units(got: &[f32], want: &[f32]) -> f64 {
    let differences = got.iter().zip(want).map(|(got, want)| {
        let size = want.abs();
        let unit = f64::from(f32::from_bits(size.to_bits() + 1)) - f64::from(size);
        (f64::from(*got) - f64::from(*want)).abs() / unit
    });
    differences.fold(0.0, |most, off| if off > most || off.is_nan() { off } else { most })
}
