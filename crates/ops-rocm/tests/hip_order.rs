//! Order between streams on the stand-in: which stream waits for what, how often, and when memory is reused.

mod common;

use common::{Standin, with_standin};
use ops_rocm::hip::{DeviceMemory, Purpose};

#[test]
fn streams_see_each_others_writes_in_the_order_of_the_program() {
    // All work is delayed, so that an order that is not enforced breaks.
    let variables = [("HIP_STANDIN_DELAY_US", "3000")];
    with_standin("streams_see_each_others_writes_in_the_order_of_the_program", &variables, |standin| {
        let (device, home) = standin.device_and_stream();
        let (other, third) = (device.stream().unwrap(), device.stream().unwrap());
        let mut memory = DeviceMemory::new(&home, 64).unwrap();
        for round in 0..5 {
            memory.fill(&home, 0, 64, round).unwrap();
            assert_eq!(memory.read(&other, 0, 64).unwrap(), [round; 64]);
            memory.fill(&other, 0, 64, round + 100).unwrap();
            let (first, second) =
                (memory.download(&third, 0, 64).unwrap(), memory.download(&home, 0, 64).unwrap());
            memory.fill(&home, 0, 64, 0).unwrap();
            assert_eq!(first.finish().unwrap(), [round + 100; 64]);
            assert_eq!(second.finish().unwrap(), [round + 100; 64]);
        }
    });
}

#[test]
fn a_reader_elsewhere_waits_for_the_write_and_not_for_the_queue() {
    let slow = [("HIP_STANDIN_DELAY_US", "2000")];
    with_standin("a_reader_elsewhere_waits_for_the_write_and_not_for_the_queue", &slow, |standin| {
        let (device, home) = standin.device_and_stream();
        let other = device.stream().unwrap();
        let mut weight = DeviceMemory::new(&home, 64).unwrap();
        weight.write(&home, 0, &[7; 64]).unwrap();
        let mut busy = DeviceMemory::new(&home, 64).unwrap();
        for _ in 0..200 {
            busy.fill(&home, 0, 64, 1).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(weight.read(&other, 0, 64).unwrap(), [7; 64]);
        }
        assert!(!home.is_idle().unwrap(), "the reader waited for all work of the other queue");
    });
}

/// Numbers of events and waits so far.
fn events(standin: &Standin<'_>) -> [u64; 2] {
    ["hipEventRecord", "hipStreamWaitEvent"].map(|function| standin.count(function))
}

#[test]
fn repeated_reads_elsewhere_record_nothing_and_wait_for_nothing() {
    with_standin("repeated_reads_elsewhere_record_nothing_and_wait_for_nothing", &[], |standin| {
        let (device, home) = standin.device_and_stream();
        let (other, third) = (device.stream().unwrap(), device.stream().unwrap());
        let mut weight = DeviceMemory::new(&home, 64).unwrap();
        let mut out = DeviceMemory::new(&other, 64).unwrap();
        let mut out_of_third = DeviceMemory::new(&third, 64).unwrap();
        let since = |before: [u64; 2]| {
            let after = events(standin);
            [after[0] - before[0], after[1] - before[1]]
        };
        for round in 0..3 {
            // The copy to pinned memory leaves an event after it, which readers use; a fill leaves none.
            let upload = round == 1;
            if upload {
                weight.write(&home, 0, &[round; 64]).unwrap();
            } else {
                weight.fill(&home, 0, 64, round).unwrap();
            }
            let before = events(standin);
            out.copy_from(&other, 0, &weight, 0, 64).unwrap();
            assert_eq!(since(before), [u64::from(!upload), 1], "the first read of {round}");
            let before = events(standin);
            for _ in 0..10 {
                out.copy_from(&other, 0, &weight, 0, 64).unwrap();
            }
            assert_eq!(since(before), [0, 0], "later reads of {round}");
            out_of_third.copy_from(&third, 0, &weight, 0, 64).unwrap();
            assert_eq!(since(before), [0, 1], "the first read of a third stream shares the event");
            home.synchronize().unwrap();
            assert_eq!(out.read(&other, 0, 64).unwrap(), [round; 64]);
        }
        // Work that the host has waited for is over.
        weight.fill(&home, 0, 64, 9).unwrap();
        home.synchronize().unwrap();
        other.synchronize().unwrap();
        third.synchronize().unwrap();
        let before = events(standin);
        out.copy_from(&other, 0, &weight, 0, 64).unwrap();
        assert_eq!(since(before), [0, 0], "after the host's wait");
        assert_eq!(out.read(&other, 0, 64).unwrap(), [9; 64]);
    });
}

