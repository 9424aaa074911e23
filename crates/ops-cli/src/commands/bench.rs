//! `ops bench`: checks and times ops.
use crate::args::{BenchArgs, Common};
use crate::backend::Engine;
use crate::bench::{Case, Measured, Row};
use crate::catalogue::{Fixed, Shapes, Spec, Types, entries, find_op, parse_dtype};
use crate::exit::{Failure, Outcome};
use crate::output::{Progress, Table, json_line};
use crate::units::{parse_size, time};
use ops_command::stderr;
use ops_core::DType;
use std::io::Write;
use std::time::Duration;

const TITLES: [&str; 10] =
    ["op", "dtype", "shape", "provider", ">time", ">GB/s", ">GFLOP/s", ">ceiling", ">%", "limit"];
/// Bytes of a tensor: fits L2, fits L3, exceeds the caches.
const SIZES: [usize; 3] = [64 << 10, 4 << 20, 64 << 20];
/// Maximum number of bytes of a tensor.
const LARGEST: usize = 4 << 30;

pub(super) fn run(
    engine: &dyn Engine,
    common: Common,
    args: &BenchArgs,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let cases = plan(args)?;
    let budget = Duration::from_millis(if args.quick { 10 } else { 80 });
    let mut ceilings = engine.ceilings(budget / 3);
    let mut table = Table::new(&TITLES);
    for case in &cases {
        table.fit(&[case.entry.name, &case.types.notation(case.entry), &case.label()]);
    }
    table.fit(&["", "", "", engine.name(), "9999.99 ms", "9999.9", "9999.9", "9999.9", "999.9"]);
    if !common.json {
        writeln!(out, "{}", table.head())?;
    }

    let mut progress = Progress::new(common.progress);
    let mut passed = true;
    for (done, case) in cases.iter().enumerate() {
        let what = format!("{} {} {}", case.entry.name, case.types.notation(case.entry), case.label());
        progress.step(done, cases.len(), &what);
        let measured = case.measure(engine, &mut *ceilings, budget)?;
        progress.clear();
        match measured {
            Measured::Row(row) if common.json => json_line(&row, out)?,
            Measured::Row(row) => writeln!(out, "{}", table.line(&cells(case, &row)))?,
            Measured::Declined(reason) => writeln!(stderr(), "ops: {what}: unsupported: {reason}"),
            Measured::Failed(why) => {
                passed = false;
                ops_command::failed(1);
                writeln!(stderr(), "ops: {what}: FAILED: {why}");
            }
        }
        // Flushed, so that a long run can be followed line by line.
        out.flush()?;
    }
    if !common.json {
        let peak = ceilings.peak_gflops(DType::F32);
        writeln!(
            out,
            "\nceilings: {}; f32 multiply-add {peak:.1} GFLOP/s; copies as in the rows",
            ceilings.describe()
        )?;
    }
    Ok(Outcome::of(passed))
}

/// The cases to time, in the order of the ops.
fn plan(args: &BenchArgs) -> Result<Vec<Case>, Failure> {
    let chosen = match &args.op[..] {
        [] => entries().iter().collect(),
        names => names.iter().map(|name| find_op(name)).collect::<Result<Vec<_>, _>>()?,
    };
    // Operand types are only allowed with a single type that the op runs in.
    let of_operands = args.dtype.iter().any(|text| text.contains('='));
    if of_operands && args.op.is_empty() {
        return Err(Failure::Usage("types of operands require --op".into()));
    }
    let dtypes = match &args.dtype[..] {
        _ if of_operands => Vec::new(),
        names => names.iter().map(|name| parse_dtype(name)).collect::<Result<_, _>>()?,
    };
    let fixed = match &args.sizes[..] {
        [] if args.quick => Fixed::Small,
        [] => Fixed::Usual,
        _ => Fixed::None,
    };
    let sizes = match &args.sizes[..] {
        [] if args.quick => vec![SIZES[0]],
        [] => SIZES.to_vec(),
        texts => texts.iter().map(|text| parse_size(text, LARGEST)).collect::<Result<_, _>>()?,
    };
    let rotate = args.rotate.as_deref().map_or(Ok(0), |text| parse_size(text, LARGEST))?;
    let mut cases = Vec::new();
    for entry in chosen {
        let types = match &dtypes[..] {
            _ if of_operands => vec![Types::parse(entry, &args.dtype)?],
            [] => entry.timed_types(),
            dtypes => entry.timed_types_in(dtypes),
        };
        for types in types {
            let all = match &args.shape[..] {
                [] => entry.shapes(&types, &sizes, fixed),
                texts => vec![Shapes { given: Spec::given(entry, texts)?, causal: false }],
            };
            cases.extend(all.into_iter().map(|shapes| Case { entry, types: types.clone(), shapes, rotate }));
        }
    }
    if cases.is_empty() {
        return Err(Failure::Usage(format!("no op to time is available in {}", args.dtype.join(", "))));
    }
    Ok(cases)
}

fn cells(case: &Case, row: &Row) -> Vec<String> {
    let (dtype, provider) = (row.dtype.clone(), row.provider.to_owned());
    let mut cells = vec![row.op.to_owned(), dtype, case.label(), provider, time(row.ns)];
    cells.extend([row.gbps, row.gflops, row.ceiling, row.percent].map(|v| format!("{v:.1}")));
    cells.push(row.limit.to_owned());
    cells
}
