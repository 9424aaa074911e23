//! The error of every block format on normal values: no worse than that of the public quantizer, and as
//! `docs/formats.md` says.
use ops_core::{BlockInfo, quant};

/// NMSE of the public C quantizer (without weights) on the same values.
const PUBLIC: [(&str, f64); 13] = [
    ("q4_0", 7.074139e-3),
    ("q4_1", 5.977115e-3),
    ("q5_0", 1.755007e-3),
    ("q5_1", 1.385639e-3),
    ("q8_0", 2.739024e-5),
    ("q2_k", 8.639739e-2),
    ("q3_k", 2.202351e-2),
    ("q4_k", 4.926300e-3),
    ("q5_k", 1.249710e-3),
    ("q6_k", 3.020238e-4),
    ("iq4_nl", 6.004688e-3),
    ("iq4_xs", 5.687311e-3),
    ("mxfp4", 1.316128e-2),
];
/// Allows a root mean square error of at most 1.02 times the public one.
const MOST: f64 = 1.02 * 1.02;

/// Nearly normal values with deviation 1: sums of twelve uniform ones.
fn normal(n: usize) -> Vec<f32> {
    let mut state = 88_172_645_463_325_252u64;
    let mut unit = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..n).map(|_| ((0..12).map(|_| unit()).sum::<f64>() - 6.0) as f32).collect()
}

/// The error of quantizing and decoding; `None` if the format is read-only.
fn nmse(format: &BlockInfo) -> Option<f64> {
    let (mut error, mut size) = (0.0, 0.0);
    let (mut block, mut decoded) = (vec![0; format.bytes()], vec![0.0; format.values()]);
    for values in normal(1 << 16).chunks(format.values()) {
        if !format.encode(values, &mut block) {
            return None;
        }
        format.decode(&block, &mut decoded);
        for (v, d) in values.iter().zip(&decoded) {
            error += (f64::from(*v) - f64::from(*d)).powi(2);
            size += f64::from(*v).powi(2);
        }
    }
    Some(error / size)
}

#[test]
fn errors_are_at_most_those_of_the_public_quantizer() {
    for (name, public) in PUBLIC {
        let format = quant::FORMATS.iter().find(|format| format.name() == name).expect(name);
        let ours = nmse(format).expect(name);
        println!("{name}: {ours:.3e}, public {public:.3e}, ratio of roots {:.4}", (ours / public).sqrt());
        assert!(ours <= public * MOST, "{name}: {ours:e}, public {public:e}");
    }
}

#[test]
fn the_page_has_every_format_with_its_size_and_error() {
    let page = include_str!("../../../docs/formats.md");
    let rows = quant::FORMATS.iter().map(|format| {
        let bits = (format.bytes() * 8) as f64 / format.values() as f64;
        let error = nmse(format).map_or("–".to_owned(), |nmse| format!("{nmse:.1e}"));
        let budget = format.error_budget().bytes;
        let (name, values, bytes) = (format.name(), format.values(), format.bytes());
        format!("| {name} | {values} | {bytes} | {bits:.2} | {error} | {budget:.0e} |")
    });
    let missing: Vec<_> = rows.filter(|row| !page.contains(row)).collect();
    assert!(missing.is_empty(), "docs/formats.md lacks\n{}", missing.join("\n"));
    let budget = quant::Q8_0.error_budget();
    let said = format!("NMSE of {:.0e} with activations as they are", budget.floats);
    assert!(page.contains(&said) && page.contains(&format!("NMSE of {:.0e} for any", budget.any)), "{said}");
}
