//! Access of the cards to each other's memory, and collectives between all of them, as a step of its own: where links between cards are broken, they hang, or end the process.
use crate::exit::{Failure, Outcome};
use crate::output::json_line;
use ops_core::group::Group;
use ops_rocm::{Rocm, RocmGroup, test_peer_access};
use ops_test::group::{every_type, run as every_collective};
use serde_json::json;
use std::io::Write;
use std::time::Duration;

/// The time limit of a collective, within that of the step.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) fn run(out: &mut dyn Write) -> Result<Outcome, Failure> {
    let peers: Vec<String> = test_peer_access()?.iter().map(ToString::to_string).collect();
    // Before what may hang.
    json_line(&json!({ "peers": peers }), out)?;
    out.flush()?;
    let devices = Rocm::devices()?;
    let cards = devices.iter().filter(|device| device.gfx.is_supported() && !device.integrated);
    let open = |ordinal| Rocm::builder().ordinal(ordinal).build();
    let queues = cards.map(|device| open(device.ordinal)).collect::<Result<Vec<_>, _>>()?;
    let ranks = RocmGroup::with_limit(queues, LIMIT)?;
    let results = every_collective(&ranks, every_type(), &[0, 1, 1000])?;
    let size = ranks.first().map_or(0, Group::size);
    json_line(&json!({ "ranks": size, "results": results }), out)?;
    Ok(Outcome::Fine)
}
