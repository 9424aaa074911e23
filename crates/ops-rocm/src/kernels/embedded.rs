//! Code objects that were compiled with the program.
use super::select::select;
use crate::fingerprint::Fingerprint;
use crate::hip::{CodeObject, Gfx};
use ops_kernels::Unit;
use std::borrow::Cow;

/// Compiled kernels by family, unit and target, embedded in a program by feature `aot`.
#[derive(Clone, Debug, Default)]
pub struct CodeObjects {
    parts: Cow<'static, [Part]>,
}

/// Objects of one family, concatenated.
#[derive(Clone, Debug)]
struct Part {
    family: Cow<'static, str>,
    data: Cow<'static, [u8]>,
    /// Whether the data is compressed with zstd.
    packed: bool,
    objects: Cow<'static, [Object]>,
}

/// The position of the object of a unit and target in the uncompressed data.
#[derive(Clone, Debug)]
struct Object {
    unit: Cow<'static, str>,
    target: Cow<'static, str>,
    start: usize,
    len: usize,
    hash: u128,
}

#[cfg(feature = "aot")]
mod built {
    use super::{Cow, Object, Part};
    include!(concat!(env!("OUT_DIR"), "/kernels/embedded.rs"));
}
#[cfg(not(feature = "aot"))]
mod built {
    pub(super) static PARTS: &[super::Part] = &[];
}

/// An object that was found for a device.
pub(super) struct FoundObject<'o> {
    pub(super) target: &'o str,
    part: &'o Part,
    object: &'o Object,
}

impl CodeObjects {
    /// The objects built into this program: none without feature `aot`.
    pub fn embedded() -> CodeObjects {
        CodeObjects { parts: Cow::Borrowed(built::PARTS) }
    }

    /// Objects that a program provides itself, as tuples of unit name ([`Unit::name`]), target and code.
    ///
    /// # Safety
    /// The code was compiled for the target from the unit's text in this version of `ops-kernels`.
    pub unsafe fn from_objects<'c>(
        objects: impl IntoIterator<Item = (Unit, &'c str, &'c [u8])>,
    ) -> CodeObjects {
        let part = |(unit, target, code): (Unit, &str, &[u8])| Part {
            family: unit.family().name().into(),
            data: code.to_vec().into(),
            packed: false,
            objects: vec![Object {
                unit: unit.name().into(),
                target: target.to_owned().into(),
                start: 0,
                len: code.len(),
                hash: Fingerprint::of(code),
            }]
            .into(),
        };
        CodeObjects { parts: objects.into_iter().map(part).collect() }
    }

    /// The targets for which there is code.
    pub fn targets(&self) -> Vec<&str> {
        let mut seen = Vec::new();
        for object in self.parts.iter().flat_map(|part| part.objects.iter()) {
            if !seen.contains(&&*object.target) {
                seen.push(&*object.target);
            }
        }
        seen
    }

    /// The target whose code a device of this architecture would load, if there is one.
    pub fn target_for(&self, gfx: &Gfx) -> Option<&str> {
        select(self.targets(), gfx)
    }

    /// Size of the objects in the program, in bytes.
    pub fn size(&self) -> usize {
        self.parts.iter().map(|part| part.data.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The object of a unit for a device, if there is one.
    pub(super) fn find(&self, unit: &Unit, gfx: &Gfx) -> Option<FoundObject<'_>> {
        let name = unit.name();
        let objects = || {
            let parts = self.parts.iter().filter(|part| part.family == unit.family().name());
            let all = parts.flat_map(|part| part.objects.iter().map(move |object| (part, object)));
            all.filter(|(_, object)| object.unit == *name)
        };
        let target = select(objects().map(|(_, object)| &*object.target), gfx)?;
        let (part, object) = objects().find(|(_, object)| object.target == target)?;
        Some(FoundObject { target, part, object })
    }
}

impl FoundObject<'_> {
    /// The code, if it is undamaged.
    pub(super) fn read(&self) -> Result<CodeObject, String> {
        let Object { start, len, hash, .. } = *self.object;
        let code = if self.part.packed {
            unpack(&self.part.data, start, len)?
        } else {
            self.part.data.get(start..).and_then(|data| data.get(..len)).unwrap_or_default().to_vec()
        };
        if code.len() != len || Fingerprint::of(&code) != hash {
            return Err("it is damaged".into());
        }
        // SAFETY: the hash proves that these are the bytes the compiler wrote.
        Ok(unsafe { CodeObject::from_bytes(&code) })
    }
}

