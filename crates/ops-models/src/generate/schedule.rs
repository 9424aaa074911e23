//! Which sequences take part in a step, and which one is preempted when blocks run out.
use ops_core::model::{Blocks, Sequence};
use std::collections::VecDeque;

/// A text that grows. `O` is its output.
pub(super) struct Job<O> {
    /// Numbered from 1, in the order of the prompts.
    pub(super) number: usize,
    /// The prompt, then the generated tokens.
    pub(super) tokens: Vec<u32>,
    pub(super) prompt: usize,
    /// How often it was preempted.
    pub(super) preemptions: usize,
    pub(super) output: O,
}

/// A job with blocks. The sequence has the tokens already in the cache; the job's other tokens follow in the
/// next steps.
pub(super) struct Running<O> {
    pub(super) job: Job<O>,
    pub(super) text: Sequence,
    /// Number of tokens in the current step.
    pub(super) fresh: usize,
}

impl<O> Running<O> {
    fn rest(&self) -> usize {
        self.job.tokens.len() - self.text.len()
    }
}

/// What a plan did in addition to choosing tokens.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// A job has joined, sharing this many tokens with other sequences.
    Joined { number: usize, shared: usize },
    /// A job has lost its blocks; this many tokens will be computed again.
    Preempted { number: usize, lost: usize },
}

pub(super) struct Limits {
    /// Maximum number of sequences in a step.
    pub(super) batch: usize,
    /// Maximum number of prefill tokens in a step: those of sequences with more than one.
    pub(super) prefill: usize,
    pub(super) sharing: bool,
}

pub(super) struct Schedule<O> {
    pub(super) blocks: Blocks,
    limits: Limits,
    waiting: VecDeque<Job<O>>,
    /// In the order in which they joined.
    pub(super) running: Vec<Running<O>>,
}

impl<O> Schedule<O> {
    pub(super) fn new(blocks: Blocks, limits: Limits) -> Self {
        Schedule { blocks, limits, waiting: VecDeque::new(), running: Vec::new() }
    }
    pub(super) fn submit(&mut self, job: Job<O>) {
        self.waiting.push_back(job);
    }
    /// How many more jobs it takes: as many as can run, and one that waits for the next place.
    pub(super) fn room(&self) -> usize {
        self.limits.batch.saturating_add(1).saturating_sub(self.waiting.len() + self.running.len())
    }
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }
    /// Removes a job, wherever it is. This frees its blocks.
    pub(super) fn remove(&mut self, number: usize) -> Option<Job<O>> {
        if let Some(at) = self.running.iter().position(|running| running.job.number == number) {
            return Some(self.running.remove(at).job);
        }
        let at = self.waiting.iter().position(|job| job.number == number)?;
        self.waiting.remove(at)
    }

    /// Chooses the tokens of the next step, `fresh` per sequence, and takes their blocks.
    pub(super) fn plan(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some((text, shared)) = self.place() {
            let Some(job) = self.waiting.pop_front() else { break };
            events.push(Event::Joined { number: job.number, shared });
            self.running.push(Running { job, text, fresh: 0 });
        }
        loop {
            self.share_out();
            let rows = self.running.iter().map(|running| (&running.text, running.fresh));
            if self.blocks.needed(rows) <= self.blocks.free() || self.running.len() <= 1 {
                return events;
            }
            if let Some(Running { mut job, text, .. }) = self.running.pop() {
                events.push(Event::Preempted { number: job.number, lost: text.len() });
                job.preemptions += 1;
                self.waiting.push_front(job);
            }
        }
    }

    /// A sequence for the job that has waited longest, with the number of tokens that it shares, if it can
    /// join now.
    fn place(&self) -> Option<(Sequence, usize)> {
        let job = self.waiting.front().filter(|_| self.running.len() < self.limits.batch)?;
        // The last token is always computed, since its logits are needed.
        let (end, mut shared, mut source) = (job.tokens.len() - 1, 0, None);
        for other in self.running.iter().filter(|_| self.limits.sharing) {
            let alike = alike(&job.tokens[..end], &other.job.tokens);
            let ready = alike.min(other.text.len());
            if ready > shared {
                (shared, source) = (ready, Some(other));
            }
            // It pays to wait for tokens that another sequence will compute in the next steps.
            if alike - ready >= self.blocks.size() && other.rest() > 1 && alike > shared {
                return None;
            }
        }
        let text = source.map_or_else(|| self.blocks.sequence(), |other| other.text.fork(shared));
        // Running sequences may not have taken all blocks for their prompts yet, and each may need one more at any step.
        let rests = self.running.iter().map(|running| (&running.text, running.rest()));
        let needed = self.blocks.needed(rests.chain([(&text, job.tokens.len() - shared)]));
        let enough = needed.saturating_add(self.running.len()) <= self.blocks.free();
        (enough || self.running.is_empty()).then_some((text, shared))
    }

    /// Gives one token to each sequence that has only one left, and divides the rest among the others, in
    /// order.
    fn share_out(&mut self) {
        let mut left = self.limits.prefill;
        for running in &mut self.running {
            let rest = running.rest();
            running.fresh = if rest == 1 { 1 } else { rest.min(left) };
            left -= if rest == 1 { 0 } else { running.fresh };
        }
    }
}

