//! `Debug` and `Display` of tensors and views.
use ops_core::quant::BlockQ8_0;
use ops_core::{
    AnyMut, AnyRef, AnyTensor, Backend, DType, Either, F8E4M3, Layout, Packing, Result, Scalar, TensorMut,
    TensorRef, bf16, f16,
};
use ops_cpu::{Cpu, Host, Reference};

#[test]
fn debug_is_one_line_of_type_layout_and_values() -> Result<()> {
    let b = &Cpu::new();
    let mut x = b.tensor([2, 3], &[1.0f32, 2.5, -3.0, f32::NAN, f32::INFINITY, 1e-9])?;
    let values = "[[1.0, 2.5, -3.0], [NaN, inf, 1e-9]]";
    assert_eq!(format!("{x:?}"), format!("Tensor<f32> [2, 3] {values}"));
    assert_eq!(format!("{:?}", x.as_ref()), format!("TensorRef<f32> [2, 3] {values}"));
    assert_eq!(format!("{:?}", x.any()), format!("AnyRef<f32> [2, 3] {values}"));
    assert_eq!(format!("{:?}", x.as_mut()), format!("TensorMut<f32> [2, 3] {values}"));
    assert_eq!(format!("{:?}", x.as_mut().any()), format!("AnyMut<f32> [2, 3] {values}"));
    let turned = format!("{:?}", x.transpose(0, 1)?.narrow(0, 1, 1)?);
    assert_eq!(turned, "TensorRef<f32> [1, 2] strides [1, 3] offset 1 [[2.5, inf]]");
    assert_eq!(format!("{:?}", AnyTensor::from(x)), format!("AnyTensor<f32> [2, 3] {values}"));
    let long = b.tensor([100], &(0..100).collect::<Vec<i64>>())?;
    assert_eq!(format!("{long:?}"), "Tensor<i64> [100] [0, ..., 99]");
    assert_eq!(format!("{:?}", long.narrow(0, 0, 3)?), "TensorRef<i64> [3] [0, 1, 2]");
    assert_eq!(format!("{:?}", long.narrow(0, 0, 0)?), "TensorRef<i64> [0] []");
    Ok(())
}

#[test]
fn display_aligns_values_by_axis() -> Result<()> {
    let b = &Cpu::new();
    let x = b.tensor([2, 2, 2], &[1.0f32, -2.5, 30.0, 0.125, 0.0, -0.0, f32::NAN, f32::NEG_INFINITY])?;
    let lines = ["[[[ 1.000 -2.500]", "  [30.000  0.125]]", "", " [[ 0.000 -0.000]", "  [   NaN   -inf]]]"];
    assert_eq!(x.to_string(), lines.join("\n"));
    assert_eq!(x.transpose(1, 2)?.narrow(0, 0, 1)?.to_string(), "[[[ 1.000 30.000]\n  [-2.500  0.125]]]");
    assert_eq!(b.tensor([2, 2], &[1u8, 20, 3, 255])?.to_string(), "[[  1  20]\n [  3 255]]");
    assert_eq!(b.tensor((), &[7.0f64])?.to_string(), "7.0");
    assert_eq!(b.tensor(1, &[7i8])?.to_string(), "[7]");
    // Every other row, and one row twice.
    let rows = b.tensor([3, 2], &[1, 2, 3, 4, 5, 6])?;
    assert_eq!(rows.step(0, 2)?.to_string(), "[[1 2]\n [5 6]]");
    assert_eq!(rows.narrow(0, 1, 1)?.broadcast([2, 2])?.to_string(), "[[3 4]\n [3 4]]");
    let backwards = TensorRef::<Host, i64>::new(&[1, 2, 3], Layout::strided(3, &[-1], 2)?)?;
    assert_eq!(backwards.to_string(), "[3 2 1]");
    Ok(())
}

