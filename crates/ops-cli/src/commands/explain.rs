//! `ops explain`: the candidates for an op on given shapes, in order, with the reason for each.
use crate::args::{Choice, Common, ExplainArgs};
use crate::backend::Engine;
use crate::catalogue::{Spec, Types, find_op, notation};
use crate::exit::{Failure, Outcome};
use crate::output::{Table, json_line};
use crate::problem::Explanation;
use ops_command::stderr;
use ops_core::Determinism;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

#[derive(Serialize)]
struct Line<'a> {
    op: &'a str,
    dtype: &'a str,
    shape: &'a [usize],
    operands: BTreeMap<&'a str, &'a [usize]>,
    backend: &'a str,
    rank: usize,
    provider: &'a str,
    taken: bool,
    /// `null` if it cannot run the op.
    determinism: Option<&'static str>,
    reason: &'a str,
}

pub(super) fn run(
    engine: &dyn Engine,
    common: Common,
    args: &ExplainArgs,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let entry = find_op(&args.op)?;
    let types = Types::parse(entry, &args.dtype)?;
    let dtype = types.notation(entry);
    let spec = Spec::parse(entry, types, &args.shape)?;
    let Explanation { operands, candidates } = engine.problem(spec)?.explain();

    if !common.json {
        let list = operands.iter().map(|o| format!("{} {} {}", o.name, o.dtype, notation(&o.dims)));
        writeln!(out, "{} on {}: {}", entry.name, engine.name(), list.collect::<Vec<_>>().join(", "))?;
        let rows = candidates.iter().zip(1..).map(|(c, rank)| {
            let verdict = if c.taken { "taken" } else { "passed over" };
            let level = c.determinism.map_or("-", Determinism::name).to_owned();
            vec![format!("{rank}."), c.provider.to_owned(), verdict.to_owned(), level, c.reason.clone()]
        });
        let mut rows: Vec<_> = rows.collect();
        let mut table = Table::new(&["", "", "", "", ""]);
        rows.iter().for_each(|row| table.fit(row));
        rows.drain(..).try_for_each(|row| writeln!(out, "{}", table.line(&row)))?;
        return Ok(Outcome::Fine);
    }
    for (candidate, rank) in candidates.iter().zip(1..) {
        let line = Line {
            op: entry.name,
            dtype: &dtype,
            shape: operands.first().map_or(&[], |o| &o.dims),
            operands: operands.iter().map(|o| (o.name, &o.dims[..])).collect(),
            backend: engine.name(),
            rank,
            provider: candidate.provider,
            taken: candidate.taken,
            determinism: candidate.determinism.map(Determinism::name),
            reason: &candidate.reason,
        };
        json_line(&line, out)?;
    }
    Ok(Outcome::Fine)
}

/// Checks the form of the name in `--gfx`. Backends other than ROCm ignore it, with a warning.
pub(super) fn check_gfx(backend: Choice, name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else { return Ok(()) };
    let digits = name.split(':').next().and_then(|n| n.strip_prefix("gfx")).unwrap_or_default();
    let generic = digits.ends_with("-generic");
    if !generic && (digits.len() < 3 || !digits.bytes().all(|b| b.is_ascii_hexdigit())) {
        return Err(Failure::Usage(format!(
            "`{name}` is not the name of a GPU; write it as gfx1100 or gfx942"
        )));
    }
    if backend != Choice::Rocm {
        writeln!(stderr(), "ops: --gfx {name} has no effect: this backend runs on the CPU");
    }
    Ok(())
}
