//! `cat` and `stack` on every backend.
use crate::defects::{Any, on_all};
use rocm_ops::ops::*;
use rocm_ops::quant::{BlockQ8_0, Encode};
use rocm_ops::{Backend, Element, F8E4M3, Result, Scalar, TensorOf, bf16, f16};

/// Numbers from `from` on. Those up to 16 exist in every type.
fn counted<T: Scalar>(b: &Any, dims: &[usize], from: i32) -> TensorOf<Any, T> {
    let n = dims.iter().product::<usize>() as i32;
    b.tensor(dims, &(from..from + n).map(|v| T::from_f64(v.into())).collect::<Vec<_>>()).unwrap()
}

fn read<T: Scalar>(b: &Any, x: &TensorOf<Any, T>) -> Vec<i32> {
    x.to_vec(b).unwrap().into_iter().map(|v| v.to_f64() as i32).collect()
}

#[test]
fn parts_follow_one_another_along_the_axis() {
    fn of_type<T: Scalar>(b: &Any) {
        let (x, y, none) =
            (counted::<T>(b, &[2, 2], 0), counted::<T>(b, &[2, 1], 10), counted::<T>(b, &[2, 0], 0));
        let joined = b.cat(&[&x, &none, &y, &x], 1).unwrap();
        assert_eq!((joined.dims(), read(b, &joined)), (&[2, 5][..], vec![0, 1, 10, 0, 1, 2, 3, 11, 2, 3]));
        assert_eq!(read(b, &b.cat(&[&x, &x], -2).unwrap()), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(b.cat(&[&none, &none], 1).unwrap().dims(), [2, 0]);
        assert_eq!(b.cat(&[&none, &none, &none], 0).unwrap().dims(), [6, 0]);
        assert_eq!(read(b, &b.cat(&[&x], 0).unwrap()), [0, 1, 2, 3]);

        // Transposed, narrowed and repeated.
        let (x, row) = (x.as_ref(), counted::<T>(b, &[1, 2], 14));
        let views = [
            x.transpose(0, 1).unwrap(),
            x.narrow(0, 1, 1).unwrap(),
            row.as_ref().broadcast(&[2, 2]).unwrap(),
        ];
        assert_eq!(read(b, &b.cat(&views, 0).unwrap()), [0, 2, 1, 3, 2, 3, 14, 15, 14, 15]);

        // Into a view, around which nothing changes.
        let mut into = counted::<T>(b, &[2, 5], 4);
        b.cat_into(&[x.narrow(1, 0, 1).unwrap(), y.as_ref()], into.as_mut().narrow(1, 2, 2).unwrap(), 1)
            .unwrap();
        assert_eq!(read(b, &into), [4, 5, 0, 10, 8, 9, 10, 2, 11, 13]);
    }
    on_all("joined::parts_follow_one_another_along_the_axis", |b| {
        of_type::<u8>(b);
        of_type::<i16>(b);
        of_type::<i64>(b);
        of_type::<F8E4M3>(b);
        of_type::<f16>(b);
        of_type::<bf16>(b);
        of_type::<f64>(b);
    });
}

#[test]
fn a_stack_has_a_new_axis() {
    on_all("joined::a_stack_has_a_new_axis", |b| {
        let (x, y) = (counted::<f32>(b, &[2, 2], 0), counted::<f32>(b, &[2, 2], 10));
        for (axis, dims, values) in [
            (0, [2, 2, 2], [0, 1, 2, 3, 10, 11, 12, 13]),
            (1, [2, 2, 2], [0, 1, 10, 11, 2, 3, 12, 13]),
            (2, [2, 2, 2], [0, 10, 1, 11, 2, 12, 3, 13]),
            (-1, [2, 2, 2], [0, 10, 1, 11, 2, 12, 3, 13]),
        ] {
            let stacked = b.stack(&[&x, &y], axis).unwrap();
            assert_eq!((stacked.dims(), read(b, &stacked)), (&dims[..], values.to_vec()), "{axis}");
        }
        let scalars = [counted::<f32>(b, &[], 7), counted::<f32>(b, &[], 9)];
        let stacked = b.stack(&scalars, 0).unwrap();
        assert_eq!((stacked.dims(), read(b, &stacked)), (&[2][..], vec![7, 9]));
        let mut into = counted::<f32>(b, &[2, 2, 3], 50);
        b.stack_into(&[&x, &y], into.as_mut().narrow(2, 1, 2).unwrap(), 2).unwrap();
        assert_eq!(read(b, &into), [50, 0, 10, 53, 1, 11, 56, 2, 12, 59, 3, 13]);
    });
}

#[test]
fn blocks_are_joined_as_they_are() {
    on_all("joined::blocks_are_joined_as_they_are", |b| {
        let block = |v: f32| BlockQ8_0::quantize(&[v; 32]);
        let (x, y) = (
            b.tensor(&[1, 2], &[1.0, 2.0].map(block)).unwrap(),
            b.tensor(&[2, 2], &[3.0, 4.0, 5.0, 6.0].map(block)).unwrap(),
        );
        let bytes = |x: &TensorOf<Any, BlockQ8_0>| bytemuck_bytes(&x.to_vec(b).unwrap());
        let want: Vec<_> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(block).to_vec();
        assert_eq!(bytes(&b.cat(&[&x, &y], 0).unwrap()), bytemuck_bytes(&want));
    });
}

fn bytemuck_bytes<T: Element>(x: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(x).to_vec()
}

#[test]
fn errors_name_the_tensor_that_differs_and_how() {
    fn text<R>(result: Result<R>) -> String {
        result.map(drop).unwrap_err().to_string()
    }
    on_all("joined::errors_name_the_tensor_that_differs_and_how", |b| {
        let of = |dims: &[usize]| b.zeros::<f32>(dims).unwrap();
        let (x, wide, flat) = (of(&[2, 3]), of(&[2, 4]), of(&[6]));
        assert_eq!(
            text(b.cat(&[&x, &x, &wide], 0)),
            "cat: a tensor has shape [2, 4], expected extent 3 in axis 1, as tensor 0 has; it is tensor 2 of 3, and only axis 0 may differ"
        );
        assert_eq!(
            text(b.cat(&[&x, &flat], 0)),
            "cat: a tensor has shape [6], expected rank 2, as tensor 0 has; it is tensor 1 of 2"
        );
        assert!(
            text(b.stack(&[&x, &wide], 0))
                .starts_with("stack: a tensor has shape [1, 2, 4], expected extent 3")
        );
        assert_eq!(text(b.cat(&[&x; 0], 0)), "cat: the number of tensors is 0, expected at least 1");
        assert_eq!(text(b.stack(&[&x; 0], 0)), "stack: the number of tensors is 0, expected at least 1");
        assert_eq!(text(b.cat(&[&x], 2)), "cat: tensor 0: axis 2 does not exist in a tensor of rank 2");
        assert!(text(b.stack(&[&x], 3)).starts_with("stack: a tensor: axis 3 does not exist"));
        assert_eq!(
            text(b.cat_into(&[&x, &x], &mut of(&[4, 4]), 0)),
            "cat: y has shape [4, 4], expected [4, 3]"
        );
        let many = of(&[1; 6]);
        assert!(text(b.stack(&[&many], 0)).contains("rank 7 exceeds the largest rank of 6"));
    });
}