/// A part of the uncompressed data.
#[cfg(feature = "aot")]
fn unpack(packed: &[u8], start: usize, len: usize) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let damaged = |error: &dyn std::fmt::Display| format!("it is damaged: {error}");
    let mut data = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|error| damaged(&error))?;
    let mut code = Vec::with_capacity(len);
    std::io::copy(&mut data.by_ref().take(start as u64), &mut std::io::sink())
        .and_then(|_| data.by_ref().take(len as u64).read_to_end(&mut code))
        .map_err(|error| damaged(&error))?;
    Ok(code)
}
#[cfg(not(feature = "aot"))]
fn unpack(_: &[u8], _: usize, _: usize) -> Result<Vec<u8>, String> {
    Err("this program was built without feature `aot`, which is needed to unpack it".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(name: &str) -> Unit {
        Unit::all().into_iter().find(|unit| unit.name() == name).unwrap()
    }

    fn read(objects: &CodeObjects, name: &str, gfx: &str) -> Option<Result<Vec<u8>, String>> {
        let found = objects.find(&unit(name), &Gfx::parse(gfx).unwrap())?;
        Some(found.read().map(|code| code.to_bytes()))
    }

    #[test]
    fn objects_are_found_by_unit_and_target_and_told_apart_from_damaged_ones() {
        let (norm, cast) = (unit("norm-rms-wave-f16-f32"), unit("cast-u8"));
        let list: [(Unit, &str, &[u8]); 3] =
            [(norm, "gfx1100", b"own"), (norm, "gfx11-generic", b"generic"), (cast, "gfx1100", b"cast")];
        // SAFETY: nothing is loaded.
        let mut objects = unsafe { CodeObjects::from_objects(list) };
        assert_eq!(objects.targets(), ["gfx1100", "gfx11-generic"]);
        assert_eq!(read(&objects, "norm-rms-wave-f16-f32", "gfx1100"), Some(Ok(b"own".to_vec())));
        assert_eq!(read(&objects, "norm-rms-wave-f16-f32", "gfx1103"), Some(Ok(b"generic".to_vec())));
        assert_eq!(read(&objects, "cast-u8", "gfx1103"), None);
        assert_eq!(read(&objects, "cast-f32", "gfx1100"), None);
        objects.parts.to_mut()[0].data.to_mut()[1] ^= 1;
        assert!(read(&objects, "norm-rms-wave-f16-f32", "gfx1100").unwrap().is_err());
        objects.parts.to_mut()[0].data.to_mut().truncate(2);
        assert!(read(&objects, "norm-rms-wave-f16-f32", "gfx1100").unwrap().is_err());
    }

    #[cfg(feature = "aot")]
    #[test]
    fn what_this_program_embeds_is_whole_and_has_every_kernel() {
        let objects = CodeObjects::embedded();
        for target in objects.targets() {
            let gfx = Gfx::parse(target).unwrap();
            for unit in Unit::all().into_iter().filter(|unit| unit.runs_on(target)) {
                let found = objects.find(&unit, &gfx).unwrap();
                assert_eq!(found.target, target);
                let code = found.read().unwrap().to_bytes();
                assert!(code.starts_with(b"\x7fELF"), "{} for {target}", unit.name());
                for instance in unit.instances().filter(|k| k.runs_on(target)) {
                    let symbol = format!("\0{}.kd\0", instance.symbol);
                    assert!(
                        code.windows(symbol.len()).any(|part| part == symbol.as_bytes()),
                        "{} for {target}",
                        instance.symbol
                    );
                }
            }
        }
    }

    #[cfg(feature = "aot")]
    #[test]
    fn packed_data_with_a_changed_byte_is_an_error() {
        let mut objects = CodeObjects::embedded();
        let Object { unit: name, target, .. } = objects.parts[0].objects[0].clone();
        let unit = unit(&name);
        let len = objects.parts[0].data.len();
        for byte in (0..len).step_by(len / 64 + 1) {
            objects.parts.to_mut()[0].data.to_mut()[byte] ^= 0x40;
            // A change that affects only another target's part may leave this one intact, but never different.
            let found = objects.find(&unit, &Gfx::parse(&target).unwrap()).unwrap();
            let whole = CodeObjects::embedded();
            let before = whole.find(&unit, &Gfx::parse(&target).unwrap()).unwrap().read().unwrap().to_bytes();
            assert!(found.read().is_err() || found.read().unwrap().to_bytes() == before, "byte {byte}");
            objects.parts.to_mut()[0].data.to_mut()[byte] ^= 0x40;
        }
    }
}