#[test]
fn writers_of_two_parts_come_both_after_the_writer_of_the_whole() {
    with_standin("writers_of_two_parts_come_both_after_the_writer_of_the_whole", &[], |standin| {
        let (device, home) = standin.device_and_stream();
        let [whole, first, second, reader] = [(); 4].map(|()| device.stream().unwrap());
        let mut memory = DeviceMemory::new(&home, 64).unwrap();
        memory.fill(&whole, 0, 64, 1).unwrap();
        let before = events(standin);
        let parts =
            (memory.access(&first, Purpose::Write).unwrap(), memory.access(&second, Purpose::Write).unwrap());
        assert_eq!(events(standin)[1] - before[1], 2, "each waits for the writer of the whole");
        drop(parts);
        let before = events(standin);
        drop(memory.access(&reader, Purpose::Read).unwrap());
        assert_eq!(
            events(standin)[1] - before[1],
            2,
            "the reader waits for both parts, and they for the whole"
        );
        let before = events(standin);
        drop(memory);
        assert_eq!(
            events(standin)[1] - before[1],
            3,
            "the home stream waits for all before the memory is reused"
        );
    });
}

#[test]
fn memory_is_not_given_out_again_before_other_streams_are_done_with_it() {
    let variables = [("HIP_STANDIN_DELAY_US", "5000")];
    with_standin(
        "memory_is_not_given_out_again_before_other_streams_are_done_with_it",
        &variables,
        |standin| {
            let (device, home) = standin.device_and_stream();
            let other = device.stream().unwrap();
            for _ in 0..5 {
                let mut memory = DeviceMemory::new(&home, 4096).unwrap();
                memory.fill(&home, 0, 4096, 1).unwrap();
                let mut copy = DeviceMemory::new(&other, 4096).unwrap();
                copy.fill(&other, 0, 4096, 7).unwrap();
                copy.copy_from(&other, 0, &memory, 0, 4096).unwrap();
                drop(memory);
                let mut next = DeviceMemory::new(&home, 4096).unwrap();
                next.fill(&home, 0, 4096, 2).unwrap();
                assert!(copy.read(&other, 0, 4096).unwrap() == [1; 4096], "the next owner wrote too early");
            }
            assert!(device.memory_stats().reused > 0);
        },
    );
}

#[test]
fn memory_is_not_given_to_another_stream_while_its_own_has_work_on_it() {
    let variables = [("HIP_STANDIN_DELAY_US", "5000")];
    with_standin(
        "memory_is_not_given_to_another_stream_while_its_own_has_work_on_it",
        &variables,
        |standin| {
            let (device, first) = standin.device_and_stream();
            let second = device.stream().unwrap();
            let mut memory = DeviceMemory::new(&second, 4096).unwrap();
            for _ in 0..4 {
                memory.fill(&second, 0, 4096, 1).unwrap();
            }
            drop(memory);
            let mut next = DeviceMemory::new(&first, 4096).unwrap();
            next.fill(&first, 0, 4096, 2).unwrap();
            second.synchronize().unwrap();
            assert!(next.read(&first, 0, 4096).unwrap() == [2; 4096], "the former owner wrote too late");
        },
    );
}

#[test]
fn a_fork_comes_after_what_was_there() {
    with_standin("a_fork_comes_after_what_was_there", &[("HIP_STANDIN_DELAY_US", "3000")], |standin| {
        let (_device, stream) = standin.device_and_stream();
        let mut memory = DeviceMemory::new(&stream, 8).unwrap();
        memory.fill(&stream, 0, 8, 5).unwrap();
        let fork = stream.fork().unwrap();
        fork.synchronize().unwrap();
        assert!(stream.is_idle().unwrap());
        let (start, stop) = (stream.record_timed().unwrap(), stream.record_timed().unwrap());
        assert!(stop.milliseconds_since(&start).unwrap() >= 0.0);
        assert!(start.is_reached().unwrap());
    });
}
