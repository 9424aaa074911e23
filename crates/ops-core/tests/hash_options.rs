//! Options that print differently hash differently: a backend's decision cache relies on this.
use ops_core::Op;
use ops_core::ops::*;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hasher};

fn hash<O: Op>(op: &O) -> u64 {
    let mut state = DefaultHasher::new();
    op.hash_options(&mut state);
    state.finish()
}

/// Each pair of these ops has different options.
fn distinct<O: Op + Debug>(ops: &[O]) {
    let printed: HashSet<String> = ops.iter().map(|op| format!("{op:?}")).collect();
    assert_eq!(printed.len(), ops.len(), "{ops:?}");
    let hashes: HashSet<u64> = ops.iter().map(hash).collect();
    assert_eq!(hashes.len(), ops.len(), "{ops:?}");
    assert!(ops.iter().all(|op| hash(&op.clone()) == hash(op)));
}

#[test]
fn options_that_print_differently_hash_differently() {
    let eps = [0.0, -0.0, 1e-5, 1e-6, f64::NAN, f64::MIN_POSITIVE];
    distinct(&eps.map(RmsNorm::<f32>::eps));
    distinct(&eps.map(LayerNorm::<f32>::eps));
    distinct(&eps.map(AddRmsNorm::<f32>::eps));
    distinct(&eps.map(L2Norm::<f32>::eps));
    distinct(&eps.map(GatedRmsNorm::<f32>::eps));
    distinct(&[
        SwigluClamped::<f32>::new(1.0, 7.0),
        SwigluClamped::new(7.0, 1.0),
        SwigluClamped::new(1.0, 1.0),
    ]);
    distinct(&eps.map(QkNormRope::<f32>::eps));
    distinct(&ConvActivation::ALL.map(|(_, activation)| Conv1dUpdate::<f32>::plain().activation(activation)));
    distinct(&[
        GatedDeltaRule::<f32>::new(),
        GatedDeltaRule::new().scale(0.0),
        GatedDeltaRule::new().scale(0.5),
    ]);
    let attentions = [
        Attention::<f32>::full(),
        Attention::causal(),
        Attention::full().scale(0.5),
        Attention::full().softcap(0.5),
        Attention::full().window(Some(1), None),
        Attention::full().window(None, Some(1)),
    ];
    distinct(&attentions.map(AttentionVarlen::of));
    distinct(&attentions.map(AttentionPaged::of));
    distinct(&RopeOrder::ALL.map(|(_, order)| QkNormRope::<f32>::eps(0.5).order(order)));
    distinct(&RopeOrder::ALL.map(|(_, order)| RopeCacheWrite::<f32>::order(order)));
    distinct(&RopeOrder::ALL.map(|(_, order)| QkNormRopeCacheWrite::<f32>::eps(0.5).order(order)));
    distinct(&eps.map(QkNormRopeCacheWrite::<f32>::eps));
    distinct(&[GroupNorm::<f32>::new(1, 0.5), GroupNorm::new(2, 0.5), GroupNorm::new(1, 0.25)]);
    distinct(&[Softmax::<f32>::axis(0), Softmax::axis(-1), Softmax::axis(0).log()]);
    distinct(&[Affine::<f32>::new(1.0, 2.0), Affine::new(2.0, 1.0), Affine::new(1.0, -2.0)]);
    distinct(&[AffineInplace::<f32>::new(1.0, 2.0), AffineInplace::new(2.0, 1.0)]);
    distinct(&UnaryFn::ALL.map(Unary::<f32>::of));
    distinct(&BinaryFn::ALL.map(Binary::<f32>::of));
    distinct(&CompareFn::ALL.map(Compare::<f32>::of));
    distinct(&BitwiseFn::ALL.map(Bitwise::<i32>::of));
    distinct(&[Parametric::<f32>::powf(2.0), Parametric::powf(-2.0), Parametric::elu(2.0)]);
    distinct(&[Parametric::clamp(0.0f32, 1.0), Parametric::clamp(1.0, 0.0), Parametric::clamp(-0.0, 1.0)]);
    distinct(&[Parametric::clamp(0, 1), Parametric::clamp(1, 0), Parametric::clamp(0, -1)]);
    distinct(&[GluFn::Swiglu, GluFn::Geglu].map(Glu::<f32>::of));
    distinct(&[Gather::axis(0), Gather::axis(1), Gather::axis(-1)]);
    distinct(&[Scatter::axis(0), Scatter::axis(1), Scatter::axis(-1)]);
    distinct(&[ScatterAdd::<f32>::axis(0), ScatterAdd::axis(1), ScatterAdd::axis(-1)]);
    distinct(&[IndexAdd::<f32>::axis(0), IndexAdd::axis(1), IndexAdd::axis(-1)]);
    distinct(&[IndexSelect::axis(0), IndexSelect::axis(1), IndexSelect::axis(-1)]);
    let axes = [Axes::ALL, Axes::from([]), Axes::from(0), Axes::from([0, 1]), Axes::from(0).keep_dims()];
    distinct(&axes.map(|axes| Reduce::<f32>::of(ReduceFn::Sum, axes)));
    distinct(&ReduceFn::ALL.map(|f| Reduce::<f32>::of(f, -1)));
    distinct(&[ArgReduce::<f32>::max(0), ArgReduce::max(1), ArgReduce::min(0)]);
    distinct(&[Scan::<f32>::of(ScanFn::Sum, 0), Scan::of(ScanFn::Sum, 1), Scan::of(ScanFn::Prod, 0)]);
    distinct(&[Sort::<f32>::axis(0), Sort::axis(1), Sort::axis(0).descending()]);
    distinct(&[ArgSort::<f32>::axis(0), ArgSort::axis(1), ArgSort::axis(0).descending()]);
    distinct(&[TopK::<f32>::of(1), TopK::of(2)]);
    let draw = || Sample::<f32>::temperature(0.5);
    distinct(&[
        draw(),
        Sample::greedy(),
        draw().top_k(1),
        draw().top_k(2),
        draw().top_p(1.0),
        draw().top_p(0.5),
        draw().seed(1),
    ]);
    distinct(&eps.map(BatchNorm::<f32>::eps));
    let windows = [[2, 3], [3, 2]].map(Windows::of);
    let windows = [windows[0], windows[1], windows[0].stride([1, 3]), windows[0].padding([1, 0])];
    distinct(&windows.map(|windows| Pool2d::<f32>::of(PoolFn::Max, windows)));
    distinct(&PoolFn::ALL.map(|f| Pool2d::<f32>::of(f, windows[0])));
    distinct(&[Upsample::<f32>::nearest1d(2), Upsample::nearest2d([2, 1]), Upsample::nearest2d([1, 2])]);
    distinct(&[false, true].map(|corners| Upsample::<f32>::bilinear2d([2, 1], corners)));
    let conv = Conv2d::new;
    let two = [
        conv(),
        conv().stride(2),
        conv().padding(1),
        conv().padding([0, 1]),
        conv().dilation(2),
        conv().groups(2),
    ];
    distinct(&two.map(Conv::<f32>::from));
    distinct(&[Conv::<f32>::from(Conv1d::new()), Conv2d::new().into(), ConvTranspose1d::new().into()]);
    let up = ConvTranspose2d::new().stride(2);
    distinct(&[up, up.output_padding(1), up.output_padding([1, 0])].map(Conv::<f32>::from));
    distinct(&[Arange::<i32>::new(0, 1), Arange::new(1, 0), Arange::new(0, 2)]);
    distinct(&[Fill::new(0.0f32), Fill::new(-0.0), Fill::new(1.0)]);
    let forms = [RopeForm::Half, RopeForm::Interleaved, RopeForm::HalfThd];
    distinct(&forms.map(Rope::<f32>::new));
    distinct(&forms.map(|form| Rope::<f32>::new(form).start(3).inplace()));
    distinct(&[Rope::<f32>::new(RopeForm::Half), Rope::new(RopeForm::Half).start(1)]);
}

#[test]
fn every_option_of_attention_counts() {
    let full = Attention::<f32>::full;
    let with = |change: fn(&mut Attention<f32>)| {
        let mut op = full();
        change(&mut op);
        op
    };
    distinct(&[
        full(),
        with(|op| op.causal = true),
        with(|op| op.scale = Some(0.5)),
        with(|op| op.scale = Some(0.0)),
        with(|op| op.softcap = Some(0.5)),
        with(|op| op.window = (Some(1), None)),
        with(|op| op.window = (None, Some(1))),
        with(|op| op.window = (Some(0), None)),
    ]);
}

#[test]
fn every_option_of_a_router_counts() {
    let plain = || RouterTopK::<f32>::of(2);
    distinct(&[
        plain(),
        RouterTopK::of(3),
        plain().scoring(Scoring::Sigmoid),
        plain().scored_after(),
        plain().renormalize(),
        plain().scale(2.5),
        plain().groups(4, 1),
        plain().groups(4, 2),
        plain().group_score(GroupScore::Max),
    ]);
}
