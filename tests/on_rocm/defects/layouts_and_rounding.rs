//! Defects that depend on strides, shapes, or the type that a sum is rounded to.
use super::{Any, on_all, read, tensor};
use rocm_ops::ops::*;
use rocm_ops::{Backend, Error, Float, Layout, bf16, f16};

/// As [`super::everywhere`].
fn everywhere(test: &str, body: fn(&Any)) {
    on_all(&format!("defects::layouts_and_rounding::{test}"), body);
}

#[test]
fn strides_of_indices_are_ignored() {
    everywhere("strides_of_indices_are_ignored", |b| {
        let x = b.tensor(&[4, 2], &[0, 1, 10, 11, 20, 21, 30, 31]).unwrap();
        // The indices 3 and 1: every second one.
        let ids = b.tensor(&[2, 2], &[3u32, 0, 1, 2]).unwrap();
        let column = ids.as_ref().narrow(1, 0, 1).unwrap().squeeze(1).unwrap();
        let y = b.index_select(&x, column, IndexSelect::axis(0)).unwrap();
        assert_eq!(y.to_vec(b).unwrap(), [30, 31, 10, 11]);
        let turned = ids.as_ref().transpose(0, 1).unwrap();
        let y = b.gather(&x, turned, Gather::axis(0)).unwrap();
        assert_eq!(y.to_vec(b).unwrap(), [30, 11, 0, 21]);
    });
}

#[test]
fn a_large_mean_spoils_a_variance() {
    everywhere("a_large_mean_spoils_a_variance", |b| {
        let deviations = (0..4096).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 });
        let x = tensor::<f32>(b, &[1, 4096], deviations.clone().map(|d| 10_000.0 + d));
        let ones = tensor::<f32>(b, &[4096], vec![1.0; 4096]);
        let op = LayerNorm::eps(1e-5);
        let y = read(b, &b.layer_norm(&x, Some((&ones).into()), None, op).unwrap());
        let worst = deviations.zip(y).map(|(d, y)| (d - y).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-4, "{worst}");
    });
}

#[test]
fn rms_norm_rounds_its_denominator_to_half() {
    fn norm<T: Float>(b: &Any) {
        let values: Vec<f64> =
            (0..64).map(|i| T::from_f64((f64::from(i) * 0.37).sin() * 3.0).to_f64()).collect();
        let x = tensor::<T>(b, &[1, 64], values.clone());
        let ones = tensor::<T>(b, &[64], vec![1.0; 64]);
        let y = read(b, &b.rms_norm(&x, &ones, RmsNorm::eps(1e-5)).unwrap());
        let scale = (values.iter().map(|v| v * v).sum::<f64>() / 64.0 + 1e-5).sqrt().recip();
        let once: Vec<f64> = values.iter().map(|v| T::from_f64(v * scale).to_f64()).collect();
        let other = y.iter().zip(&once).filter(|(y, once)| y != once).count();
        // A tie may round either way.
        assert!(other <= 1, "{}: {other} of 64 are not rounded once", T::DTYPE);
    }
    everywhere("rms_norm_rounds_its_denominator_to_half", |b| {
        norm::<f16>(b);
        norm::<bf16>(b);
    });
}

#[test]
fn positions_beyond_32_bits_are_cut_off() {
    everywhere("positions_beyond_32_bits_are_cut_off", |b| {
        // One row, repeated more often than 32 bits can count.
        let rows = (1usize << 32) + 4;
        let row = b.tensor(&[1, 2], &[5i32, 6]).unwrap();
        let many = row.as_ref().with_layout(Layout::strided(&[rows, 2], &[0, 1], 0).unwrap()).unwrap();
        let select = |id: i64| {
            let ids = b.tensor(&[1], &[id]).unwrap();
            b.index_select(many, &ids, IndexSelect::axis(0)).and_then(|y| y.to_vec(b))
        };
        assert_eq!(select((1 << 32) + 3).unwrap(), [5, 6]);
        // In 32 bits this would be row 4.
        let error = select((1 << 32) + 4).unwrap_err();
        assert!(matches!(error, Error::Index { index: 0x1_0000_0004, bound: 0x1_0000_0004, .. }), "{error}");
    });
}

#[test]
fn empty_tensors_fail() {
    everywhere("empty_tensors_fail", |b| {
        let x = tensor::<f32>(b, &[0, 3], []);
        assert_eq!(read(b, &b.add(&x, &x).unwrap()), [0.0; 0]);
        assert_eq!(read(b, &b.exp(&x).unwrap()), [0.0; 0]);
        assert_eq!(read(b, &b.sum(&x, 0).unwrap()), [0.0; 3]);
        assert_eq!(read(b, &b.softmax(&x, Softmax::axis(-1)).unwrap()), [0.0; 0]);
        assert_eq!(read(b, &b.sort(&x, Sort::axis(0)).unwrap()), [0.0; 0]);
        let weight = tensor::<f32>(b, &[2, 3], [1.0; 6]);
        assert_eq!(read(b, &b.linear(&x, &weight).unwrap()), [0.0; 0]);
        // There is no largest of no elements.
        let error = b.max(&x, 0).unwrap_err();
        assert!(matches!(error, Error::Shape { op: "max", .. }), "{error}");
    });
}

#[test]
fn errors_do_not_say_what_is_missing() {
    everywhere("errors_do_not_say_what_is_missing", |b| {
        let x = tensor::<f32>(b, &[2, 2], [1.0; 4]);
        let error = b.index_select(&x, &x, IndexSelect::axis(0)).unwrap_err();
        assert_eq!(error.to_string(), "index_select: ids is of f32, expected u8, u32, i32 or i64");
        let error = b.gather(&x, &x, Gather::axis(0)).unwrap_err();
        assert_eq!(error.to_string(), "gather: ids is of f32, expected u8, u32, i32 or i64");
    });
}

