//! The HIP layer on the stand-in: data, order, memory, errors.

mod common;

use common::with_standin;
use ops_rocm::hip::{Device, DeviceInfo, DeviceMemory, Error};

/// Bytes that do not repeat with a shorter period.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect()
}

#[test]
fn a_device_is_found_and_described() {
    with_standin(
        "a_device_is_found_and_described",
        &[("HIP_STANDIN_GFX", "gfx90a:sramecc+:xnack-")],
        |standin| {
            let device = Device::open_default().unwrap();
            let info = device.info();
            assert_eq!((info.gfx.name(), info.gfx.full()), ("gfx90a", "gfx90a:sramecc+:xnack-"));
            assert_eq!(info.wave_size, 64);
            assert!(info.memory > 0 && info.lds_bytes >= 32768 && info.max_block_threads == 1024, "{info:?}");
            let (free, total) = device.memory_info().unwrap();
            assert!(free <= total && total == info.memory);
            assert!(matches!(Device::open(99), Err(Error::NoSuchDevice { ordinal: 99, .. })));
            assert_eq!(standin.count("hipMalloc"), 0);
        },
    );
}

#[test]
fn without_a_device_the_error_says_why() {
    with_standin("without_a_device_the_error_says_why", &[], |standin| {
        standin.fail("hipGetDeviceCount:1");
        let error = DeviceInfo::all(&standin.hip).unwrap_err();
        let text = error.to_string();
        match &error {
            Error::NoDevice(why) => assert!(why.contains("/dev/kfd"), "{why}"),
            Error::Hip(_) => assert!(text.contains("hipGetDeviceCount"), "{text}"),
            _ => panic!("{text}"),
        }
    });
}

#[test]
fn bytes_come_back_as_they_went() {
    with_standin("bytes_come_back_as_they_went", &[], |standin| {
        let (_device, stream) = standin.device_and_stream();
        // One byte, a small piece, more than one large piece, and a remainder.
        for bytes in [1, 1000, 64 << 10, (64 << 10) + 1, (9 << 20) + 17] {
            let data = pattern(bytes);
            let mut memory = DeviceMemory::new(&stream, bytes).unwrap();
            memory.write(&stream, 0, &data).unwrap();
            assert!(memory.read(&stream, 0, bytes).unwrap() == data, "{bytes} bytes");
            assert!(memory.download(&stream, 0, bytes).unwrap().finish().unwrap() == data, "{bytes} bytes");
        }
    });
}

#[test]
fn parts_are_written_filled_copied_and_read() {
    with_standin("parts_are_written_filled_copied_and_read", &[], |standin| {
        let (_device, stream) = standin.device_and_stream();
        let mut memory = DeviceMemory::new(&stream, 100).unwrap();
        let mut other = DeviceMemory::new(&stream, 100).unwrap();
        memory.fill(&stream, 0, 100, 9).unwrap();
        memory.write(&stream, 10, &[1, 2, 3]).unwrap();
        other.fill(&stream, 0, 100, 0).unwrap();
        other.copy_from(&stream, 50, &memory, 9, 5).unwrap();
        assert_eq!(other.read(&stream, 49, 7).unwrap(), [0, 9, 1, 2, 3, 9, 0]);
        let empty = DeviceMemory::new(&stream, 0).unwrap();
        assert_eq!(empty.read(&stream, 0, 0).unwrap(), []);
    });
}

#[test]
fn a_part_past_the_end_is_an_error_before_anything_is_done() {
    with_standin("a_part_past_the_end_is_an_error_before_anything_is_done", &[], |standin| {
        let (_device, stream) = standin.device_and_stream();
        let mut memory = DeviceMemory::new(&stream, 10).unwrap();
        for (offset, bytes) in [(0, 11), (10, 1), (11, 0), (usize::MAX, 2), (1, usize::MAX)] {
            let error = memory.read(&stream, offset, bytes).unwrap_err();
            assert!(matches!(error, Error::Range { len: 10, .. }), "{error}");
            assert!(matches!(memory.fill(&stream, offset, bytes, 0), Err(Error::Range { .. })));
        }
        assert!(matches!(memory.write(&stream, 8, &[0; 3]), Err(Error::Range { call: "write", .. })));
        assert_eq!(standin.count("hipMemcpyAsync") + standin.count("hipMemsetAsync"), 0);
    });
}

#[test]
fn freed_memory_serves_again_on_its_stream_without_waiting() {
    with_standin("freed_memory_serves_again_on_its_stream_without_waiting", &[], |standin| {
        let (device, stream) = standin.device_and_stream();
        for _ in 0..10 {
            DeviceMemory::new(&stream, 5000).unwrap().fill(&stream, 0, 5000, 1).unwrap();
        }
        let stats = device.memory_stats();
        assert_eq!((stats.allocations, stats.reused, stats.in_use), (10, 9, 0));
        assert_eq!(standin.count("hipMalloc"), 1);
        assert_eq!(standin.count("hipStreamSynchronize") + standin.count("hipDeviceSynchronize"), 0);
        device.trim().unwrap();
        assert_eq!((device.memory_stats().reserved(), standin.live_of("memory")), (0, 0));
    });
}

