//! Steps of one token per text, recorded when they repeat.
use super::drawn::{Draw, Drawn};
use super::pages::table;
use super::{Decoder, PagedRow, PagedStep, Pages};
use crate::pieces::Candidates;
use crate::{Error, Result};
use ops_core::model::Transformer;
use ops_core::{Float, Replay, Tensor};

/// A table of blocks has room for at least this many per text. It grows by factors of two, so that a text that grows is recorded again
/// only when its length has doubled.
const BLOCKS: usize = 8;

/// The recorded step of texts in [`Pages`].
///
/// Of consecutive steps with the same [`Shape`], the host prepares the first; the second is recorded and replayed. For each replay, the host
/// writes the inputs. The recording ends with the logits, so that texts may be drawn in different ways.
pub(crate) struct Repeated<B: Replay> {
    /// Whether steps are recorded if the backend can.
    records: bool,
    /// The last step, if it had a shape.
    last: Option<(Shape, Recording<B>)>,
    /// Why the first step that could not be recorded was refused.
    refusal: Option<ops_core::Error>,
}

/// What the calls of a step depend on, in addition to the values of its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    /// The recurrent memory of each text, if it has one.
    memories: Vec<Option<u32>>,
    /// Blocks per text in the table.
    width: usize,
}

enum Recording<B: Replay> {
    /// The next step of this shape is to be recorded.
    NotYet,
    Graph(Box<Recorded<B>>),
    Refused,
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
        Repeated { records, last: None, refusal: None }
    }

    /// Why the first step that could not be recorded was refused.
    pub(crate) fn refusal(&self) -> Option<&ops_core::Error> {
        self.refusal.as_ref()
    }
}

impl Shape {
    /// That of a step before its tokens are appended; `None` unless each text has tokens and gains one.
    fn of(rows: &[PagedRow<'_>], block: usize) -> Option<Shape> {
        let is_next = |(text, tokens): &PagedRow<'_>| !text.is_empty() && tokens.len() == 1;
        let longest = rows.iter().map(|(text, _)| text.len()).max().filter(|_| rows.iter().all(is_next))?;
        Some(Shape {
            memories: rows.iter().map(|(text, _)| text.memory()).collect(),
            width: (longest / block + 1).next_power_of_two().max(BLOCKS),
        })
    }
}

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// Whether [`next_repeated`](Self::next_repeated) can record. Ranks of a divided model do not: if only some of them could, they would
    /// wait for the others in vain.
    pub(crate) fn can_repeat(&self, b: &B) -> bool {
        self.share.ranks() == 1 && b.can_record()
    }

    /// Like [`next_paged`](Self::next_paged), but replays the recorded step if it has the shape of this one, and records a step if the
    /// one before had the same shape.
    pub(crate) fn next_repeated(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        rows: &mut [PagedRow<'_>],
        draws: &[Draw<'_>],
        repeated: &mut Repeated<B>,
    ) -> Result<Vec<Drawn>> {
        let records = repeated.records && self.can_repeat(b);
        let shape = Shape::of(rows, pages.blocks().size()).filter(|_| records);
        // A recording of another shape is dropped, and with it the memory that it uses.
        let last = repeated.last.take().filter(|(of, _)| Some(of) == shape.as_ref());
        let Some((shape, mut recording)) = last else {
            repeated.last = shape.map(|shape| (shape, Recording::NotYet));
            return self.next_paged(b, pages, rows, draws);
        };
        let positions: Vec<usize> = rows.iter().map(|(text, _)| text.len()).collect();
        self.with_tokens(b, pages, rows, |pages, rows, slots| {
            self.share.step(|| {
                if let Recording::NotYet = recording {
                    recording = self.record(b, pages, (rows, slots), shape.width, &mut repeated.refusal)?;
                }
                let drawn = match &mut recording {
                    Recording::Graph(recorded) => {
                        recorded.write_inputs(b, rows, slots)?;
                        b.replay(&recorded.graph)?;
                        self.draw_among(b, &recorded.candidates, draws, &positions)?
                    }
                    _ => {
                        // The table of a recorded step: kernels that `prepare` compiles for this step are those of the recorded one.
                        let step = PagedStep::new(b, rows, slots, shape.width)?;
                        self.drawn(b, &self.paged_hidden(b, pages, &step)?, draws, &positions)?
                    }
                };
                repeated.last = Some((shape, recording));
                Ok(drawn)
            })
        })
    }

    /// Records the step of these rows. After any error of the backend, the host prepares the step instead.
    fn record(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        (rows, slots): (&[PagedRow<'_>], &[u32]),
        width: usize,
        refusal: &mut Option<ops_core::Error>,
    ) -> Result<Recording<B>> {
        let step = PagedStep::new(b, rows, slots, width)?;
        let table = table(rows, width);
        let recorded = b.capture(|| {
            let hidden = self.paged_hidden(b, pages, &step)?;
            self.candidates(b, hidden.as_ref(), None)
        });
        match recorded {
            Ok((graph, candidates)) => {
                Ok(Recording::Graph(Box::new(Recorded { graph, step, candidates, table })))
            }
            Err(Error::Op(why)) => {
                refusal.get_or_insert(why);
                Ok(Recording::Refused)
            }
            Err(error) => Err(error),
        }
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
        let step = &mut self.step;
        write(b, &ids, &mut step.ids)?;
        write(b, &positions, &mut step.positions)?;
        write(b, slots, &mut step.slots)?;
        write(b, &lengths, &mut step.lengths)?;
        let table = table(rows, step.block_table.dims()[1]);
        if table != self.table {
            write(b, &table, &mut step.block_table)?;
            self.table = table;
        }
        Ok(())
    }
}

fn write<B: Replay>(b: &B, values: &[u32], to: &mut Tensor<B::Space, u32>) -> ops_core::Result<()> {
    b.write(values, to.as_mut().data_mut(), 0)
}
