//! Chooses how the devices of a group exchange data.
use super::peers::{self, Transport};
use super::probe;
use crate::error::failed;
use crate::hip::Device;
use crate::{ProviderId, Result, Rocm};
use std::time::Duration;

/// How the devices of a group reach each other's data: directly, if the driver offers that and a test has shown that it works.
/// `OPS_ROCM_PEERS` replaces the test by `direct` or `host`.
pub(super) fn transport(devices: &[Device], limit: Duration) -> Result<Transport> {
    let pairs = peers::pairs(devices);
    let chosen = std::env::var("OPS_ROCM_PEERS").unwrap_or_default();
    match chosen.as_str() {
        "host" => return Ok(Transport::Host("OPS_ROCM_PEERS=host".to_owned())),
        "" | "direct" => {}
        other => {
            return Err(failed("reading OPS_ROCM_PEERS", format!("{other:?} is neither direct nor host")));
        }
    }
    for (device, peer) in pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]) {
        if !device.can_access(peer)? {
            let (a, b) = (device.info().ordinal, peer.info().ordinal);
            return Ok(Transport::Host(format!("the driver offers device {a} no access to device {b}")));
        }
    }
    if chosen.is_empty() {
        let found = probe::tested(devices, limit);
        if let Some(broken) = found.iter().find(|pair| pair.problem.is_some()) {
            tracing::warn!("{broken}; small messages go through memory of the host");
            return Ok(Transport::Host(broken.to_string()));
        }
    }
    peers::enable(&pairs)?;
    Ok(Transport::Direct)
}

/// Whether a policy of a group's queues says that this project's kernels make a collective, or that RCCL does.
pub(super) fn wants_own(queues: &[Rocm], name: &str) -> Option<bool> {
    let order = queues.iter().find_map(|queue| queue.policy().order_of(name))?;
    order.first().map(|first| first == ProviderId::HIP.name())
}
