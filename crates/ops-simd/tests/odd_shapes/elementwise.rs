use super::calls::{Calls, calls};
use super::guarded::Guarded;
use half::{bf16, f16};
use ops_simd::{
    Binary, Compare, Element, Isa, Normalize, Number, Parametric, Stencil, SwigluClamped, Unary, affine,
    affine_in_place, binary, cast, choose, compare, normalize, parametric, stencil, swiglu_clamped, unary,
    unary_in_place,
};

#[test]
fn elementwise() {
    calls(150, |calls, isa| {
        of_type::<f32>(calls, isa);
        of_type::<f16>(calls, isa);
        of_type::<bf16>(calls, isa);
        bytes(calls, isa);
        stencils(calls, isa);
    });
}

fn of_type<T: Element>(c: &mut Calls, isa: Isa) {
    let n = c.extent() * c.pick(&[1, 1, 9]);
    let (a, b, mut y, store) = (c.floats::<T>(n), c.floats::<T>(n), c.floats::<T>(n), c.store());
    let op = c.pick(&Unary::ALL);
    c.saw("unary", unary(isa, op, &a, &mut y, store));
    unary_in_place(isa, op, &mut y);
    let op = c.pick(&Binary::ALL);
    c.saw("binary", binary(isa, op, &a, &b, &mut y, store));
    let op = c.pick(&[Parametric::Powf(2.5), Parametric::Clamp(-1.0, 1.0), Parametric::Elu(0.5)]);
    c.saw("parametric", parametric(isa, op, &a, &mut y, store));
    c.saw("affine", affine(isa, &a, 2.0, 1.0, &mut y, store));
    affine_in_place(isa, 0.5, 1.0, &mut y);
    c.saw("normalize", normalize(isa, Normalize::new(0.5, 2.0, 1.0), &a, &mut y, store));
    let by = SwigluClamped { alpha: 1.7, limit: 7.0 };
    c.saw("swiglu_clamped", swiglu_clamped(isa, by, &a, &b, &mut y, store));
    let mut wide = c.floats::<f32>(n);
    c.saw("cast", cast(isa, &a, &mut wide, store));
    c.saw("cast", cast(isa, &wide, &mut y, store));
}

fn bytes(c: &mut Calls, isa: Isa) {
    let n = c.extent();
    let (number, size) = c.pick(&[
        (Number::U8, 1),
        (Number::U32, 4),
        (Number::I8, 1),
        (Number::I16, 2),
        (Number::I32, 4),
        (Number::I64, 8),
        (Number::F8E4M3, 1),
        (Number::F16, 2),
        (Number::Bf16, 2),
        (Number::F32, 4),
        (Number::F64, 8),
    ]);
    let (a, b, mut y) = (c.bytes(n * size), c.bytes(n * size), c.bytes(n));
    let op = c.pick(&Compare::ALL);
    if let Some(()) = c.saw("compare", compare(isa, op, number, &a, &b, &mut y)) {
        assert_eq!((a.len(), b.len()), (y.len() * size, y.len() * size));
        assert!(y.iter().all(|y| *y < 2));
    }
    let (cond, yes, no, mut y) = (c.bytes(n), c.floats::<f32>(n), c.floats::<f32>(n), c.floats::<f32>(n));
    c.saw("choose", choose(isa, &cond, &yes, &no, &mut y));
    let three = |c: &mut Calls| Guarded::<[u8; 3]>::new(c.near(n), || [1, 2, 3]);
    let (yes, no, mut y) = (three(c), three(c), three(c));
    c.saw("choose", choose(isa, &cond, &yes, &no, &mut y));
}

fn stencils(c: &mut Calls, isa: Isa) {
    let (rows, width, terms) = (c.pick(&[0usize, 1, 2, 5]), c.extent(), c.pick(&[0, 1, 3, 9]));
    let offsets = c.places(terms, 20);
    let weights = c.floats::<f32>(terms);
    let step = c.number(width);
    let x = c.floats::<f32>(rows.saturating_sub(1) * width + width + 20);
    let (mut y, width) = (c.floats::<f32>(rows * width), c.number(width));
    let of = Stencil { offsets: &offsets, weights: &weights, step, start: 1.0 };
    c.saw("stencil", stencil(isa, &x, of, width, &mut y));
    let (x, mut y) = (c.doubles(x.len()), c.doubles(y.len()));
    let weights = c.doubles(terms);
    let of = Stencil { offsets: &offsets, weights: &weights, step, start: 1.0 };
    c.saw("stencil", stencil(isa, &x, of, width, &mut y));
}
