//! Ops on every number type that both have, casts, and ops with indices.
use crate::call::Call;
use crate::on_both::ours;
use crate::operand::{How, Operand, Random};
use crate::report::{Report, theirs};
use candle_core::{DType as Theirs, Tensor, WithDType};
use rocm_ops::ops::*;
use rocm_ops::{AsAny, Cpu, Num, Result, TensorOf, bf16, f16};

type Numbers = std::result::Result<Vec<f64>, String>;

/// A comparison in one type: numbers from -20 to 20, small enough that no sum or product overflows in 8 bits,
/// or special ones.
struct Of<'r> {
    report: &'r mut Report,
    dtype: &'static str,
    float: bool,
    rounding: f64,
    special: bool,
}

impl Of<'_> {
    fn compare(&mut self, op: &str, text: String, ours: Numbers, theirs: Numbers, truth: Option<Vec<f64>>) {
        let Of { dtype, rounding, special, .. } = *self;
        self.report.compare(&Call { op, dtype, text, special, rounding, terms: 0.0 }, ours, theirs, truth);
    }
}

pub(crate) fn compare(report: &mut Report, rounds: u64, seed: u64) {
    for round in 0..rounds {
        let random = &mut Random::new(seed * 7_000_003 + round);
        all::<f32>(report, random, 2e-5);
        all::<f64>(report, random, 1e-12);
        all::<f16>(report, random, 1.1e-3);
        all::<bf16>(report, random, 9e-3);
        all::<u8>(report, random, 0.0);
        all::<u32>(report, random, 0.0);
        all::<i16>(report, random, 0.0);
        all::<i32>(report, random, 0.0);
        all::<i64>(report, random, 0.0);
    }
}

fn all<T: Num + WithDType>(report: &mut Report, random: &mut Random, rounding: f64) {
    let float = T::IS_FLOAT;
    let dtype = <T as rocm_ops::Element>::DTYPE.name();
    let special = float && random.below(6) == 0;
    let mut of = Of { report, dtype, float, rounding, special };
    pairs::<T>(&mut of, random);
    reductions::<T>(&mut of, random);
    casts::<T>(&mut of, random);
    indices::<T>(&mut of, random);
}

fn operand<T: Num + WithDType>(random: &mut Random, dims: &[usize], of: &Of<'_>, how: How) -> Operand<T> {
    let (float, special, signed) =
        (of.float, of.special, <T as rocm_ops::Element>::DTYPE.name().starts_with('i'));
    Operand::new(random, dims, how, &mut |random| match random.below(if special { 12 } else { 1 << 30 }) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        _ if float => random.normal(),
        _ => (1 + random.below(11)) as f64 * if signed && random.below(2) == 0 { -1.0 } else { 1.0 },
    })
}

fn pairs<T: Num + WithDType>(of: &mut Of<'_>, random: &mut Random) {
    let (b, dims) = (Cpu::new(), random.dims(1));
    let how = [How::any(random, dims.len()), How::any(random, dims.len())];
    let (x, y) = (operand::<T>(random, &dims, of, how[0]), operand::<T>(random, &dims, of, how[1]));
    let text = format!("{}, {}", x.text(), y.text());
    let (s, t) = (&x.theirs, &y.theirs);
    let (u, v) = (x.values(), y.values());
    let truth = |f: fn(f64, f64) -> f64| Some(u.iter().zip(&v).map(|(a, b)| f(*a, *b)).collect::<Vec<f64>>());
    of.compare("add", text.clone(), ours(b.add(x.ours(), y.ours())), theirs(|| s + t), truth(|a, b| a + b));
    of.compare("sub", text.clone(), ours(b.sub(x.ours(), y.ours())), theirs(|| s - t), truth(|a, b| a - b));
    of.compare("mul", text.clone(), ours(b.mul(x.ours(), y.ours())), theirs(|| s * t), truth(|a, b| a * b));
    of.compare("div", text.clone(), ours(b.div(x.ours(), y.ours())), theirs(|| s / t), truth(|a, b| a / b));
    let most = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    let least = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) };
    of.compare(
        "maximum",
        text.clone(),
        ours(b.maximum(x.ours(), y.ours())),
        theirs(|| s.maximum(t)),
        truth(most),
    );
    of.compare(
        "minimum",
        text.clone(),
        ours(b.minimum(x.ours(), y.ours())),
        theirs(|| s.minimum(t)),
        truth(least),
    );
    of.compare("eq", text.clone(), ours(b.eq(x.ours(), y.ours())), theirs(|| s.eq(t)), None);
    of.compare("ne", text.clone(), ours(b.ne(x.ours(), y.ours())), theirs(|| s.ne(t)), None);
    of.compare("lt", text.clone(), ours(b.lt(x.ours(), y.ours())), theirs(|| s.lt(t)), None);
    of.compare("le", text.clone(), ours(b.le(x.ours(), y.ours())), theirs(|| s.le(t)), None);
    of.compare("gt", text.clone(), ours(b.gt(x.ours(), y.ours())), theirs(|| s.gt(t)), None);
    of.compare("ge", text.clone(), ours(b.ge(x.ours(), y.ours())), theirs(|| s.ge(t)), None);
    of.compare("copy", text.clone(), ours(b.copy_of(x.ours())), theirs(|| s.contiguous()), None);
    let how = How::any(random, dims.len());
    let cond = Operand::<u8>::new(random, &dims, how, &mut |random| random.below(2) as f64);
    let chosen = ours(b.where_(cond.ours().any_view(), x.ours(), y.ours()));
    of.compare("where", text, chosen, theirs(|| cond.theirs.where_cond(s, t)), None);
}

