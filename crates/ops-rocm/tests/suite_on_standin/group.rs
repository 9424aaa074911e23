//! Collectives by this project's kernels, each of which runs on every target of these tests.
use crate::executed;
use ops_kernels::Family;
use ops_rocm::{Policy, Rocm, RocmGroup};
use ops_test::group::{every_type, run};
use standin_testing::with_standin;

/// Waves of 32 and of 64.
const TARGETS: [&str; 7] = ["gfx1201", "gfx90a", "gfx906", "gfx942", "gfx1010", "gfx1030", "gfx1100"];

#[test]
fn on_two_devices_of_every_target() {
    let devices = TARGETS.map(|gfx| format!("{gfx},{gfx}")).join(",");
    // Access between devices has tests of its own.
    let variables = [("HIP_STANDIN_DEVICES", devices.as_str()), ("OPS_ROCM_PEERS", "direct")];
    with_standin("group::on_two_devices_of_every_target", &variables, |standin| {
        let policy = || Policy::new().order("all_reduce", ["hip"]).order("all_gather", ["hip"]);
        let open = |ordinal| Rocm::builder().ordinal(ordinal).policy(policy()).build().unwrap();
        for (gfx, first) in TARGETS.into_iter().zip((0..).step_by(2)) {
            let group = RocmGroup::of(vec![open(first), open(first + 1)]).unwrap();
            run(&group, every_type(), &[1, 17]).unwrap_or_else(|e| panic!("{gfx}: {e}"));
            executed::check(standin, gfx, &[Family::Group], &[]);
        }
    });
}
