//! How texts are continued.
use crate::{Error, Result};
use ops_core::ops::Sample;
use std::collections::BTreeMap;

/// How a text is continued.
///
/// ```
/// use rocm_ops::models::GenerateOptions;
///
/// let greedy = GenerateOptions { temperature: 0.0, ..Default::default() };
/// let varied = GenerateOptions { min_p: Some(0.05), repeat_penalty: 1.1, seed: 7, ..Default::default() };
/// ```
///
/// Each token is drawn in these steps:
///
/// 1. Penalties and the bias change the logits.
/// 2. With `min_p`, ids that are much less likely than the most likely one are left out.
/// 3. The op [`Sample`] draws from the rest with `temperature`, `top_k`, `top_p` and `seed`. The random number depends only on the seed
///    and on how many tokens the text has drawn: the same options give the same text, alone or in a batch, on every backend that
///    computes the same logits.
///
/// **Cost.** Step 3 runs on the backend, and only the drawn ids are copied to the host. Steps 1 and 2 run on the host: if a text of a
/// step has a penalty, a bias or `min_p`, the logits of all texts of this step are copied to the host and back, 8 bytes for each id of
/// the vocabulary and text.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateOptions {
    /// Maximum number of tokens to generate. Default: 128.
    pub max_tokens: usize,
    /// Texts that end generation. They are not part of the result, and text that may be the beginning of one is held back until the
    /// next tokens show what it is. Default: none.
    pub stop: Vec<String>,
    /// Whether to go on when the model generates an end token. Default: no.
    pub ignore_eos: bool,
    /// What to do when the context is full. Default: stop.
    pub overflow: Overflow,
    /// Divides the logits; 0 always takes the most likely token. Default: 0.8.
    pub temperature: f64,
    /// Draws from only this many of the most likely tokens. Default: all.
    pub top_k: Option<usize>,
    /// Draws from the smallest set of most likely tokens whose probabilities sum to at least this. Default: all.
    pub top_p: Option<f64>,
    /// Draws from only the tokens that are at least this times as likely as the most likely one, at this temperature. Applied before
    /// `top_k` and `top_p`. Default: all.
    pub min_p: Option<f64>,
    /// Divides the positive logits of recent tokens, and multiplies the negative ones. Default: 1, which changes nothing.
    pub repeat_penalty: f64,
    /// Subtracted from the logits of recent tokens. Default: 0.
    pub presence_penalty: f64,
    /// Subtracted from the logits of recent tokens as often as they occur. Default: 0.
    pub frequency_penalty: f64,
    /// How many tokens are recent, those of the prompt included: the penalties apply to these. Default: 64.
    pub repeat_last_n: usize,
    /// Added to the logits of these ids; −∞ forbids one. Default: none.
    pub logit_bias: Vec<(u32, f32)>,
    /// The key of the random numbers. Default: 0.
    pub seed: u64,
}

