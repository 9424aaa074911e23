//! Convolutions on matrix units: both orders of terms, every unit, tails in every dimension, strides, and what stays on vector
//! units. Vector units have the suite's cases, in the backend's tests.
use crate::data::{Buffer, Element, Layout, Random, assert_close, check_untouched, pick, view};
use crate::host::run_on;
use crate::matrix::device;
use half::{bf16, f16};
use ops_kernels::conv::{self, Axis, Conv};
use ops_kernels::{Device, ElementType, Matrix, OperandView, Tuning};

/// Stride, padding and dilation of an axis.
type Options = [u64; 3];
const PLAIN: Options = [1, 0, 1];
const PAD: Options = [1, 1, 1];

/// How an operand of four dimensions is in memory.
#[derive(Clone, Copy, Debug)]
enum Order {
    Dense,
    /// Channels innermost, as dimension 1 of x, weight and y.
    ChannelsLast,
    /// Reversed, with gaps.
    Scattered,
}

impl Order {
    fn layout(self, dims: [u64; 4]) -> Layout {
        let [a, b, c, d] = dims.map(|n| n as i64);
        match self {
            Order::Dense => Layout::contiguous(&dims),
            Order::ChannelsLast => Layout::new(&dims, vec![b * c * d, 1, b * d, b]),
            Order::Scattered => {
                let last = 2 * a * b * c + 3;
                Layout::new(&dims, vec![2, 2 * a, 2 * a * b + 1, last])
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: u64,
    groups: u64,
    /// Input and output channels of a group.
    channels: [u64; 2],
    x: [u64; 2],
    kernel: [u64; 2],
    axes: [Options; 2],
    orders: [Order; 3],
    /// Elements by which the operands miss a 16-byte boundary.
    offset: usize,
    /// None, or whether the bias is f32.
    bias: Option<bool>,
}

const BASE: Case = Case {
    batch: 2,
    groups: 1,
    channels: [32, 16],
    x: [5, 7],
    kernel: [3, 3],
    axes: [PAD; 2],
    orders: [Order::Dense; 3],
    offset: 0,
    bias: None,
};

impl Case {
    fn axis(&self, at: usize) -> Axis {
        let [stride, padding, dilation] = self.axes[at];
        let (x, kernel) = (self.x[at], self.kernel[at]);
        let y = (x + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
        Axis { x, y, kernel, stride, padding, dilation }
    }
    fn layouts(&self) -> [Layout; 3] {
        let ([h, w], [r, c], [inputs, outputs]) = (self.x, self.kernel, self.channels);
        let y = [self.batch, self.groups * outputs, self.axis(0).y, self.axis(1).y];
        let dims = [[self.batch, self.groups * inputs, h, w], [self.groups * outputs, inputs, r, c], y];
        std::array::from_fn(|at| self.orders[at].layout(dims[at]))
    }
    fn want<T: Element>(&self, x: &[T], weight: &[T], bias: &dyn Fn(usize) -> f64) -> Vec<f64> {
        let [inputs, outputs] = self.channels.map(|n| n as usize);
        let (axes, groups) = ([self.axis(0), self.axis(1)], self.groups as usize);
        let source = |at: usize, i: u64, t: u64| {
            let axis = axes[at];
            (i * axis.stride + t * axis.dilation).checked_sub(axis.padding).filter(|from| *from < axis.x)
        };
        let mut out = Vec::new();
        for b in 0..self.batch as usize {
            for channel in 0..groups * outputs {
                for (i, j) in (0..axes[0].y).flat_map(|i| (0..axes[1].y).map(move |j| (i, j))) {
                    let mut sum = bias(channel);
                    for c in 0..inputs {
                        for (t, u) in
                            (0..axes[0].kernel).flat_map(|t| (0..axes[1].kernel).map(move |u| (t, u)))
                        {
                            let (Some(row), Some(column)) = (source(0, i, t), source(1, j, u)) else {
                                continue;
                            };
                            let plane = b * groups * inputs + channel / outputs * inputs + c;
                            let from = (plane * self.x[0] as usize + row as usize) * self.x[1] as usize;
                            let kernel = (channel * inputs + c) * axes[0].kernel as usize + t as usize;
                            let by = weight[kernel * axes[1].kernel as usize + u as usize];
                            sum += x[from + column as usize].to_f64() * by.to_f64();
                        }
                    }
                    out.push(sum);
                }
            }
        }
        out
    }
}

/// Random values where the layout has elements, NaN between them.
fn filled<T: Element>(layout: &Layout, offset: usize, seed: u64) -> Buffer<T> {
    let mut values = vec![T::from_f64(f64::NAN); layout.len];
    let mut random = Random::new(seed);
    layout.offsets().into_iter().for_each(|o| values[o] = T::from_f64(random.normal()));
    Buffer::new(&values, offset)
}

fn check<T: Element>(case: Case, variant: &str, by_tap: bool, compute_units: u32) {
    let layouts = case.layouts();
    let channels = case.groups * case.channels[1];
    let (x, weight) = (filled::<T>(&layouts[0], case.offset, 1), filled::<T>(&layouts[1], case.offset, 2));
    let row = Layout::contiguous(&[channels]);
    let (narrow, wide) = (filled::<T>(&row, 0, 3), filled::<f32>(&row, 0, 4));
    let bias: Option<OperandView<'_>> =
        case.bias.map(|is_f32| if is_f32 { view(&wide, &row) } else { view(&narrow, &row) });
    let of_channel = |at: usize| match case.bias {
        Some(true) => f64::from(wide.slice()[at]),
        Some(false) => narrow.slice()[at].to_f64(),
        None => 0.0,
    };
    let want = case.want(&pick(&x, &layouts[0]), &pick(&weight, &layouts[1]), &of_channel);
    for device in Matrix::ALL.map(|matrix| device(matrix, compute_units)) {
        let untouched = T::from_f64(77.0);
        let y = Buffer::filled(untouched, layouts[2].len, case.offset);
        let problem =
            problem(&case, view(&x, &layouts[0]), view(&weight, &layouts[1]), view(&y, &layouts[2]), bias);
        let (launch, args) = conv::prepare(&problem, &device).expect("a kernel");
        assert_eq!(launch.instance.variant, variant, "{case:?}");
        assert_eq!(args.by_tap != 0, by_tap, "{case:?}");
        run_on(&device, &launch, &args);
        let what = format!("{} {case:?} {device:?}", launch.instance.symbol);
        assert_close(&what, &pick(&y, &layouts[2]), &want, true, 2.0);
        check_untouched(&y, &layouts[2], untouched);
    }
}

fn problem<'a>(
    case: &Case,
    x: OperandView<'a>,
    weight: OperandView<'a>,
    y: OperandView<'a>,
    bias: Option<OperandView<'a>>,
) -> Conv<'a> {
    let &Case { batch, groups, channels: [inputs, outputs], .. } = case;
    let (rows, columns) = (case.axis(0), case.axis(1));
    Conv { transposed: false, batch, groups, inputs, outputs, rows, columns, x, weight, y, bias }
}

#[test]
fn terms_in_the_order_of_the_weight() {
    for case in [
        BASE,
        Case {
            channels: [3, 17],
            kernel: [7, 7],
            x: [12, 9],
            axes: [[2, 3, 1]; 2],
            bias: Some(true),
            ..BASE
        },
        Case { channels: [3, 70], kernel: [4, 4], x: [16, 16], axes: [[4, 0, 1]; 2], ..BASE },
        Case {
            channels: [9, 16],
            groups: 3,
            axes: [[1, 2, 2], [2, 1, 1]],
            x: [9, 23],
            bias: Some(false),
            ..BASE
        },
        Case { channels: [40, 20], kernel: [1, 5], axes: [PLAIN, [1, 4, 2]], x: [1, 70], ..BASE },
        Case { channels: [33, 16], orders: [Order::Scattered, Order::Dense, Order::Scattered], ..BASE },
        Case { channels: [5, 16], orders: [Order::ChannelsLast, Order::Dense, Order::ChannelsLast], ..BASE },
        Case { channels: [16, 24], offset: 1, axes: [[1, 6, 3], [1, 5, 4]], ..BASE },
    ] {
        check::<f16>(case, "mma64", false, 1000);
        check::<bf16>(case, "mma64", false, 1000);
    }
}

#[test]
fn channels_of_one_element_of_the_kernel() {
    let last = [Order::ChannelsLast; 3];
    for case in [
        Case { kernel: [1, 1], axes: [PLAIN; 2], channels: [37, 19], bias: Some(false), ..BASE },
        Case {
            kernel: [1, 1],
            axes: [[2, 0, 1], [3, 1, 1]],
            channels: [8, 65],
            groups: 2,
            x: [11, 13],
            ..BASE
        },
        Case { orders: last, channels: [64, 16], bias: Some(true), ..BASE },
        Case { orders: last, channels: [40, 18], groups: 2, ..BASE },
        Case { orders: last, channels: [36, 18], groups: 2, axes: [[2, 1, 2], [1, 3, 2]], x: [9, 8], ..BASE },
        Case { orders: last, channels: [32, 16], offset: 3, ..BASE },
        Case { orders: [Order::ChannelsLast, Order::Dense, Order::Dense], channels: [24, 30], ..BASE },
        Case { orders: [Order::Scattered; 3], channels: [20, 16], kernel: [3, 2], ..BASE },
        Case { orders: [Order::Dense, Order::ChannelsLast, Order::Dense], kernel: [1, 4], ..BASE },
    ] {
        check::<f16>(case, "mma64", true, 1000);
        check::<bf16>(case, "mma64", true, 1000);
    }
}

#[test]
fn large_tiles() {
    let case = Case { channels: [11, 130], x: [12, 6], bias: Some(true), ..BASE };
    check::<f16>(case, "mma128", false, 1);
    check::<bf16>(Case { groups: 2, channels: [16, 70], ..case }, "mma128", false, 1);
    let last = Case { channels: [48, 72], orders: [Order::ChannelsLast; 3], ..case };
    check::<f16>(last, "mma128", true, 1);
    check::<bf16>(
        Case { kernel: [1, 1], orders: [Order::Dense; 3], channels: [50, 129], ..case },
        "mma128",
        true,
        1,
    );
}

/// Why a convolution stays on vector units, besides the targets without matrix units.
#[test]
fn few_channels_and_other_types_are_left_to_vector_units() {
    let on = |case: &Case, t: ElementType, matrix: Option<Matrix>, transposed: bool| {
        let layouts = case.layouts();
        let at = |at: usize| OperandView { data: 0, strides: &layouts[at].strides, dtype: t };
        let problem = Conv { transposed, ..problem(case, at(0), at(1), at(2), None) };
        let device = Device { compute_units: 8, wave: 32, matrix, dot4: None, tuning: Tuning::default() };
        let (launch, args) = conv::prepare(&problem, &device).expect("a kernel");
        (launch.instance.variant, conv::not_on_matrix(args, t, &device))
    };
    let units = Some(Matrix::Wmma11);
    assert_eq!(on(&BASE, ElementType::F16, units, false), ("mma64", None));
    let said = |(variant, why): (&str, Option<&str>)| format!("{variant}: {}", why.expect("a reason"));
    assert_eq!(said(on(&BASE, ElementType::F16, None, false)), "tile: there are no matrix units");
    assert_eq!(said(on(&BASE, ElementType::F32, units, false)), "tile: matrix units need f16 or bf16");
    let transposed = Case { channels: [16, 16], ..BASE };
    assert!(said(on(&transposed, ElementType::F16, units, true)).contains("transposed"));
    let thin = Case { channels: [64, 8], ..BASE };
    assert!(
        said(on(&thin, ElementType::Bf16, units, false)).starts_with("direct: most of a matrix-unit tile")
    );
    // Channels of three are gathered one element of the kernel at a time if the weight is not in the order of the terms.
    let few = Case { channels: [3, 16], orders: [Order::ChannelsLast; 3], ..BASE };
    assert!(said(on(&few, ElementType::Bf16, units, false)).contains("few input channels"));
    let far = Case { axes: [PAD, [1 << 31, 1 << 31, 1]], x: [5, 7], ..BASE };
    assert!(said(on(&far, ElementType::Bf16, units, false)).contains("2^31"));
}
