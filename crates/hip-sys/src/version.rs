//! Versions of libraries.
use core::fmt;

/// A library's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Patch number; for HIP its build number.
    pub patch: u32,
}

impl Version {
    /// A version from its three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Version {
        Version { major, minor, patch }
    }

    /// Parses text such as `4.4.1.ab12cd`. Missing numbers are 0, and anything after the third is ignored.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.trim().split(['.', '-', '+', ' ']).map(|part| part.parse::<u32>().ok());
        let major = parts.next()??;
        let mut next = || parts.next().flatten().unwrap_or(0);
        Some(Version::new(major, next(), next()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