#[test]
fn running_sums_are_products_of_matrices() {
    everywhere("running_sums_are_products_of_matrices", |b| {
        // A matrix of this size would take 64 GiB; and there are no products of integers.
        let x = b.tensor(&[1 << 17], &[1i64; 1 << 17]).unwrap();
        assert_eq!(b.cumsum(&x, 0).unwrap().to_vec(b).unwrap(), (1..=1 << 17).collect::<Vec<i64>>());
    });
}

#[test]
fn powers_of_negative_numbers_are_nan() {
    everywhere("powers_of_negative_numbers_are_nan", |b| {
        let (x, e) = (tensor::<f32>(b, &[3], [-2.0, -2.0, -2.0]), tensor::<f32>(b, &[3], [2.0, 3.0, 0.5]));
        let y = read(b, &b.pow(&x, &e).unwrap());
        let near = |y: f64, want: f64| (y - want).abs() <= 1e-6 * want.abs();
        assert!(near(y[0], 4.0) && near(y[1], -8.0) && y[2].is_nan(), "{y:?}");
    });
}

#[test]
fn gelu_of_halves_is_rounded_eight_times() {
    fn gelu<T: Float>(b: &Any) {
        let values: Vec<f64> =
            (0..400).map(|i| T::from_f64((f64::from(i) - 200.0) * 0.02).to_f64()).collect();
        let y = read(b, &b.gelu(&tensor::<T>(b, &[400], values.clone())).unwrap());
        let exact = |x: f64| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        };
        let other = values.iter().zip(y).filter(|(x, y)| T::from_f64(exact(**x)).to_f64() != *y).count();
        // If the exact value is nearly a tie, f32 may round either way.
        assert!(other <= 2, "{}: {other} of 400 are not rounded once", T::DTYPE);
    }
    everywhere("gelu_of_halves_is_rounded_eight_times", |b| {
        gelu::<f16>(b);
        gelu::<bf16>(b);
    });
}

#[test]
fn averages_of_halves_are_added_in_half() {
    fn average<T: Float>(b: &Any) {
        let x = tensor::<T>(b, &[1, 1, 64, 64], vec![1.0; 4096]);
        assert_eq!(read(b, &b.avg_pool2d(&x, Windows::of([64, 64])).unwrap()), [1.0]);
    }
    everywhere("averages_of_halves_are_added_in_half", |b| {
        average::<f16>(b);
        average::<bf16>(b);
    });
}

#[test]
fn a_strided_kernel_is_read_without_its_strides() {
    everywhere("a_strided_kernel_is_read_without_its_strides", |b| {
        let x = tensor::<f32>(b, &[1, 2, 5], (0..10).map(f64::from));
        // [o, c, k] as a view of [k, c, o].
        let stored = tensor::<f32>(b, &[3, 2, 4], (0..24).map(|i| f64::from(i % 7)));
        let view = stored.as_ref().permute(&[2, 1, 0]).unwrap();
        let plain = b.copy_of(view).unwrap();
        let want = read(b, &b.conv1d(&x, &plain, None, Conv1d::new()).unwrap());
        assert_eq!(read(b, &b.conv1d(&x, view, None, Conv1d::new()).unwrap()), want);
        // The first output by hand: channels 0 and 1, three columns each.
        let at = |k: usize, c: usize| ((k * 2 + c) * 4 % 7) as f64;
        let sum = |c: usize| (0..3).map(|k| (c * 5 + k) as f64 * at(k, c)).sum::<f64>();
        assert_eq!(want[0], sum(0) + sum(1));
    });
}

#[test]
fn a_transposed_batch_meets_a_broadcast_one() {
    everywhere("a_transposed_batch_meets_a_broadcast_one", |b| {
        let stored = tensor::<f32>(b, &[2, 3, 4], (0..24).map(f64::from));
        let left = stored.as_ref().transpose(-1, -2).unwrap();
        let one = tensor::<f32>(b, &[1, 3, 2], (0..6).map(f64::from));
        let right = one.as_ref().broadcast(&[2, 3, 2]).unwrap();
        let want: Vec<f64> = (0..16)
            .map(|i| {
                let (batch, row, column) = (i / 8, i / 2 % 4, i % 2);
                (0..3).map(|k| (batch * 12 + k * 4 + row) as f64 * (k * 2 + column) as f64).sum()
            })
            .collect();
        assert_eq!(read(b, &b.matmul(left, right).unwrap()), want);
    });
}

#[test]
fn a_second_image_is_convolved_wrongly() {
    everywhere("a_second_image_is_convolved_wrongly", |b| {
        let x = tensor::<f32>(b, &[2, 2, 3], (0..12).map(f64::from));
        let weight = tensor::<f32>(b, &[2, 1, 1], [1.0, 10.0]);
        let y = b.conv_transpose1d(&x, &weight, None, ConvTranspose1d::new()).unwrap();
        assert_eq!(read(b, &y), [30.0, 41.0, 52.0, 96.0, 107.0, 118.0]);
    });
}

#[test]
fn a_plane_that_keeps_its_size_loses_its_strides() {
    everywhere("a_plane_that_keeps_its_size_loses_its_strides", |b| {
        let stored = tensor::<f32>(b, &[1, 1, 2, 3], (0..6).map(f64::from));
        let turned = stored.as_ref().transpose(-1, -2).unwrap();
        let y = b.upsample_bilinear2d(turned, [3, 2], false).unwrap();
        assert_eq!(read(b, &y), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    });
}
