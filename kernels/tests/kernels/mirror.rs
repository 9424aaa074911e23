//! The Rust side and the sources agree on what exists and how it is laid out.
use crate::host::{WAVES, args_size};
use ops_kernels::instances;

#[test]
fn every_instance_is_in_its_module_with_the_same_argument_size() {
    for wave in WAVES {
        for k in instances() {
            assert_eq!(args_size(k.family, wave, &k.symbol), Some(k.args_size as u64), "{}", k.symbol);
        }
    }
}