/// What to do with a text that fills the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// End it.
    #[default]
    Stop,
    /// Drop its older half, except a token that begins every text, and read the rest again. Not possible in a [`Batch`](crate::Batch).
    Shift,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        GenerateOptions {
            max_tokens: 128,
            stop: Vec::new(),
            ignore_eos: false,
            overflow: Overflow::Stop,
            temperature: 0.8,
            top_k: None,
            top_p: None,
            min_p: None,
            repeat_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repeat_last_n: 64,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

impl GenerateOptions {
    /// Checks every option, for a model with this many tokens.
    pub(super) fn check(&self, vocabulary: usize) -> Result<()> {
        let fits = |fits: bool, name, got: &dyn ToString, wanted: &str| match fits {
            true => Ok(()),
            false => Err(Error::Option { name, got: got.to_string(), wanted: wanted.to_owned() }),
        };
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let (temperature, penalty) = (self.temperature, self.repeat_penalty);
        let (presence, frequency) = (self.presence_penalty, self.frequency_penalty);
        let (top_p, min_p) = (self.top_p.unwrap_or(1.0), self.min_p.unwrap_or(0.0));
        fits(
            positive(temperature) || temperature == 0.0,
            "temperature",
            &temperature,
            "a finite number, 0 or larger",
        )?;
        fits(self.top_k != Some(0), "top_k", &0, "at least 1; leave it out to keep all ids")?;
        fits((0.0..=1.0).contains(&top_p), "top_p", &top_p, "a number from 0 to 1")?;
        fits((0.0..=1.0).contains(&min_p), "min_p", &min_p, "a number from 0 to 1")?;
        fits(positive(penalty), "repeat_penalty", &penalty, "a finite number above 0")?;
        fits(presence.is_finite(), "presence_penalty", &presence, "a finite number")?;
        fits(frequency.is_finite(), "frequency_penalty", &frequency, "a finite number")?;
        fits(
            self.stop.iter().all(|stop| !stop.is_empty()),
            "stop",
            &"an empty text",
            "a text of at least one character",
        )?;
        self.logit_bias.iter().try_for_each(|(id, bias)| {
            let known = format!("an id below {vocabulary}, the size of the vocabulary");
            fits((*id as usize) < vocabulary, "logit_bias", id, &known)?;
            fits(!bias.is_nan() && *bias < f32::INFINITY, "logit_bias", bias, "a finite number or -inf")
        })
    }

    /// The op that draws a token.
    pub(super) fn sample(&self) -> Sample<f32> {
        let GenerateOptions { temperature, top_k, top_p, seed, .. } = *self;
        let mut op = Sample::temperature(temperature).seed(seed);
        (op.top_k, op.top_p) = (top_k, top_p);
        op
    }

    /// Whether [`change`](Self::change) has an effect.
    pub(super) fn changes_logits(&self) -> bool {
        let Self { repeat_penalty, presence_penalty, frequency_penalty, repeat_last_n, .. } = *self;
        let penalises = repeat_penalty != 1.0 || presence_penalty != 0.0 || frequency_penalty != 0.0;
        (penalises && repeat_last_n > 0)
            || !self.logit_bias.is_empty()
            || (self.min_p.is_some_and(|p| p > 0.0) && self.temperature > 0.0)
    }

    /// Applies penalties, the bias and `min_p` to the logits after these tokens. NaN stays NaN.
    pub(super) fn change(&self, logits: &mut [f32], tokens: &[u32]) {
        let recent = &tokens[tokens.len().saturating_sub(self.repeat_last_n)..];
        let mut counts = BTreeMap::new();
        recent.iter().for_each(|id| *counts.entry(*id).or_insert(0_u32) += 1);
        for (id, count) in counts {
            if let Some(logit) = logits.get_mut(id as usize) {
                let l = f64::from(*logit);
                let l = if l > 0.0 { l / self.repeat_penalty } else { l * self.repeat_penalty };
                *logit = (l - self.presence_penalty - f64::from(count) * self.frequency_penalty) as f32;
            }
        }
        for (id, bias) in &self.logit_bias {
            if let Some(logit) = logits.get_mut(*id as usize) {
                *logit += bias;
            }
        }
        if let Some(p) = self.min_p.filter(|_| self.temperature > 0.0) {
            // p(id) / p(best) = exp((logit − best) / temperature).
            let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let least = f64::from(best) + self.temperature * p.ln();
            logits
                .iter_mut()
                .filter(|logit| f64::from(**logit) < least)
                .for_each(|logit| *logit = f32::NEG_INFINITY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(options: GenerateOptions, tokens: &[u32], logits: [f32; 4]) -> [f32; 4] {
        assert!(options.changes_logits(), "{options:?}");
        let mut logits = logits;
        options.change(&mut logits, tokens);
        logits
    }
    fn default() -> GenerateOptions {
        GenerateOptions::default()
    }

    #[test]
    fn penalties_and_bias_change_recent_tokens_and_theirs() {
        let repeat = GenerateOptions { repeat_penalty: 2.0, ..default() };
        assert_eq!(changed(repeat.clone(), &[0, 1, 1], [4.0, -4.0, 4.0, 0.0]), [2.0, -8.0, 4.0, 0.0]);
        let last = GenerateOptions { repeat_last_n: 2, ..repeat };
        assert_eq!(changed(last, &[0, 1, 1], [4.0, -4.0, 4.0, 0.0]), [4.0, -8.0, 4.0, 0.0]);
        let presence = GenerateOptions { presence_penalty: 0.5, ..default() };
        assert_eq!(changed(presence, &[2, 1, 1], [1.0; 4]), [1.0, 0.5, 0.5, 1.0]);
        let frequency = GenerateOptions { frequency_penalty: 0.5, ..default() };
        assert_eq!(changed(frequency, &[2, 1, 1], [1.0; 4]), [1.0, 0.0, 0.5, 1.0]);
        let bias = GenerateOptions { logit_bias: vec![(0, 1.5), (3, f32::NEG_INFINITY)], ..default() };
        assert_eq!(changed(bias, &[], [1.0; 4]), [2.5, 1.0, 1.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn min_p_is_relative_to_the_best_at_the_temperature() {
        const OUT: f32 = f32::NEG_INFINITY;
        // The others are exp(-1) = 0.37, exp(-2) = 0.14 and exp(-3) = 0.05 times as likely.
        let min_p = |p, temperature| GenerateOptions { min_p: Some(p), temperature, ..default() };
        let logits = [2.0, 5.0, 4.0, 3.0];
        assert_eq!(changed(min_p(0.1, 1.0), &[], logits), [OUT, 5.0, 4.0, 3.0]);
        assert_eq!(changed(min_p(0.3, 1.0), &[], logits), [OUT, 5.0, 4.0, OUT]);
        assert_eq!(changed(min_p(0.3, 3.0), &[], logits), logits, "exp(-3 / 3) is above 0.3");
        assert_eq!(changed(min_p(1.0, 1.0), &[], logits), [OUT, 5.0, OUT, OUT]);
        let nan = changed(min_p(0.3, 1.0), &[], [f32::NAN, 5.0, 0.0, 5.0]);
        assert!(nan[0].is_nan() && nan[1..] == [5.0, OUT, 5.0]);
        assert!(!min_p(0.3, 0.0).changes_logits() && !default().changes_logits());
    }

    #[test]
    fn options_out_of_range_are_named() {
        default().check(4).unwrap();
        for (name, options) in [
            ("temperature", GenerateOptions { temperature: -0.1, ..default() }),
            ("temperature", GenerateOptions { temperature: f64::NAN, ..default() }),
            ("top_k", GenerateOptions { top_k: Some(0), ..default() }),
            ("top_p", GenerateOptions { top_p: Some(1.1), ..default() }),
            ("min_p", GenerateOptions { min_p: Some(-0.1), ..default() }),
            ("repeat_penalty", GenerateOptions { repeat_penalty: 0.0, ..default() }),
            ("presence_penalty", GenerateOptions { presence_penalty: f64::INFINITY, ..default() }),
            ("frequency_penalty", GenerateOptions { frequency_penalty: f64::NAN, ..default() }),
            ("stop", GenerateOptions { stop: vec![String::new()], ..default() }),
            ("logit_bias", GenerateOptions { logit_bias: vec![(4, 0.0)], ..default() }),
            ("logit_bias", GenerateOptions { logit_bias: vec![(0, f32::NAN)], ..default() }),
        ] {
            let error = options.check(4).unwrap_err().to_string();
            assert!(error.starts_with(&format!("option `{name}`: got ")), "{error}");
        }
    }
}
