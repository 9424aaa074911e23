//! `ops support`: which ops run in which element types, and which provider runs them.
use crate::args::{Common, SupportArgs};
use crate::backend::Engine;
use crate::catalogue::{Entry, Spec, Types, columns, entries, find_op};
use crate::exit::{Failure, Outcome};
use crate::output::{Table, json_line};
use crate::problem::Candidate;
use ops_core::DType;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

#[derive(Serialize)]
struct Line<'a> {
    op: &'a str,
    dtype: &'a str,
    backend: &'a str,
    provider: &'a str,
    supported: bool,
    reason: &'a str,
}

pub(super) fn run(
    engine: &dyn Engine,
    common: Common,
    args: &SupportArgs,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let chosen = match &args.op {
        Some(name) => std::slice::from_ref(find_op(name)?),
        None => entries(),
    };
    if common.json {
        for entry in chosen {
            for dtype in entry.dtypes() {
                for c in candidates(engine, entry, dtype)? {
                    let (op, backend) = (entry.name, engine.name());
                    let Candidate { provider, taken, reason, .. } = &c;
                    let line = Line { op, dtype: dtype.name(), backend, provider, supported: *taken, reason };
                    json_line(&line, out)?;
                }
            }
        }
        return Ok(Outcome::Fine);
    }
    let mut titles = vec!["op"];
    titles.extend(columns().map(|d| d.name()));
    let rows: Result<Vec<_>, Failure> = chosen.iter().map(|entry| row(engine, entry)).collect();
    Table::print(&titles, &rows?, out)?;
    writeln!(out, "\n-: declined by the backend; blank: the op is not available in that type.")?;
    writeln!(out, "With a block format, an op on floats runs in f32.")?;
    Ok(Outcome::Fine)
}

fn row(engine: &dyn Engine, entry: &'static Entry) -> Result<Vec<String>, Failure> {
    let mut row = vec![entry.name.to_owned()];
    let offered = entry.dtypes();
    for dtype in columns() {
        if !offered.contains(&dtype) {
            row.push(String::new());
            continue;
        }
        let names: Vec<_> =
            candidates(engine, entry, dtype)?.iter().filter(|c| c.taken).map(|c| c.provider).collect();
        row.push(if names.is_empty() { "-".into() } else { names.join(",") });
    }
    Ok(row)
}

/// The candidates for a small contiguous problem.
fn candidates(engine: &dyn Engine, entry: &'static Entry, dtype: DType) -> Result<Vec<Candidate>, Failure> {
    let types = Types::of(entry, dtype)?;
    let given = BTreeMap::from([(entry.first().to_owned(), entry.small(&types))]);
    let spec = Spec::new(entry, types, &given)?;
    Ok(engine.problem(spec)?.explain().candidates)
}
