//! How the AMD cards of this machine are connected, as the driver describes it, without HIP.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use super::cards::{folders, node_of};

/// A connection between two cards, as the driver describes it. That it is listed does not mean that it works.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Link {
    /// The PCI addresses of the two cards.
    pub cards: [String; 2],
    /// Whether they are connected by xGMI (Infinity Fabric); otherwise by PCI Express.
    pub is_xgmi: bool,
    /// The highest bandwidth in one direction in MB/s, if the driver says.
    pub bandwidth: Option<u64>,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.cards;
        write!(f, "{a} and {b}: {}", if self.is_xgmi { "xGMI" } else { "PCI Express" })?;
        self.bandwidth.map_or(Ok(()), |mega| write!(f, ", {} GB/s", mega / 1000))
    }
}

/// The connections between the AMD cards of this machine over which one reaches the memory of the other.
pub fn links() -> Vec<Link> {
    links_in(Path::new("/sys/class/kfd/kfd/topology/nodes"))
}

fn links_in(nodes: &Path) -> Vec<Link> {
    let read = |path: &Path| fs::read_to_string(path.join("properties")).unwrap_or_default();
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let cards = folders(nodes).into_iter();
    let cards: BTreeMap<String, String> =
        cards.filter_map(|node| Some((name(&node)?, node_of(&read(&node))?.0))).collect();
    let mut found = Vec::new();
    for (node, card) in &cards {
        for kind in ["io_links", "p2p_links"] {
            for link in folders(&nodes.join(node).join(kind)) {
                let text = read(&link);
                let value = |name: &str| -> Option<u64> {
                    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
                };
                // Those to a processor are left out, and each is described at both ends.
                let Some(other) = value("node_to ").and_then(|to| cards.get(&to.to_string())) else {
                    continue;
                };
                let bandwidth = value("max_bandwidth ").filter(|mega| *mega > 0);
                let mut cards = [card.clone(), other.clone()];
                cards.sort();
                // HSA_IOLINK_TYPE_XGMI
                found.push(Link { cards, is_xgmi: value("type ") == Some(11), bandwidth });
            }
        }
    }
    found.sort();
    found.dedup_by(|a, b| a.cards == b.cards && a.is_xgmi == b.is_xgmi);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_between_cards_are_listed_once() {
        let nodes = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let folder = nodes.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("properties"), text).unwrap();
        };
        write("0", "gfx_target_version 0\n");
        write("1", "gfx_target_version 110000\nlocation_id 768\ndomain 0\n");
        write("2", "gfx_target_version 110000\nlocation_id 33536\ndomain 0\n");
        write("1/io_links/0", "type 2\nnode_from 1\nnode_to 0\nmax_bandwidth 31500\n");
        write("1/p2p_links/0", "type 2\nnode_from 1\nnode_to 2\nmax_bandwidth 31500\n");
        write("2/io_links/0", "type 11\nnode_from 2\nnode_to 1\nmax_bandwidth 0\n");
        write("2/p2p_links/0", "type 2\nnode_from 2\nnode_to 1\nmax_bandwidth 31500\n");
        let texts: Vec<String> = links_in(nodes.path()).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            ["0000:03:00.0 and 0000:83:00.0: PCI Express, 31 GB/s", "0000:03:00.0 and 0000:83:00.0: xGMI"]
        );
        assert!(links_in(Path::new("/no/such/folder")).is_empty());
    }
}