fn reductions<T: Num + WithDType>(of: &mut Of<'_>, random: &mut Random) {
    let (b, dims) = (Cpu::new(), random.dims(1));
    let (axis, how) = (random.below(dims.len()), How::any(random, dims.len()));
    let x = operand::<T>(random, &dims, of, how);
    let (text, at, t) = (format!("{} along {axis}", x.text()), axis as isize, &x.theirs);
    let wide = x.wide();
    let truth = |y: Result<TensorOf<Cpu, f64>>| ours(y).ok();
    of.compare(
        "sum",
        text.clone(),
        ours(b.sum(x.ours(), at)),
        theirs(|| t.sum(axis)),
        truth(b.sum(&wide, at)),
    );
    of.compare(
        "max",
        text.clone(),
        ours(b.max(x.ours(), at)),
        theirs(|| t.max(axis)),
        truth(b.max(&wide, at)),
    );
    of.compare(
        "min",
        text.clone(),
        ours(b.min(x.ours(), at)),
        theirs(|| t.min(axis)),
        truth(b.min(&wide, at)),
    );
    let index = |y: Result<TensorOf<Cpu, u32>>| ours(y).ok();
    of.compare(
        "argmax",
        text.clone(),
        ours(b.argmax(x.ours(), at)),
        theirs(|| t.argmax(axis)),
        index(b.argmax(&wide, at)),
    );
    of.compare(
        "argmin",
        text.clone(),
        ours(b.argmin(x.ours(), at)),
        theirs(|| t.argmin(axis)),
        index(b.argmin(&wide, at)),
    );
    let sorted = ours(b.sort(x.ours(), Sort::axis(-1)));
    of.compare(
        "sort",
        text,
        sorted,
        theirs(|| Ok(t.sort_last_dim(true)?.0)),
        truth(b.sort(&wide, Sort::axis(-1))),
    );
}

fn casts<T: Num + WithDType>(of: &mut Of<'_>, random: &mut Random) {
    let (b, dims) = (Cpu::new(), random.dims(1));
    let how = How::any(random, dims.len());
    let (float, signed) = (of.float, of.dtype.starts_with('i'));
    let x = Operand::<T>::new(random, &dims, how, &mut |random| match random.below(8) {
        0 if float => f64::NAN,
        1 if float => f64::NEG_INFINITY,
        2 => 70_000.0,
        3 => 300.5,
        4 if float || signed => -random.normal().abs() * 100.0,
        _ => random.normal().abs() * 50.0,
    });
    let (text, t) = (x.text(), &x.theirs);
    let exact = x.values();
    let mut to = |name: &str, ours: Numbers, dtype: Theirs| {
        let theirs = theirs(|| t.to_dtype(dtype));
        let truth = nearer(&exact, &ours, &theirs);
        of.compare(&format!("cast to {name}"), text.clone(), ours, theirs, truth);
    };
    to("u8", ours(b.cast::<u8>(x.ours())), Theirs::U8);
    to("u32", ours(b.cast::<u32>(x.ours())), Theirs::U32);
    to("i16", ours(b.cast::<i16>(x.ours())), Theirs::I16);
    to("i32", ours(b.cast::<i32>(x.ours())), Theirs::I32);
    to("i64", ours(b.cast::<i64>(x.ours())), Theirs::I64);
    to("f16", ours(b.cast::<f16>(x.ours())), Theirs::F16);
    to("bf16", ours(b.cast::<bf16>(x.ours())), Theirs::BF16);
    to("f32", ours(b.cast::<f32>(x.ours())), Theirs::F32);
    to("f64", ours(b.cast::<f64>(x.ours())), Theirs::F64);
    to("f8e4m3", ours(b.cast::<rocm_ops::F8E4M3>(x.ours())), Theirs::F8E4M3);
}

