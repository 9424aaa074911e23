//! `ops quantize`: writes a model file with its weights in other types.
use crate::args::{Choice, Common, QuantizeArgs};
use crate::exit::{Failure, Outcome};
use crate::output::{Progress, Table, json_line};
use ops_core::ops::QuantOps;
use ops_cpu::{Cpu, Reference};
use ops_gguf::{Change, GgmlType, Quantizer};
use ops_rocm::Rocm;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

#[derive(Serialize)]
struct Line<'a> {
    tensor: &'a str,
    shape: &'a [usize],
    from: String,
    to: String,
    bytes_before: u64,
    bytes_after: u64,
}

pub(super) fn run(common: Common, args: &QuantizeArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let quantizer = Quantizer::open(&args.input, args.mixture).map_err(usage)?;
    if !args.dry_run {
        match common.backend {
            Choice::Cpu | Choice::Checked => write(&quantizer, &Cpu::new(), common, args)?,
            Choice::Reference => write(&quantizer, &Reference::new(), common, args)?,
            Choice::Rocm => write(&quantizer, &Rocm::new().map_err(Failure::from)?, common, args)?,
        }
    }
    if common.json {
        quantizer.plan().try_for_each(|change| json_line(&line(&change), out))?;
        return Ok(Outcome::Fine);
    }
    summarise(&quantizer, args, start, out)?;
    Ok(Outcome::Fine)
}

fn write<B: QuantOps>(
    quantizer: &Quantizer,
    backend: &B,
    common: Common,
    args: &QuantizeArgs,
) -> Result<(), Failure> {
    const MIB: u64 = 1 << 20;
    let mut bar = Progress::new(common.progress);
    let written = quantizer.write(backend, &args.output, |at| {
        bar.step((at.done / MIB) as usize, (at.all / MIB) as usize, &format!("MiB  {}", at.tensor));
    });
    bar.clear();
    written.map_err(usage)
}

fn usage(error: ops_gguf::Error) -> Failure {
    match error {
        ops_gguf::Error::Backend(error) => Failure::Op(error),
        other => Failure::Usage(other.to_string()),
    }
}

fn line<'a>(change: &Change<'a>) -> Line<'a> {
    Line {
        tensor: change.name,
        shape: change.dims,
        from: change.from.to_string(),
        to: change.to.to_string(),
        bytes_before: bytes(change.from, change.dims),
        bytes_after: bytes(change.to, change.dims),
    }
}

/// The bytes of a tensor, whose extents were checked against its type.
fn bytes(ty: GgmlType, dims: &[usize]) -> u64 {
    let values: u64 = dims.iter().map(|d| *d as u64).product();
    ty.block().map_or(0, |block| values / block.len as u64 * block.bytes as u64)
}

/// Tensors and bytes by type, before and after.
fn summarise(
    quantizer: &Quantizer,
    args: &QuantizeArgs,
    start: Instant,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut groups = BTreeMap::<(String, String), (usize, u64, u64)>::new();
    for change in quantizer.plan() {
        let line = line(&change);
        let group = groups.entry((line.from, line.to)).or_default();
        *group = (group.0 + 1, group.1 + line.bytes_before, group.2 + line.bytes_after);
    }
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let row = |((from, to), (n, before, after)): (&(String, String), &(usize, u64, u64))| {
        vec![from.clone(), to.clone(), n.to_string(), mib(*before), mib(*after)]
    };
    let rows: Vec<_> = groups.iter().map(row).collect();
    Table::print(&["from", "to", ">tensors", ">MiB before", ">MiB after"], &rows, out)?;
    let sum = |part: fn(&(usize, u64, u64)) -> u64| groups.values().map(part).sum::<u64>();
    let (before, after) = (sum(|g| g.1), sum(|g| g.2));
    let ratio = if after == 0 { 1.0 } else { before as f64 / after as f64 };
    let (before, after, output) = (mib(before), mib(after), args.output.display());
    if args.dry_run {
        writeln!(out, "\n{before} MiB would become {after} MiB ({ratio:.1} times smaller); nothing written")?;
    } else {
        let seconds = start.elapsed().as_secs_f64();
        writeln!(
            out,
            "\n{output}: {before} MiB to {after} MiB ({ratio:.1} times smaller) in {seconds:.1} s"
        )?;
    }
    Ok(())
}
