//! Integer arithmetic in `i128`, wrapped to the type.
use super::rounding::to_integer;
pub(super) use super::rounding::{width, wrap};
use super::{Wants, exactly, logical};
use crate::{Array, CallError, Case};
use ops_core::{DType, Wide};

/// Values of an integer type, as an array.
pub(super) fn array(dtype: DType, values: &[i64]) -> Result<Array, CallError> {
    let size = width(dtype).map_or(8, |(bits, _)| bits / 8) as usize;
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect();
    Array::from_bytes(dtype, &bytes)
}

pub(super) fn integers(case: &Case, name: &str) -> Result<Vec<i128>, CallError> {
    let integer = |w| match w {
        Wide::Int(v) => Ok(i128::from(v)),
        Wide::Float(_) => Err(CallError::Malformed(format!("{name} does not hold integers"))),
    };
    logical(case, name)?.to_wide()?.into_iter().map(integer).collect()
}

pub(super) fn wants(case: &Case) -> Wants {
    let range = width(case.dtype);
    let range = range.ok_or_else(|| CallError::Malformed(format!("no integers of {}", case.dtype)))?;
    let results: Vec<i64> = match case.op.as_str() {
        "affine" | "affine_inplace" => {
            let (mul, add) = (case.params.f64("mul")?, case.params.f64("add")?);
            let cast = |v: &i128| to_integer(*v as f64 * mul + add, range);
            integers(case, "x")?.iter().map(cast).collect()
        }
        op if case.operand("x").is_some() => {
            let f = unary(op)?;
            integers(case, "x")?.iter().map(|v| wrap(f(*v), range)).collect()
        }
        op => {
            let f = binary(op)?;
            let (a, b) = (integers(case, "a")?, integers(case, "b")?);
            a.iter().zip(b).map(|(a, b)| wrap(f(*a, b), range)).collect()
        }
    };
    let output = if case.op.ends_with("_inplace") { "x" } else { "y" };
    Ok(vec![exactly(output, array(case.dtype, &results)?)])
}

/// `a` to the power of `b`, modulo 2⁶⁴; for negative exponents the truncated quotient.
fn power(a: i128, b: i128) -> i128 {
    if b < 0 {
        return if a.abs() == 1 { power(a, -b) } else { 0 };
    }
    // Bits of the exponent from the top: square, and multiply where it has a one.
    (0..64).rev().fold(1i128, |power, bit| {
        let square = i128::from((power as i64).wrapping_mul(power as i64));
        if b >> bit & 1 == 1 { i128::from((square as i64).wrapping_mul(a as i64)) } else { square }
    })
}

fn unary(op: &str) -> Result<fn(i128) -> i128, CallError> {
    Ok(match op {
        "neg" => |v| -v,
        "abs" => i128::abs,
        "sqr" => |v| v * v,
        "relu" => |v| v.max(0),
        "sign" => i128::signum,
        _ => return Err(CallError::Malformed(format!("no integer {op}"))),
    })
}

fn binary(op: &str) -> Result<fn(i128, i128) -> i128, CallError> {
    Ok(match op {
        "add" => |a, b| a + b,
        "sub" => |a, b| a - b,
        "mul" => |a, b| a * b,
        "div" => |a, b| if b == 0 { 0 } else { a / b },
        "maximum" => i128::max,
        "minimum" => i128::min,
        "pow" => power,
        _ => return Err(CallError::Malformed(format!("no integer {op}"))),
    })
}