/// Length of the common prefix of two texts.
fn alike(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(blocks: usize, size: usize, batch: usize, prefill: usize) -> Schedule<()> {
        let limits = Limits { batch, prefill, sharing: true };
        Schedule::new(Blocks::new(blocks, size).unwrap(), limits)
    }
    fn job(number: usize, tokens: &[u32]) -> Job<()> {
        Job { number, tokens: tokens.to_vec(), prompt: tokens.len(), preemptions: 0, output: () }
    }
    /// Does a step: its tokens join the cache, and complete sequences gain one.
    fn step(schedule: &mut Schedule<()>) -> (Vec<Event>, Vec<(usize, usize)>) {
        let events = schedule.plan();
        let said = schedule.running.iter().map(|r| (r.job.number, r.fresh)).filter(|(_, n)| *n > 0).collect();
        let mut rows: Vec<_> = schedule.running.iter_mut().map(|r| (&mut r.text, r.fresh)).collect();
        schedule.blocks.append(&mut rows, |_| Ok(())).unwrap();
        for running in schedule.running.iter_mut().filter(|running| running.rest() == 0) {
            running.job.tokens.push(7);
        }
        (events, said)
    }
    fn joined(number: usize, shared: usize) -> Event {
        Event::Joined { number, shared }
    }

    #[test]
    fn long_prompts_do_not_hold_up_the_others() {
        let mut schedule = schedule(100, 4, 3, 5);
        schedule.submit(job(1, &[1]));
        schedule.submit(job(2, &(10..22).collect::<Vec<_>>()));
        schedule.submit(job(3, &[30, 31, 32]));
        schedule.submit(job(4, &[40]));
        assert_eq!(
            step(&mut schedule),
            (vec![joined(1, 0), joined(2, 0), joined(3, 0)], vec![(1, 1), (2, 5)])
        );
        assert_eq!(step(&mut schedule).1, [(1, 1), (2, 5)]);
        assert_eq!(step(&mut schedule).1, [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(step(&mut schedule).1, [(1, 1), (2, 1), (3, 1)]);
        assert!(schedule.remove(2).is_some() && schedule.remove(2).is_none());
        assert_eq!(step(&mut schedule), (vec![joined(4, 0)], vec![(1, 1), (3, 1), (4, 1)]));
        for number in [1, 3, 4] {
            assert!(schedule.remove(number).is_some());
        }
        assert!(schedule.is_idle() && schedule.blocks.free() == 100);
    }

    #[test]
    fn a_prompt_waits_for_the_beginning_that_another_computes() {
        let mut schedule = schedule(100, 4, 9, 100);
        schedule.submit(job(1, &[1, 2, 3, 4, 5, 6]));
        schedule.submit(job(2, &[1, 2, 3, 4, 5, 9]));
        schedule.submit(job(3, &[1, 2, 3, 4, 5, 6]));
        assert_eq!(step(&mut schedule), (vec![joined(1, 0)], vec![(1, 6)]));
        assert_eq!(schedule.blocks.free(), 98);
        assert_eq!(step(&mut schedule), (vec![joined(2, 5), joined(3, 5)], vec![(1, 1), (2, 1), (3, 1)]));
        // Three sequences share the first block; the second one was copied twice.
        assert_eq!((schedule.blocks.free(), schedule.blocks.shared()), (96, 1));
    }

    #[test]
    fn the_last_one_gives_way_and_joins_again() {
        let mut schedule = schedule(4, 2, 9, 100);
        schedule.submit(job(1, &[1, 2]));
        schedule.submit(job(2, &[9, 8]));
        assert_eq!(step(&mut schedule).0, [joined(1, 0), joined(2, 0)]);
        assert_eq!(step(&mut schedule).1, [(1, 1), (2, 1)]);
        assert_eq!(step(&mut schedule).1, [(1, 1), (2, 1)]);
        let (events, rows) = step(&mut schedule);
        assert_eq!((events, rows), (vec![Event::Preempted { number: 2, lost: 4 }], vec![(1, 1)]));
        assert!(schedule.plan().is_empty(), "there is one free block, and it needs three");
        drop(schedule.remove(1));
        assert_eq!(step(&mut schedule), (vec![joined(2, 0)], vec![(2, 5)]));
        assert_eq!(schedule.remove(2).unwrap().preemptions, 1);
    }

    #[test]
    fn one_alone_may_fill_all_blocks() {
        let mut schedule = schedule(3, 2, 9, 100);
        schedule.submit(job(1, &[1, 2, 3, 4, 5]));
        assert_eq!(step(&mut schedule).1, [(1, 5)]);
        assert_eq!(step(&mut schedule).1, [(1, 1)]);
        assert_eq!(schedule.blocks.free(), 0);
    }
}
