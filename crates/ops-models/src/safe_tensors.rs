//! Tensors of safetensors files, for models of one's own.
use crate::folder::tensors::{self, Stored};
use crate::{Error, Result};
use ops_core::{AnyOf, AnyTensor, Backend, DType, Element, Layout, TensorOf};
use ops_gguf::Bytes;
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The tensors of a safetensors file, or of all files in a folder, by name: for weights of your own model.
///
/// ```
/// use rocm_ops::{AnyOf, Backend, TensorOf, ops::*};
/// use rocm_ops::Cpu;
/// use rocm_ops::models::SafeTensors;
///
/// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/folders/llama");
/// let cpu = Cpu::new();
/// let weights = SafeTensors::open(folder)?; // or a file, such as model.safetensors
/// for tensor in weights.iter() {
///     println!("{} {:?} {:?}", tensor.name(), tensor.dtype(), tensor.dims());
/// }
/// let up: AnyOf<Cpu> = weights.any_tensor(&cpu, "model.layers.0.mlp.up_proj.weight")?; // in the type of the file
/// let x: TensorOf<Cpu, f32> = cpu.zeros(&[1, up.dims()[1]])?;
/// let y = cpu.linear(&x, &up)?;
/// # assert_eq!(y.dims(), [1, up.dims()[0]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`open`](crate::open) instead reads folders of the model families that this crate runs.
pub struct SafeTensors {
    tensors: BTreeMap<String, Stored>,
}

/// A tensor of [`SafeTensors`].
#[derive(Clone, Copy)]
pub struct SafeTensor<'s>(&'s Stored);

impl<'s> SafeTensor<'s> {
    /// Its name.
    pub fn name(&self) -> &'s str {
        &self.0.name
    }

    /// Its extents, outermost first.
    pub fn dims(&self) -> &'s [usize] {
        &self.0.dims
    }

    /// The type of its elements; booleans count as u8. `None` for a type that this library does not have.
    pub fn dtype(&self) -> Option<DType> {
        Some(match self.0.dtype {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::F8_E4M3 => DType::F8E4M3,
            Dtype::I64 => DType::I64,
            Dtype::I32 => DType::I32,
            Dtype::I16 => DType::I16,
            Dtype::I8 => DType::I8,
            Dtype::U32 => DType::U32,
            Dtype::U8 | Dtype::BOOL => DType::U8,
            _ => return None,
        })
    }

    /// Its elements as bytes, in row-major order.
    pub fn bytes(&self) -> &'s [u8] {
        let (file, part) = &self.0.piece;
        file.get(part.clone()).unwrap_or_default() // the header was checked when the file was opened
    }

    fn wrong(&self, got: String, wanted: impl ToString) -> Error {
        Error::Tensor { name: self.0.name.clone(), got, wanted: wanted.to_string() }
    }

    /// The element type, which must be one that this library has.
    fn known_dtype(&self) -> Result<DType> {
        let wanted = "F64, F32, F16, BF16, F8_E4M3, I64, I32, I16, I8, U32, U8 or BOOL";
        self.dtype().ok_or_else(|| self.wrong(format!("type {:?}", self.0.dtype), wanted))
    }
}

impl fmt::Debug for SafeTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {:?}", self.0.name, self.0.dtype, self.0.dims)
    }
}

impl fmt::Debug for SafeTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Part of a file's memory.
struct Part(Stored);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        SafeTensor(&self.0).bytes()
    }
}

