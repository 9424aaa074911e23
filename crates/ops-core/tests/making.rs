//! Tensors made of other tensors, or of one value.
use ops_core::ops::*;
use ops_core::quant::BlockQ8_0;
use ops_core::{AnyTensor, Backend, DType, Error, F8E4M3, Packing, Result, Scalar, Shape, bf16, f16};
use ops_cpu::{Cpu, Host};

#[test]
fn copies_are_contiguous_and_have_memory_of_their_own() -> Result<()> {
    let b = &Cpu::new();
    let mut x = b.tensor([2, 3], &[1, 2, 3, 4, 5, 6])?;
    let (copy, turned) = (b.copy_of(&x)?, b.copy_of(x.transpose(0, 1)?)?);
    let any = b.copy_of_any(x.step(1, 2)?)?;
    b.fill(&mut x, 0)?;
    assert_eq!(copy.to_vec(b)?, [1, 2, 3, 4, 5, 6]);
    assert!(turned.layout().is_contiguous());
    assert_eq!((turned.dims(), turned.to_vec(b)?), (&[3, 2][..], vec![1, 4, 2, 5, 3, 6]));
    assert!(any.layout().is_contiguous());
    assert_eq!(any.as_ref().typed::<i32>().unwrap().to_vec(b)?, [1, 3, 4, 6]);
    Ok(())
}

#[test]
fn blocks_are_copied_and_packed_elements_are_refused() -> Result<()> {
    let b = &Cpu::new();
    let bytes: Vec<u8> = (0..4 * 34).map(|n| n as u8).collect();
    let blocks: &[BlockQ8_0] = bytemuck::cast_slice(&bytes);
    let x = AnyTensor::from(b.tensor([2, 2], blocks)?);
    let copy = b.copy_of_any(x.transpose(0, 1)?)?;
    assert_eq!((copy.dtype(), copy.dims()), (x.dtype(), &[2, 2][..]));
    let want = [0, 2, 1, 3].map(|n| &bytes[n * 34..][..34]).concat();
    assert_eq!(copy.to_vec(b)?, want);

    static REVERSED: Packing = Packing::new(
        "reversed",
        |_, dims| Some(4 * dims[0]),
        4,
        |_, _, x, y| {
            y.iter_mut().zip(x.iter().rev()).for_each(|(y, x)| *y = *x);
            Ok(())
        },
    );
    let packed = AnyTensor::<Host>::packed(b.alloc(8)?, DType::F32, Shape::new(&[2])?, &REVERSED)?;
    assert!(matches!(b.copy_of_any(&packed), Err(Error::Unsupported { op: "copy", .. })));
    Ok(())
}

#[test]
fn ones_are_ones_in_every_type() -> Result<()> {
    fn check<T: Scalar + PartialEq>(one: T) -> Result<()> {
        let b = &Cpu::new();
        let x = b.ones::<T>([2, 2])?;
        assert_eq!((x.dims(), x.to_vec(b)?), (&[2, 2][..], vec![one; 4]));
        assert_eq!(b.full(3, one)?.to_vec(b)?, [one; 3]);
        assert!(b.ones::<T>([0, 3])?.to_vec(b)?.is_empty());
        Ok(())
    }
    check(f16::ONE)?;
    check(bf16::ONE)?;
    check(1.0f32)?;
    check(1.0f64)?;
    check(F8E4M3::from_bits(0x38))?;
    check(1u8)?;
    check(1i8)?;
    check(1i16)?;
    check(1i32)?;
    check(1i64)?;
    check(1u32)?;
    assert!(matches!(Cpu::new().full([usize::MAX, 2], 1.0f32), Err(Error::TooLarge { .. })));
    assert!(matches!(Cpu::new().ones::<f32>([1; 7]), Err(Error::Rank { .. })));
    Ok(())
}
