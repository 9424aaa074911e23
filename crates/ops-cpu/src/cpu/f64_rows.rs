//! Rows of f64 in plain loops. f64 is for checks, so these are not vectorised by hand.

/// Number of partial sums per row; they limit the rounding error of long sums.
const LANES: usize = 16;

/// `Σ f(x)`, accumulated in lanes that are then added pairwise.
pub(super) fn sum(x: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    for chunk in x.chunks(LANES) {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane += f(*v);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

pub(super) fn rms_norm(x: &[f64], weight: &[f64], eps: f64, y: &mut [f64]) {
    let n = weight.len();
    for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)) {
        let scale = 1.0 / (sum(x, |v| v * v) / n as f64 + eps).sqrt();
        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
            *y = x * scale * w;
        }
    }
}

pub(super) fn layer_norm(x: &[f64], weight: &[f64], bias: &[f64], eps: f64, y: &mut [f64]) {
    let n = weight.len();
    for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)) {
        let (shift, mean, scale) = moments(x, eps);
        for ((y, x), (w, b)) in y.iter_mut().zip(x).zip(weight.iter().zip(bias)) {
            *y = (x - shift - mean) * scale * w + b;
        }
    }
}

/// One group of channels, which follow one another and have a weight and a bias each.
pub(super) fn group_norm(x: &[f64], [weight, bias]: [&[f64]; 2], eps: f64, y: &mut [f64]) {
    let ((shift, mean, scale), inner) = (moments(x, eps), x.len() / weight.len());
    let channels = y.chunks_exact_mut(inner).zip(x.chunks_exact(inner));
    for ((y, x), (w, b)) in channels.zip(weight.iter().zip(bias)) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = (x - shift - mean) * scale * w + b);
    }
}

/// The first value, the mean relative to it, and `1 / sqrt(var + eps)`.
fn moments(x: &[f64], eps: f64) -> (f64, f64, f64) {
    let (shift, n) = (x.first().copied().unwrap_or(0.0), x.len() as f64);
    let mean = sum(x, |v| v - shift) / n;
    let var = sum(x, |v| (v - shift - mean) * (v - shift - mean)) / n;
    (shift, mean, 1.0 / (var + eps).sqrt())
}

pub(super) fn softmax(x: &[f64], n: usize, log: bool, y: &mut [f64]) {
    for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)) {
        let max = x.iter().fold(f64::NEG_INFINITY, |m, v| if m.is_nan() || m > *v { m } else { *v });
        let total = sum(x, |v| (v - max).exp());
        for (y, v) in y.iter_mut().zip(x) {
            *y = if log { v - max - total.ln() } else { (v - max).exp() / total };
        }
    }
}