impl SafeTensors {
    /// Opens a safetensors file, or a folder with `model.safetensors` or `model.safetensors.index.json` and the files that this names.
    /// They are read into memory.
    ///
    /// # Errors
    /// [`Error::File`] for files that cannot be read; [`Error::Folder`], which names the file, if one is missing or damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &mut |file| Bytes::read(file))
    }

    /// [`open`](Self::open), with the files opened by `read`, which may for example map them.
    ///
    /// # Errors
    /// As [`open`](Self::open), and errors of `read`.
    pub fn open_with(
        path: impl AsRef<Path>,
        read: &mut dyn FnMut(&Path) -> ops_gguf::Result<Bytes>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let files = match path.is_dir() {
            true => tensors::files(path)?,
            false => BTreeMap::from([(path.to_owned(), Vec::new())]),
        };
        let mut all = BTreeMap::new();
        for (file, listed) in files {
            for stored in tensors::stored(&file, &read(&file)?, &listed)? {
                all.insert(stored.name.clone(), stored);
            }
        }
        Ok(SafeTensors { tensors: all })
    }

    /// All tensors, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = SafeTensor<'_>> {
        self.tensors.values().map(SafeTensor)
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// [`Error::Tensor`] if there is none.
    pub fn get(&self, name: &str) -> Result<SafeTensor<'_>> {
        let missing = || {
            let (got, wanted) = ("no such tensor".to_owned(), "a name that `iter` lists".to_owned());
            Error::Tensor { name: name.to_owned(), got, wanted }
        };
        self.tensors.get(name).map(SafeTensor).ok_or_else(missing)
    }

    /// A tensor on a backend, in the type that it has in the file: what ops take as a weight. A backend that computes on host memory
    /// uses the file's memory if it is aligned for the type.
    ///
    /// # Errors
    /// [`Error::Tensor`] if there is none of this name, or if its type is none of this library's; those of the backend.
    pub fn any_tensor<B: Backend>(&self, b: &B, name: &str) -> Result<AnyOf<B>> {
        let tensor = self.get(name)?;
        let dtype = tensor.known_dtype()?;
        let shared = b.adopt(Arc::new(Part(tensor.0.clone())))?;
        match AnyTensor::new(shared, dtype, Layout::contiguous(tensor.dims())?) {
            Err(ops_core::Error::Align { .. }) => Ok(b.any_tensor(dtype, tensor.dims(), tensor.bytes())?),
            adopted => Ok(adopted?),
        }
    }

    /// A tensor of `T` on a backend.
    ///
    /// # Errors
    /// [`Error::Tensor`] if there is none of this name, or if it has another type; those of the backend.
    pub fn tensor<T: Element, B: Backend>(&self, b: &B, name: &str) -> Result<TensorOf<B, T>> {
        let tensor = self.get(name)?;
        let dtype = tensor.known_dtype()?;
        if dtype != T::DTYPE {
            return Err(tensor.wrong(format!("type {dtype}"), T::DTYPE));
        }
        let elements: Vec<T> = bytemuck::pod_collect_to_vec(tensor.bytes());
        Ok(b.tensor(tensor.dims(), &elements)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::bf16;
    use ops_cpu::Cpu;

    /// A file with these tensors: names, types, extents and bytes.
    fn file(tensors: &[(&str, &str, &str, &[u8])]) -> Vec<u8> {
        let (mut about, mut data) = (Vec::new(), Vec::new());
        for (name, dtype, dims, bytes) in tensors {
            let (from, to) = (data.len(), data.len() + bytes.len());
            about.push(format!(
                r#""{name}":{{"dtype":"{dtype}","shape":{dims},"data_offsets":[{from},{to}]}}"#
            ));
            data.extend_from_slice(bytes);
        }
        let header = format!("{{{}}}", about.join(","));
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
    }

    #[test]
    fn tensors_of_a_file_and_of_a_folder_are_found_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let floats: Vec<u8> = [1.0_f32, -2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        // An odd number of bytes before the floats: they cannot be used in place.
        let one = file(&[("flags", "BOOL", "[3]", &[1, 0, 1]), ("w", "F32", "[3,1]", &floats)]);
        std::fs::write(at("one.safetensors"), one).unwrap();
        let two = file(&[("b", "BF16", "[]", &[0x80, 0x3f]), ("c", "U16", "[1]", &[1, 2])]);
        std::fs::write(at("two.safetensors"), two).unwrap();
        let map =
            r#"{"weight_map": {"w": "one.safetensors", "flags": "one.safetensors", "b": "two.safetensors"}}"#;
        std::fs::write(at("model.safetensors.index.json"), map).unwrap();

        let (cpu, all) = (Cpu::new(), SafeTensors::open(folder.path()).unwrap());
        let listed: Vec<_> = all.iter().map(|t| (t.name(), t.dtype(), t.dims().len())).collect();
        let u8s = Some(DType::U8);
        assert_eq!(
            listed,
            [("b", Some(DType::BF16), 0), ("c", None, 1), ("flags", u8s, 1), ("w", Some(DType::F32), 2)]
        );
        assert_eq!(all.tensor::<f32, _>(&cpu, "w").unwrap().to_vec(&cpu).unwrap(), [1.0, -2.0, 3.0]);
        assert_eq!(all.tensor::<bf16, _>(&cpu, "b").unwrap().to_vec(&cpu).unwrap(), [bf16::ONE]);
        let any = all.any_tensor(&cpu, "w").unwrap();
        assert_eq!(any.dims(), [3, 1]);
        assert_eq!(any.as_ref().typed::<f32>().unwrap().to_vec(&cpu).unwrap(), [1.0, -2.0, 3.0]);
        let alone = SafeTensors::open(at("one.safetensors")).unwrap();
        assert_eq!(alone.iter().count(), 2);
        for (error, parts) in [
            (all.tensor::<f32, _>(&cpu, "b").unwrap_err(), ["tensor b", "got type bf16, wanted f32"]),
            (all.any_tensor(&cpu, "c").unwrap_err(), ["tensor c", "got type U16"]),
            (all.any_tensor(&cpu, "d").unwrap_err(), ["tensor d", "no such tensor"]),
        ] {
            let error = error.to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        std::fs::write(at("two.safetensors"), b"\x80\x02").unwrap();
        assert!(SafeTensors::open(folder.path()).unwrap_err().to_string().contains("pickle"));
    }
}
