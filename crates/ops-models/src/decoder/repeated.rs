//! Steps of one token per text, recorded when they repeat.
use super::drawn::{Draw, Drawn};
use super::logits::most_of;
use super::pages::table;
use super::{Decoder, PagedRow, PagedStep, Pages};
use crate::Result;
use crate::pieces::Candidates;
use ops_core::model::Transformer;
use ops_core::{Float, Replay, Tensor};

/// A table of blocks has room for at least this many per text. It grows by factors of two, so that a text that grows is recorded again
/// only when its length has doubled.
const BLOCKS: usize = 8;

/// The recorded step of texts in [`Pages`], used as long as steps are alike.
///
/// The first of several like steps is prepared by the host, and the second is recorded. From then on, the host writes the inputs and
/// replays. The recording ends with the logits, so that texts may be drawn in different ways.
pub(crate) struct Repeated<B: Replay> {
    /// Whether steps are recorded if the backend can.
    records: bool,
    /// What the last step of one token per text was like.
    last: Option<Shape>,
    recorded: Option<(Shape, Recording<B>)>,
}

/// What the calls of a step depend on, in addition to the values of its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    /// Of each text.
    memories: Vec<Option<u32>>,
    /// Blocks per text in the table.
    width: usize,
    /// How many of the largest logits are needed.
    most: Option<usize>,
}

enum Recording<B: Replay> {
    Graph(Box<Recorded<B>>),
    /// The backend cannot record the step.
    Refused(ops_core::Error),
}

struct Recorded<B: Replay> {
    graph: B::Graph,
    /// What it reads and writes.
    step: PagedStep<B::Space>,
    candidates: Candidates<B::Space>,
    /// What the step's table of blocks contains.
    table: Vec<u32>,
}

impl<B: Replay> Repeated<B> {
    /// Nothing is recorded yet.
    pub(crate) fn new(records: bool) -> Self {
        Repeated { records, last: None, recorded: None }
    }

    /// Why the last step that repeated could not be recorded.
    pub(crate) fn refusal(&self) -> Option<&ops_core::Error> {
        match &self.recorded {
            Some((_, Recording::Refused(why))) => Some(why),
            _ => None,
        }
    }
}

impl Shape {
    /// That of a step before its tokens are appended; `None` unless each text has tokens and gains one.
    fn of(rows: &[PagedRow<'_>], draws: &[Draw<'_>], block: usize) -> Option<Shape> {
        let is_next = |(text, tokens): &PagedRow<'_>| !text.is_empty() && tokens.len() == 1;
        let longest = rows.iter().map(|(text, _)| text.len()).max().filter(|_| rows.iter().all(is_next))?;
        Some(Shape {
            memories: rows.iter().map(|(text, _)| text.memory()).collect(),
            width: (longest / block + 1).next_power_of_two().max(BLOCKS),
            most: most_of(draws),
        })
    }
}

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// [`next_paged`](Self::next_paged), which replays a recorded step if the backend records, and these rows repeat the last step of the
    /// same pages.
    pub(crate) fn next_repeated(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        rows: &mut [PagedRow<'_>],
        draws: &[Draw<'_>],
        repeated: &mut Repeated<B>,
    ) -> Result<Vec<Drawn>> {
        let shape =
            Shape::of(rows, draws, pages.blocks().size()).filter(|_| repeated.records && b.can_record());
        let Some(shape) = shape else { return self.next_paged(b, pages, rows, draws) };
        let is_like_last = repeated.last.replace(shape.clone()).as_ref() == Some(&shape);
        match &repeated.recorded {
            Some((of, Recording::Refused(_))) if *of == shape => {
                return self.next_paged(b, pages, rows, draws);
            }
            Some((of, _)) if *of == shape => {}
            _ if !is_like_last => return self.next_paged(b, pages, rows, draws),
            _ => repeated.recorded = None,
        }
        let positions: Vec<usize> = rows.iter().map(|(text, _)| text.len()).collect();
        self.with_tokens(b, pages, rows, |pages, rows, slots| {
            self.share.step(|| {
                let (_, recording) = match repeated.recorded.take() {
                    Some(recorded) => repeated.recorded.insert(recorded),
                    None => {
                        let recording = self.record(b, pages, rows, slots, &shape)?;
                        repeated.recorded.insert((shape, recording))
                    }
                };
                let Recording::Graph(recorded) = recording else {
                    let step = PagedStep::new(b, rows, slots, 0)?;
                    return self.drawn(b, &self.paged_hidden(b, pages, &step)?, draws, &positions);
                };
                recorded.write_inputs(b, rows, slots)?;
                self.share.replay(b, &recorded.graph)?;
                self.draw_among(b, &recorded.candidates, draws, &positions)
            })
        })
    }

    fn record(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        rows: &[PagedRow<'_>],
        slots: &[u32],
        shape: &Shape,
    ) -> Result<Recording<B>> {
        let step = PagedStep::new(b, rows, slots, shape.width)?;
        let table = table(rows, shape.width);
        let recorded = self.share.record(b, || {
            let hidden = self.paged_hidden(b, pages, &step)?;
            self.candidates(b, hidden.as_ref(), shape.most)
        })?;
        Ok(match recorded {
            Ok((graph, candidates)) => {
                Recording::Graph(Box::new(Recorded { graph, step, candidates, table }))
            }
            Err(why) => Recording::Refused(why),
        })
    }
}

impl<B: Replay> Recorded<B> {
    fn write_inputs(&mut self, b: &B, rows: &[PagedRow<'_>], slots: &[u32]) -> Result<()> {
        let [mut ids, mut positions, mut lengths] = [const { Vec::new() }; 3];
        for (text, tokens) in rows {
            ids.extend_from_slice(tokens);
            positions.push(text.len() as u32 - 1);
            lengths.push(text.len() as u32);
        }
        let PagedStep { ids: to_ids, positions: to_positions, slots: to_slots, lengths: to_lengths, .. } =
            &mut self.step;
        let inputs =
            [(&ids[..], to_ids), (&positions, to_positions), (slots, to_slots), (&lengths, to_lengths)];
        inputs.into_iter().try_for_each(|(values, to)| write(b, values, to))?;
        let table = table(rows, self.step.block_table.dims()[1]);
        if table != self.table {
            write(b, &table, &mut self.step.block_table)?;
            self.table = table;
        }
        Ok(())
    }
}

fn write<B: Replay>(b: &B, values: &[u32], to: &mut Tensor<B::Space, u32>) -> ops_core::Result<()> {
    b.write(values, to.as_mut().data_mut(), 0)
}