#[test]
fn a_full_device_trims_its_cache_and_then_says_what_is_missing() {
    with_standin(
        "a_full_device_trims_its_cache_and_then_says_what_is_missing",
        &[("HIP_STANDIN_MEMORY", "33554432")],
        |standin| {
            let (device, stream) = standin.device_and_stream();
            let other = device.stream().unwrap();
            drop(DeviceMemory::new(&stream, 24 << 20).unwrap());
            let held = DeviceMemory::new(&other, 20 << 20).unwrap();
            assert_eq!((device.memory_stats().trims, device.memory_stats().retries), (1, 1));
            let error = DeviceMemory::new(&other, 20 << 20).unwrap_err();
            let Error::OutOfMemory { wanted, total, in_use, cap: None, .. } = error else {
                panic!("{error}")
            };
            assert_eq!((wanted, total, in_use), (20 << 20, 32 << 20, held.len()));
            assert!(error.to_string().contains("20971520 bytes wanted"), "{error}");
            drop(held);
            DeviceMemory::new(&other, 20 << 20).unwrap();
        },
    );
}

#[test]
fn the_cap_is_kept_and_named() {
    with_standin("the_cap_is_kept_and_named", &[], |standin| {
        let (device, stream) = standin.device_and_stream();
        device.set_memory_cap(Some(1 << 20));
        let error = DeviceMemory::new(&stream, 2 << 20).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { cap: Some(cap), .. } if cap == 1 << 20), "{error}");
        device.set_memory_cap(None);
        DeviceMemory::new(&stream, 2 << 20).unwrap();
    });
}

#[test]
fn the_hosts_bytes_are_free_when_a_write_returns() {
    with_standin(
        "the_hosts_bytes_are_free_when_a_write_returns",
        &[("HIP_STANDIN_DELAY_US", "1000")],
        |standin| {
            let (_device, stream) = standin.device_and_stream();
            let mut memory = DeviceMemory::new(&stream, 40 * 100).unwrap();
            let mut bytes = vec![0; 100];
            // More writes than there are pieces of staging memory.
            for number in 0..40 {
                bytes.fill(number);
                memory.write(&stream, usize::from(number) * 100, &bytes).unwrap();
            }
            bytes.fill(255);
            let got = memory.read(&stream, 0, 4000).unwrap();
            assert!(got.iter().enumerate().all(|(at, &byte)| usize::from(byte) == at / 100), "{got:?}");
            assert!(standin.count("hipHostMalloc") <= 10, "{} pieces", standin.count("hipHostMalloc"));
        },
    );
}

#[test]
fn a_download_may_be_dropped_before_it_is_done() {
    with_standin(
        "a_download_may_be_dropped_before_it_is_done",
        &[("HIP_STANDIN_DELAY_US", "3000")],
        |standin| {
            let (_device, stream) = standin.device_and_stream();
            let mut memory = DeviceMemory::new(&stream, 1 << 20).unwrap();
            memory.fill(&stream, 0, 1 << 20, 3).unwrap();
            for _ in 0..20 {
                drop(memory.download(&stream, 0, 1 << 20).unwrap());
            }
            assert!(memory.read(&stream, 0, 1 << 20).unwrap().iter().all(|&byte| byte == 3));
        },
    );
}

#[test]
fn streams_and_events_are_used_again() {
    with_standin("streams_and_events_are_used_again", &[], |standin| {
        let device = standin.device();
        for _ in 0..20 {
            let stream = device.stream().unwrap();
            stream.record().unwrap().synchronize().unwrap();
        }
        assert_eq!(
            (standin.count("hipStreamCreateWithFlags"), standin.count("hipEventCreateWithFlags")),
            (1, 1)
        );
    });
}

#[test]
fn an_error_of_a_drop_is_returned_by_the_next_call_once() {
    with_standin("an_error_of_a_drop_is_returned_by_the_next_call_once", &[], |standin| {
        let (device, home) = standin.device_and_stream();
        let other = device.stream().unwrap();
        let mut memory = DeviceMemory::new(&home, 64).unwrap();
        memory.fill(&other, 0, 64, 2).unwrap();
        standin.fail("hipEventRecord:1");
        drop(memory);
        let error = DeviceMemory::new(&home, 64).unwrap_err();
        assert!(error.to_string().contains("hipEventRecord failed with"), "{error}");
        let mut memory = DeviceMemory::new(&home, 64).unwrap();
        memory.fill(&home, 0, 64, 1).unwrap();
        assert_eq!(memory.read(&home, 0, 64).unwrap(), [1; 64]);
    });
}

#[test]
fn threads_share_a_device_with_a_stream_each() {
    with_standin("threads_share_a_device_with_a_stream_each", &[], |standin| {
        let device = standin.device();
        let home = device.stream().unwrap();
        let mut shared = DeviceMemory::new(&home, 4096).unwrap();
        shared.write(&home, 0, &pattern(4096)).unwrap();
        std::thread::scope(|scope| {
            for number in 0..4u8 {
                let (device, shared) = (&device, &shared);
                scope.spawn(move || {
                    let stream = device.stream().unwrap();
                    for round in 0..50 {
                        let mut own = DeviceMemory::new(&stream, 4096 + 512 * round).unwrap();
                        own.fill(&stream, 0, own.len(), number).unwrap();
                        own.copy_from(&stream, 0, shared, 0, 4096).unwrap();
                        let got = own.read(&stream, 0, own.len()).unwrap();
                        assert!(
                            got[..4096] == pattern(4096) && got[4096..].iter().all(|&byte| byte == number)
                        );
                    }
                });
            }
        });
    });
}