#[test]
fn floats_have_the_digits_that_they_need() -> Result<()> {
    let b = &Cpu::new();
    // 0.1 in each type; the first f16 after 1.
    assert_eq!(b.tensor(2, &[0.1f64, 1.0])?.to_string(), "[0.1 1.0]");
    assert_eq!(b.tensor(2, &[0.1f32, 1.0 / 3.0])?.to_string(), "[0.100000 0.333333]");
    assert_eq!(b.tensor(1, &[f16::from_bits(0x3c01)])?.to_string(), "[1.000977]");
    assert_eq!(b.tensor(1, &[bf16::from_f32(3.140625)])?.to_string(), "[3.140625]");
    assert_eq!(b.tensor(1, &[F8E4M3::from_f64(448.0)])?.to_string(), "[448.0]");
    // One that would have no digits left, and one that would be too long.
    assert_eq!(b.tensor(2, &[1.5e-7f32, 1.0])?.to_string(), "[1.5e-7  1.0e0]");
    assert_eq!(b.tensor(2, &[3.25e38f32, 0.0])?.to_string(), "[3.25e38  0.00e0]");
    assert_eq!(b.tensor(1, &[f64::from_bits(1)])?.to_string(), "[4.9e-324]");
    assert_eq!(b.tensor(1, &[99_999_999.0f64])?.to_string(), "[99999999.0]");
    // As many as the caller wants.
    assert_eq!(format!("{:.2}", b.tensor(2, &[1.0f32, -1.0 / 3.0])?), "[ 1.00 -0.33]");
    assert_eq!(format!("{:.1}", b.tensor(1, &[1.26e-9f64])?), "[1.3e-9]");
    assert_eq!(format!("{:.3}", b.tensor(1, &[5i32])?), "[5]");
    Ok(())
}

#[test]
fn long_axes_show_their_ends_and_long_rows_break() -> Result<()> {
    let b = &Cpu::new();
    let x = b.tensor([1001], &(0..1001).collect::<Vec<i32>>())?;
    assert_eq!(x.to_string(), "[   0    1    2 ...  998  999 1000]");
    let all = x.narrow(0, 0, 1000)?.to_string();
    assert_eq!(all.trim_matches(['[', ']']).split_whitespace().count(), 1000);
    assert!(
        all.lines().all(|line| line.len() <= 80) && all.lines().nth(1).unwrap().starts_with("  19  20"),
        "{all}"
    );
    let wide = x.narrow(0, 0, 1)?.broadcast([2, 5000])?.to_string();
    assert_eq!(wide, "[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]]");
    let tall = x.narrow(0, 0, 2)?.broadcast([usize::MAX >> 8, 2])?.to_string();
    assert_eq!(tall, ["[[0 1]", " [0 1]", " [0 1]", " ...", " [0 1]", " [0 1]", " [0 1]]"].join("\n"));
    Ok(())
}

#[test]
fn tensors_without_elements_are_brackets() -> Result<()> {
    for shape in [&[0][..], &[3, 0], &[0, usize::MAX >> 8], &[1 << 40, 0]] {
        let x = Cpu::new().zeros::<f32>(shape)?;
        assert_eq!(x.to_string(), "[]");
        assert_eq!(format!("{x:?}"), format!("Tensor<f32> {shape:?} []"));
    }
    Ok(())
}

#[test]
fn blocks_and_packed_elements_have_a_type_and_a_shape() -> Result<()> {
    static AS_IS: Packing = Packing::new(
        "as-is",
        |dtype, dims| Some(dims.iter().product::<usize>() * dtype.size()),
        1,
        |_, _, x, y| {
            y.copy_from_slice(x);
            Ok(())
        },
    );
    let b = &Cpu::new();
    let blocks = b.tensor([1, 2], &[bytemuck::Zeroable::zeroed(); 2] as &[BlockQ8_0])?;
    assert_eq!(blocks.to_string(), "q8_0 [1, 2] (blocks of 32 values)");
    assert_eq!(format!("{blocks:?}"), "Tensor<q8_0> [1, 2]");
    let packed = AnyTensor::<Host>::packed(b.alloc(8)?, DType::F32, ops_core::Shape::new(&[2])?, &AS_IS)?;
    assert_eq!(packed.to_string(), "f32 [2] (packed as as-is)");
    assert_eq!(format!("{packed:?}"), "AnyTensor<f32> [2] packed as as-is");
    Ok(())
}

#[test]
fn an_either_shows_the_memory_of_its_side() -> Result<()> {
    let b: Either<Cpu, Reference> = Either::Right(Reference::new());
    assert_eq!(b.tensor(2, &[1, 2])?.to_string(), "[1 2]");
    Ok(())
}

#[test]
fn untyped_views_print_their_type() -> Result<()> {
    let mut data = [1.0f32, 2.0];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut data);
    let layout = Layout::contiguous([2])?;
    assert_eq!(AnyRef::<Host>::new(bytes, DType::F32, layout)?.to_string(), "[1.0 2.0]");
    assert_eq!(AnyMut::<Host>::new(bytes, DType::I32, layout)?.to_string(), "[1065353216 1073741824]");
    let mut written = TensorMut::<Host, f32>::new(&mut data, layout)?;
    written.data_mut()[0] = f32::from_wide(ops_core::Wide::Int(9));
    assert_eq!(written.to_string(), "[9.0 2.0]");
    Ok(())
}
