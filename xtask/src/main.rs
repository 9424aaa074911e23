//! Project chores: `cargo xtask COMMAND`.
mod cards;
mod check;
mod figures;
mod kernels;
mod page;
mod proofs;
mod size;
mod standin;
mod structure;
mod targets;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check [--quick] [--all] [--from STEP] [--without STEP]
                                                   what CI runs; --quick skips the slow steps, --all skips nothing
  kernels [--gfx LIST] [--family LIST] [--out DIR] [--record]
                                                   compile every kernel instance for every target
  kernels --changed [--all]                        families that changed recently, and one in eight of the others
  kernels --newer-clang [--record]                 the same for targets that clang 19 does not know, with clang-21
  kernels --hiprtc DIR [--record]                  figures of hipRTC's code objects, from tools/lab/hiprtc-registers.sh
  kernels --document                               registers and occupancy into docs/kernels.md
  proofs [--record [--why TEXT]]                   compare what tests have shown with docs/proofs.tsv
  variables                                        variables with which tests leave out what has not changed
  size                                             check the size of tracked files
  structure [ROOT..]                               find import cycles, and imports from a higher layer
  cards                                            write docs/cards.md from the reports in reports/
  figures                                          draw the figures of the book from tables and from cargo's metadata
  targets                                          write what is generated from the table of gfx targets
  standin [--test]                                 build the stand-in device; its folder is the last line";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let done = match command.as_str() {
        "check" => check::main(&rest),
        "kernels" => kernels::main(&rest),
        "proofs" => proofs::main(&rest),
        "variables" => check::variables(),
        "size" => size::main(&rest),
        "structure" => structure::main(&rest),
        "cards" => cards::main(&rest),
        "figures" => figures::main(&rest),
        "targets" => targets::main(&rest),
        "standin" => return standin::main(rest),
        "" | "help" | "-h" | "--help" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => Err(format!("no command `{other}`\n\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