/// For each element, whichever result is nearer to the exact one.
fn nearer(exact: &[f64], ours: &Numbers, theirs: &Numbers) -> Option<Vec<f64>> {
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return None };
    let pick = |((x, a), b): ((&f64, &f64), &f64)| if (x - b).abs() < (x - a).abs() { *b } else { *a };
    Some(exact.iter().zip(ours).zip(theirs).map(pick).collect())
}

/// This many indices, some of which mean "no element".
fn places(random: &mut Random, dims: &[usize], bound: usize) -> Operand<u32> {
    let how = How::any(random, dims.len());
    Operand::new(random, dims, how, &mut |random| {
        if random.below(9) == 0 { f64::from(u32::MAX) } else { random.below(bound) as f64 }
    })
}

fn indices<T: Num + WithDType>(of: &mut Of<'_>, random: &mut Random) {
    let (b, dims) = (Cpu::new(), random.dims(1));
    let axis = random.below(dims.len());
    let (mut like, n) = (dims.clone(), 1 + random.below(12));
    like[axis] = n;
    let how = [How::any(random, dims.len()), How::any(random, dims.len())];
    let (x, src) = (operand::<T>(random, &dims, of, how[0]), operand::<T>(random, &like, of, how[1]));
    let (ids, all) = (places(random, &[n], dims[axis]), places(random, &like, dims[axis]));
    let text = format!("{} along {axis}; {}; {}; {}", x.text(), src.text(), ids.text(), all.text());
    let (t, at) = (&x.theirs, axis as isize);
    let (id, every, from) = (ids.ours(), all.ours(), &src.theirs);
    let select = ours(b.index_select(x.ours(), id.any_view(), IndexSelect::axis(at)));
    of.compare("index_select", text.clone(), select, theirs(|| t.index_select(&ids.theirs, axis)), None);
    let gather = ours(b.gather(x.ours(), every.any_view(), Gather::axis(at)));
    of.compare("gather", text.clone(), gather, theirs(|| t.gather(&all.theirs, axis)), None);
    let written = |f: &dyn Fn(&mut TensorOf<Cpu, T>) -> Result<()>| {
        ours(b.copy_of(x.ours()).and_then(|mut y| f(&mut y).map(|()| y)))
    };
    let scatter = written(&|y| b.scatter(y, every.any_view(), src.ours(), Scatter::axis(at)));
    of.compare(
        "scatter",
        text.clone(),
        scatter,
        theirs(|| contiguous(t)?.scatter(&all.theirs, from, axis)),
        None,
    );
    let wide = |f: &dyn Fn(&mut TensorOf<Cpu, f64>) -> Result<()>| {
        let mut y = x.wide();
        f(&mut y).and_then(|()| y.to_vec(&b)).ok()
    };
    let more = src.wide();
    let add = written(&|y| b.scatter_add(y, every.any_view(), src.ours(), ScatterAdd::axis(at)));
    let truth = wide(&|y| b.scatter_add(y, every.any_view(), &more, ScatterAdd::axis(at)));
    of.compare(
        "scatter_add",
        text.clone(),
        add,
        theirs(|| contiguous(t)?.scatter_add(&all.theirs, from, axis)),
        truth,
    );
    let add = written(&|y| b.index_add(y, id.any_view(), src.ours(), IndexAdd::axis(at)));
    let truth = wide(&|y| b.index_add(y, id.any_view(), &more, IndexAdd::axis(at)));
    of.compare("index_add", text, add, theirs(|| contiguous(t)?.index_add(&ids.theirs, from, axis)), truth);
}

fn contiguous(x: &Tensor) -> candle_core::Result<Tensor> {
    x.contiguous()
}
