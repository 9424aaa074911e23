//! Which device is chosen, several devices in one process, and streams of other code, on the stand-in.

mod common;

use common::with_standin;
use ops_rocm::hip::{Device, DeviceInfo, DeviceMemory, Error, Purpose, Stream, remarks};

const TWO: (&str, &str) = ("HIP_STANDIN_DEVICES", "gfx1036:integrated,gfx1100");

#[test]
fn the_default_is_not_the_integrated_device_that_comes_first() {
    with_standin("the_default_is_not_the_integrated_device_that_comes_first", &[TWO], |standin| {
        let devices = DeviceInfo::all(&standin.hip).unwrap();
        let kinds: Vec<_> = devices.iter().map(|device| (device.gfx.name(), device.integrated)).collect();
        assert_eq!(kinds, [("gfx1036", true), ("gfx1100", false)]);
        assert!(remarks(&devices).iter().any(|remark| remark.contains("integrated")));
        let device = Device::open_default().unwrap();
        assert_eq!((device.info().ordinal, device.info().gfx.name()), (1, "gfx1100"));
        assert_eq!(Device::open(0).unwrap().info().gfx.name(), "gfx1036");
    });
}

#[test]
fn a_machine_without_a_device_is_told_from_one_without_rocm() {
    let none = [("HIP_STANDIN_DEVICES", "none")];
    with_standin("a_machine_without_a_device_is_told_from_one_without_rocm", &none, |_| {
        let error = Device::open_default().unwrap_err();
        assert!(matches!(&error, Error::NoDevice(why) if why.contains("/dev/kfd")), "{error}");
        assert!(!error.to_string().contains('\n'));
    });
}

#[test]
fn a_device_that_is_not_supported_is_no_default() {
    let old = [("HIP_STANDIN_DEVICES", "gfx803")];
    with_standin("a_device_that_is_not_supported_is_no_default", &old, |_| {
        let error = Device::open_default().unwrap_err();
        assert!(matches!(&error, Error::NoDevice(why) if why.contains("gfx803")), "{error}");
    });
}

#[test]
fn the_threads_current_device_is_as_it_was() {
    with_standin("the_threads_current_device_is_as_it_was", &[TWO], |standin| {
        let devices = DeviceInfo::all(&standin.hip).unwrap();
        let (first, second) =
            (Device::new(&standin.hip, devices[0].clone()), Device::new(&standin.hip, devices[1].clone()));
        for (device, value) in [(&first, 1), (&second, 2)] {
            let stream = device.stream().unwrap();
            let mut memory = DeviceMemory::new(&stream, 100).unwrap();
            memory.fill(&stream, 0, 100, value).unwrap();
            assert_eq!(memory.read(&stream, 0, 100).unwrap(), [value; 100]);
            assert_eq!(standin.hip.current_device(), Ok(0));
        }
        standin.hip.set_device(1).unwrap();
        first.stream().unwrap().record().unwrap();
        assert_eq!(standin.hip.current_device(), Ok(1));
    });
}

#[test]
fn a_stream_of_another_device_is_refused() {
    with_standin("a_stream_of_another_device_is_refused", &[TWO], |standin| {
        let devices = DeviceInfo::all(&standin.hip).unwrap();
        let (first, second) =
            (Device::new(&standin.hip, devices[0].clone()), Device::new(&standin.hip, devices[1].clone()));
        let memory = DeviceMemory::new(&first.stream().unwrap(), 100).unwrap();
        let error = memory.access(&second.stream().unwrap(), Purpose::Read).unwrap_err();
        assert!(matches!(error, Error::OtherDevice { stream: 1, owner: 0, .. }), "{error}");
        assert!(
            error.to_string().contains("the stream belongs to device 1, the other object to device 0"),
            "{error}"
        );
    });
}

#[test]
fn a_stream_of_other_code_is_used_and_left_alone() {
    with_standin(
        "a_stream_of_other_code_is_used_and_left_alone",
        &[("HIP_STANDIN_DELAY_US", "2000")],
        |standin| {
            let device = standin.device();
            let theirs = standin.hip.stream_create().unwrap();
            {
                // SAFETY: the stream belongs to the first device, and is destroyed after the last clone is
                // gone.
                let stream = unsafe { Stream::borrow_raw(&device, theirs) };
                let mut memory = DeviceMemory::new(&stream, 1000).unwrap();
                memory.fill(&stream, 0, 1000, 4).unwrap();
                let other = device.stream().unwrap();
                assert_eq!(memory.read(&other, 0, 1000).unwrap(), [4; 1000]);
            }
            assert_eq!(device.memory_stats().reserved(), 0);
            // SAFETY: live, and not used again.
            unsafe { standin.hip.stream_destroy(theirs) }.unwrap();
        },
    );
}

