//! The stand-in for ROCm, opened by this crate's HIP layer.
#![allow(dead_code)]

use std::ops::Deref;

use hip_sys::Search;
use ops_rocm::hip::{Device, DeviceInfo, Hip, Stream};

/// The stand-in and the runtime that it implements.
pub(crate) struct Standin<'s> {
    pub(crate) hip: Hip,
    standin: &'s standin_testing::Standin,
}

/// As [`standin_testing::with_standin`].
pub(crate) fn with_standin(test: &str, variables: &[(&str, &str)], body: impl FnOnce(&Standin<'_>)) {
    standin_testing::with_standin(test, variables, |standin| {
        let hip = Hip::load_from(&Search::standard()).expect("the stand-in loads");
        body(&Standin { hip, standin });
    });
}

impl Standin<'_> {
    pub(crate) fn device(&self) -> Device {
        let devices = DeviceInfo::all(&self.hip).expect("the stand-in has a device");
        Device::new(&self.hip, devices[0].clone())
    }

    pub(crate) fn device_and_stream(&self) -> (Device, Stream) {
        let device = self.device();
        let stream = device.stream().expect("the device has a stream");
        (device, stream)
    }
}

impl Deref for Standin<'_> {
    type Target = standin_testing::Standin;
    fn deref(&self) -> &Self::Target {
        self.standin
    }
}
