//! Statistics of a run.
use examples_shared::command::{self, stderr};
use rocm_ops::model::Blocks;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) sequences: usize,
    /// Sequences that were refused or failed, and lines that have no meaning.
    pub(crate) faults: usize,
    pub(crate) steps: usize,
    /// Number of sequences summed over all steps, and in the largest step.
    rows: usize,
    largest: usize,
    /// Tokens computed, those of prompts, and those lost to preemption.
    computed: usize,
    pub(crate) generated: usize,
    /// Prompt tokens that other sequences had already computed.
    pub(crate) shared: usize,
    pub(crate) preemptions: usize,
    pub(crate) recomputed: usize,
    /// Maximum number of blocks in use, and shared, after a step.
    used: usize,
    pub(crate) shared_blocks: usize,
    /// Total time of all steps.
    time: Duration,
}

impl Stats {
    /// Counts a fault, which decides the exit status.
    pub(crate) fn fault(&mut self) {
        self.faults += 1;
        command::failed(1);
    }
    /// Counts a step with this many tokens per sequence.
    pub(crate) fn step(&mut self, rows: &[usize], blocks: &Blocks, time: Duration) {
        self.steps += 1;
        self.rows += rows.len();
        self.largest = self.largest.max(rows.len());
        self.computed += rows.iter().sum::<usize>();
        self.used = self.used.max(blocks.count() - blocks.free());
        self.shared_blocks = self.shared_blocks.max(blocks.shared());
        self.time += time;
    }

    fn per_second(&self, n: usize) -> f64 {
        n as f64 / self.time.as_secs_f64().max(1e-9)
    }
    /// One line.
    pub(crate) fn summary(&self) -> String {
        let (sequences, generated) = (self.sequences, self.generated);
        format!("{sequences} sequences, {generated} tokens at {:.0}/s", self.per_second(generated))
    }
    /// Prints everything to standard error.
    pub(crate) fn print(&self, blocks: &Blocks, loaded: Duration) {
        let mean = self.rows as f64 / self.steps.max(1) as f64;
        let (count, size) = (blocks.count(), blocks.size());
        writeln!(
            stderr(),
            "loading {:.2} s, {} steps in {:.3} s",
            loaded.as_secs_f64(),
            self.steps,
            self.time.as_secs_f64()
        );
        writeln!(
            stderr(),
            "tokens computed {} ({:.0}/s), of prompts shared {}, computed again {}",
            self.computed,
            self.per_second(self.computed),
            self.shared,
            self.recomputed
        );
        writeln!(stderr(), "sequences in a step: {mean:.1} on average, {} at most", self.largest);
        writeln!(
            stderr(),
            "blocks of {size} tokens: at most {} of {count} in use, at most {} shared; {} preemptions",
            self.used,
            self.shared_blocks,
            self.preemptions
        );
    }
}
