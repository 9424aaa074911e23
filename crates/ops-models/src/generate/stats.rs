//! What the steps of a batch have done.
use ops_core::model::Blocks;
use std::time::Duration;

/// What all steps of a [`Batch`](crate::Batch) have done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BatchStats {
    /// Number of steps.
    pub steps: usize,
    /// Texts, summed over all steps.
    pub rows: usize,
    /// Texts in the largest step.
    pub largest: usize,
    /// Tokens computed, those of prompts and those lost to preemption included.
    pub computed: usize,
    /// Tokens generated.
    pub generated: usize,
    /// Prompt tokens that other texts had already computed.
    pub shared: usize,
    /// How often a text has given up its blocks.
    pub preemptions: usize,
    /// Tokens in these blocks.
    pub recomputed: usize,
    /// Maximum number of blocks in use after a step.
    pub used: usize,
    /// Maximum number of blocks with several texts after a step.
    pub shared_blocks: usize,
    /// Time of all steps.
    pub time: Duration,
}

impl BatchStats {
    /// Counts a step with this many tokens per text.
    pub(super) fn step(&mut self, rows: &[usize], blocks: &Blocks, time: Duration) {
        self.steps += 1;
        self.rows += rows.len();
        self.largest = self.largest.max(rows.len());
        self.computed += rows.iter().sum::<usize>();
        self.used = self.used.max(blocks.count() - blocks.free());
        self.shared_blocks = self.shared_blocks.max(blocks.shared());
        self.time += time;
    }
}
