//! Statistics of a run.
use ops_command::stderr;
use ops_core::model::Blocks;
use ops_models::BatchStats;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    pub(super) sequences: usize,
    /// Sequences that were refused or failed, and lines that have no meaning.
    pub(super) faults: usize,
    pub(super) batch: BatchStats,
}

impl Stats {
    /// Counts a fault, which decides the exit status.
    pub(super) fn fault(&mut self) {
        self.faults += 1;
        ops_command::failed(1);
    }

    fn per_second(&self, n: usize) -> f64 {
        n as f64 / self.batch.time.as_secs_f64().max(1e-9)
    }
    /// One line.
    pub(super) fn summary(&self) -> String {
        let (sequences, generated) = (self.sequences, self.batch.generated);
        format!("{sequences} sequences, {generated} tokens at {:.0}/s", self.per_second(generated))
    }
    /// Prints everything to standard error.
    pub(super) fn print(&self, blocks: &Blocks, loaded: Duration) {
        let mean = self.batch.rows as f64 / self.batch.steps.max(1) as f64;
        let (count, size) = (blocks.count(), blocks.size());
        writeln!(
            stderr(),
            "loading {:.2} s, {} steps in {:.3} s",
            loaded.as_secs_f64(),
            self.batch.steps,
            self.batch.time.as_secs_f64()
        );
        writeln!(
            stderr(),
            "tokens computed {} ({:.0}/s), of prompts shared {}, computed again {}",
            self.batch.computed,
            self.per_second(self.batch.computed),
            self.batch.shared,
            self.batch.recomputed
        );
        writeln!(stderr(), "sequences in a step: {mean:.1} on average, {} at most", self.batch.largest);
        writeln!(
            stderr(),
            "blocks of {size} tokens: at most {} of {count} in use, at most {} shared; {} preemptions",
            self.batch.used,
            self.batch.shared_blocks,
            self.batch.preemptions
        );
    }
}
