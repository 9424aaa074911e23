//! Normal random numbers are as accurate as promised.
use crate::WAVES_OF_64;
use ops_tests::normal::{UNITS, units, units_of_normal_numbers};
use rocm_ops::{Cpu, Rocm};
use standin_testing::with_standin;

fn check() {
    let found = units_of_normal_numbers(&Rocm::new().unwrap());
    println!("{found} units");
    assert!(found <= UNITS, "{found} units");
}

#[test]
fn normal_numbers_are_accurate_on_waves_of_32() {
    with_standin("normal::normal_numbers_are_accurate_on_waves_of_32", &[], |_| check());
}

#[test]
fn normal_numbers_are_accurate_on_waves_of_64() {
    with_standin("normal::normal_numbers_are_accurate_on_waves_of_64", WAVES_OF_64, |_| check());
}

#[test]
fn normal_numbers_are_accurate_on_the_cpu() {
    let found = units_of_normal_numbers(&Cpu::new());
    assert!(found <= UNITS, "{found} units");
}

#[test]
fn a_unit_is_the_distance_of_neighbours() {
    let one = f32::from_bits(1.0_f32.to_bits() + 5);
    assert_eq!(units(&[-1.0, one], &[-1.0, 1.0]), 5.0);
    assert!(units(&[f32::NAN], &[1.0]).is_nan());
}
