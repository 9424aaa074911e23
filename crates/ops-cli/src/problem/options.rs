//! The options of a problem's op: those used by models.
use crate::catalogue::Spec;
use crate::exit::Failure;
use ops_core::ops::Axes;
use ops_core::ops::registry::{Options, Window};
use ops_core::{DType, Wide};

/// The options that models use for this spec's op.
pub(super) struct ModelOptions<'s>(pub(super) &'s Spec);

impl ModelOptions<'_> {
    /// The number of groups of a plain convolution follows from its weight `[o, c / groups, ..]`; that of a
    /// transposed one does not.
    fn convolution_groups(&self) -> Option<usize> {
        if !matches!(self.0.entry.name, "conv1d" | "conv2d") {
            return None;
        }
        let channels = |operand| self.0.shape(operand).and_then(|dims| dims.get(1).copied());
        channels("x")?.checked_div(channels("weight")?).filter(|groups| *groups > 0)
    }
}

impl Options for ModelOptions<'_> {
    type Error = Failure;

    fn operand(&self, name: &'static str) -> Result<DType, Failure> {
        let Spec { entry, types, .. } = self.0;
        if entry.op.slots(types.runs_in).iter().all(|slot| slot.name != name) {
            return Err(Failure::Usage(format!("{} has no operand `{name}`", entry.name)));
        }
        Ok(types.get(entry, name))
    }
    fn number(&self, name: &'static str) -> Result<Option<f64>, Failure> {
        Ok(match (self.0.entry.name, name) {
            // Added to variances.
            (_, "eps") => Some(1e-5),
            // Negation undoes itself, so values stay in range however often the op runs in place.
            ("affine_inplace", "mul") => Some(-1.0),
            (_, "exponent") => Some(2.5),
            ("swiglu_clamped", "alpha") => Some(1.702),
            (_, "alpha") => Some(1.0),
            (_, "limit") => Some(7.0),
            ("sample", "temperature") => Some(0.8),
            ("sample", "top_p") => Some(0.95),
            (_, "mul") => Some(2.0),
            (_, "add") => Some(1.0),
            _ => None,
        })
    }
    fn value(&self, name: &'static str) -> Result<Option<Wide>, Failure> {
        Ok(Some(Wide::Int(if name == "min" { 0 } else { 1 })))
    }
    fn count(&self, name: &'static str) -> Result<Option<usize>, Failure> {
        if (self.0.entry.name, name) == ("router_topk", "k") {
            let experts = self.0.shape("logits").and_then(|dims| dims.last().copied()).unwrap_or(0);
            return Ok(Some(experts.min(8)));
        }
        if self.0.entry.name == "router_topk" {
            return Ok(None);
        }
        if name == "top_k" {
            return Ok(Some(40));
        }
        if name == "k" {
            // The usual value for sampling from a model's vocabulary.
            let n = self.0.shape("x").and_then(|dims| dims.last().copied()).unwrap_or(0);
            return Ok(Some(n.min(40)));
        }
        if name == "groups" {
            return Ok(self.convolution_groups());
        }
        if name != "num_groups" {
            return Ok(None);
        }
        // 32 groups, as in most models, or the largest smaller number that divides the channels.
        let channels = self.0.shape("x").and_then(|dims| dims.get(1).copied()).unwrap_or(1);
        Ok((1..=32).rev().find(|groups| channels.is_multiple_of(*groups)))
    }
    fn axis(&self, _: &'static str) -> Result<Option<isize>, Failure> {
        // Ops without a default axis use the last one.
        let last = ["argmax", "argmin", "cumsum", "cumprod", "gather", "scatter", "scatter_add"];
        Ok(last.contains(&self.0.entry.name).then_some(-1))
    }
    fn counts(&self, name: &'static str) -> Result<Option<Vec<usize>>, Failure> {
        let twice = |len: &usize| len.saturating_mul(2);
        let last = |axes: usize| {
            self.0.shape("x").map(|dims| dims.iter().rev().take(axes).rev().map(twice).collect())
        };
        // The padding that keeps an image's extents, if the kernel's extent is odd.
        let kernel = self.0.shape("weight").map_or(&[][..], |dims| dims.get(2..).unwrap_or(&[]));
        Ok(match (self.0.entry.name, name) {
            ("max_pool2d" | "avg_pool2d", "kernel") => Some(vec![2, 2]),
            ("upsample_nearest1d", "size") => last(1),
            (_, "size") => last(2),
            (_, "padding") if !kernel.is_empty() => {
                Some(kernel.iter().map(|k| k.saturating_sub(1) / 2).collect())
            }
            _ => None,
        })
    }
    fn axes(&self, _: &'static str) -> Result<Option<Axes>, Failure> {
        Ok(Some(Axes::from(-1)))
    }
    fn flag(&self, name: &'static str) -> Result<Option<bool>, Failure> {
        Ok(Some(name == "causal" && self.0.causal))
    }
    fn window(&self, _: &'static str) -> Result<Option<Window>, Failure> {
        Ok(None)
    }
    fn dtype(&self, _: &'static str) -> Result<Option<DType>, Failure> {
        Ok(None)
    }
    fn word(&self, _: &'static str, _: &[&'static str]) -> Result<Option<usize>, Failure> {
        Ok(None)
    }
}