#[test]
fn nothing_uses_a_stream_after_its_loan() {
    let slow = [("HIP_STANDIN_DELAY_US", "2000")];
    with_standin("nothing_uses_a_stream_after_its_loan", &slow, |standin| {
        let device = standin.device();
        let (own, theirs) = (device.stream().unwrap(), standin.hip.stream_create().unwrap());
        // SAFETY: the stream belongs to the first device, and is destroyed after its loan has ended.
        let lent = unsafe { Stream::borrow_raw(&device, theirs) };
        let mut at_home = DeviceMemory::new(&lent, 1000).unwrap();
        let mut elsewhere = DeviceMemory::new(&own, 1000).unwrap();
        at_home.write(&lent, 0, &[4; 1000]).unwrap();
        elsewhere.copy_from(&lent, 0, &at_home, 0, 1000).unwrap();
        let (event, download) = (lent.record().unwrap(), at_home.download(&lent, 0, 1000).unwrap());
        let dropped = at_home.download(&lent, 0, 1000).unwrap();
        lent.end_loan().unwrap();
        // SAFETY: live, and not used again.
        unsafe { standin.hip.stream_destroy(theirs) }.unwrap();

        let refused = [
            lent.synchronize(),
            lent.is_idle().map(drop),
            lent.record().map(drop),
            lent.fork().map(drop),
            lent.wait(&own.record().unwrap()),
            at_home.write(&lent, 0, &[1]),
            at_home.fill(&lent, 0, 1, 1),
            at_home.read(&lent, 0, 1).map(drop),
            elsewhere.copy_from(&lent, 0, &at_home, 0, 1),
            DeviceMemory::new(&lent, 1).map(drop),
        ];
        for result in refused {
            assert!(matches!(result, Err(Error::LoanEnded { .. })), "{result:?}");
        }
        // The stream's work is done, and other streams continue with its results.
        assert!(event.is_reached().unwrap());
        event.synchronize().unwrap();
        own.wait(&event).unwrap();
        drop(dropped);
        assert_eq!(download.finish().unwrap(), [4; 1000]);
        assert_eq!(at_home.read(&own, 0, 1000).unwrap(), [4; 1000]);
        assert_eq!(elsewhere.read(&own, 0, 1000).unwrap(), [4; 1000]);
        at_home.fill(&own, 0, 1000, 5).unwrap();
        lent.end_loan().unwrap();
        drop((at_home, elsewhere, event, lent));
        device.trim().unwrap();
        assert_eq!(device.memory_stats().reserved(), 0);
    });
}

/// Querying HIP for an event follows it to its stream, which belongs to other code.
#[test]
fn a_borrowed_stream_is_not_asked_while_its_owner_captures_it() {
    let slow = [("HIP_STANDIN_DELAY_US", "500")];
    with_standin("a_borrowed_stream_is_not_asked_while_its_owner_captures_it", &slow, |standin| {
        let device = standin.device();
        let (own, theirs) = (device.stream().unwrap(), standin.hip.stream_create().unwrap());
        // SAFETY: the stream belongs to the first device, and is destroyed after its loan has ended.
        let lent = unsafe { Stream::borrow_raw(&device, theirs) };
        let mut at_home = DeviceMemory::new(&lent, 1000).unwrap();
        let mut other = DeviceMemory::new(&own, 1000).unwrap();
        // Pinned memory, whose next user must know whether these copies are done.
        at_home.write(&lent, 0, &[4; 1000]).unwrap();
        drop(at_home.download(&lent, 0, 1000).unwrap());
        standin.capture(theirs, true);
        for round in 0..20 {
            other.write(&own, 0, &[round; 1000]).unwrap();
        }
        assert_eq!(other.read(&own, 0, 1000).unwrap(), [19; 1000]);
        standin.capture(theirs, false);
        assert_eq!(at_home.read(&lent, 0, 1000).unwrap(), [4; 1000]);
        drop(at_home);
        lent.end_loan().unwrap();
        // SAFETY: live, and not used again.
        unsafe { standin.hip.stream_destroy(theirs) }.unwrap();
        for round in 0..20 {
            other.write(&own, 0, &[round; 1000]).unwrap();
        }
        own.synchronize().unwrap();
    });
}
