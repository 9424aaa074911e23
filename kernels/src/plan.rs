//! Plans: the launches that compute a problem, and the memory that they share.
use crate::instances::Arguments;
use crate::{Launch, Refused};
use arrayvec::ArrayVec;

/// Maximum number of launches: 23 sort rows of 2^32 elements, and a scatter may follow them.
const MAX_STEPS: usize = 24;
/// Room for the arguments of these launches, in words of eight bytes: 23 `SortArgs` and a `ScatterArgs`.
const MAX_WORDS: usize = 23 * 50 + 53;

/// Size of a struct of arguments in words.
const fn words<A>() -> usize {
    assert!(align_of::<A>() == 8, "arguments are words of eight bytes");
    size_of::<A>() / 8
}

/// The launches that compute a problem, in order, and the memory that they share. A plan is filled in place,
/// because moving one costs more.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    launches: ArrayVec<Launch, MAX_STEPS>,
    /// Where the arguments of each launch end.
    ends: ArrayVec<usize, MAX_STEPS>,
    arguments: ArrayVec<u64, MAX_WORDS>,
    /// The arguments that are offsets in the workspace until [`place`](Plan::place) makes them addresses.
    offsets: ArrayVec<usize, { 3 * MAX_STEPS }>,
    /// The argument for the address of [`ARRIVALS`](crate::attention::ARRIVALS) counters, which are 0 before
    /// and after a launch.
    counters: Option<usize>,
    /// Bytes of device memory for intermediate results, aligned to 16 bytes; 0 if there are none.
    pub workspace: u64,
}

/// One launch of a [`Plan`].
#[derive(Clone, Copy, Debug)]
pub struct Step<'p> {
    /// The kernel and its grid.
    pub launch: Launch,
    /// The kernel's argument struct.
    pub args: &'p [u8],
}

impl Plan {
    /// Adds a launch.
    ///
    /// # Errors
    /// The kernel takes another struct, or the plan is full. Both are defects of the caller.
    pub fn add<A: Arguments>(&mut self, (launch, args): (Launch, A)) -> Result<(), Refused> {
        self.add_with(launch, &args, &[])
    }

    /// Adds a launch. `offsets` are the positions, in bytes, of those fields of `args` that hold an offset in
    /// the workspace.
    ///
    /// # Errors
    /// Those of [`add`](Self::add).
    pub fn add_with<A: Arguments>(
        &mut self,
        launch: Launch,
        args: &A,
        offsets: &[usize],
    ) -> Result<(), Refused> {
        if !launch.instance.takes::<A>() {
            let (symbol, wanted) = (&launch.instance.symbol, launch.instance.args);
            return Err(Refused::Because(format!("{symbol} takes {wanted}, not {}", A::name())));
        }
        let begin = self.arguments.len();
        let words = bytemuck::cast_slice(std::slice::from_ref(args));
        self.arguments.try_extend_from_slice(words).map_err(full)?;
        self.launches.try_push(launch).map_err(full)?;
        self.ends.try_push(self.arguments.len()).map_err(full)?;
        offsets.iter().try_for_each(|offset| self.offsets.try_push(begin + offset / 8).map_err(full))
    }

    /// Declares that the field of `A` at this position in bytes, in the arguments of the last launch, is the
    /// address of the counters.
    pub(crate) fn count_in<A: Arguments>(&mut self, field: usize) {
        self.counters = Some(self.arguments.len() - words::<A>() + field / 8);
    }

    /// Whether a launch uses counters.
    pub fn needs_counters(&self) -> bool {
        self.counters.is_some()
    }

    /// Fills in the addresses of the workspace and of the counters. Called once, before the launches.
    pub fn place(&mut self, workspace: u64, counters: u64) {
        for at in &self.offsets {
            self.arguments[*at] = self.arguments[*at].wrapping_add(workspace);
        }
        if let Some(at) = self.counters {
            self.arguments[at] = counters;
        }
    }

    /// The launches, in order.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = Step<'_>> {
        let mut begin = 0;
        self.launches.iter().zip(&self.ends).map(move |(launch, end)| {
            let args = bytemuck::cast_slice(&self.arguments[begin..*end]);
            begin = *end;
            Step { launch: *launch, args }
        })
    }

    /// The last launch, whose results are those of the problem; `None` in a plan without launches.
    pub fn main(&self) -> Option<&Launch> {
        self.launches.last()
    }

    /// The arguments of the launch with this number, if they are an `A`.
    pub fn args<A: Arguments>(&self, at: usize) -> Option<A> {
        let step = self.steps().nth(at).filter(|step| step.launch.instance.takes::<A>())?;
        Some(bytemuck::pod_read_unaligned(step.args))
    }
}

fn full<E>(_: E) -> Refused {
    Refused::Because(format!("a plan holds at most {MAX_STEPS} launches"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Report;
    use crate::scan::ScanArgs;
    use crate::tests::{device, view};
    use crate::{ElementType, scan, scatter};
    use std::mem::offset_of;

    /// A sum of one row that is split into parts.
    fn split() -> Plan {
        let (x, mut plan) = (view(&[1], ElementType::F32), Plan::default());
        scan::prepare("cumsum", &[1 << 20], x, x, &device(), &mut plan).expect("a kernel");
        plan
    }

    #[test]
    fn addresses_are_filled_in() {
        let mut plan = split();
        plan.count_in::<ScanArgs>(offset_of!(ScanArgs, totals));
        plan.place(1 << 30, 7);
        let args: Vec<ScanArgs> = (0..2).map(|at| plan.args(at).expect("a launch")).collect();
        assert_eq!(
            args.iter().map(|args| (args.partial, args.totals)).collect::<Vec<_>>(),
            [(1 << 30, 1), (1 << 30, 7)]
        );
    }

    #[test]
    fn a_kernel_takes_only_its_own_arguments() {
        let mut plan = split();
        let (launch, mut other) = (*plan.main().expect("a launch"), Plan::default());
        let args: ScanArgs = plan.args(0).expect("a launch");
        let copy: crate::copy::CopyArgs = bytemuck::Zeroable::zeroed();
        assert_eq!(
            other.add((launch, copy)),
            Err(Refused::Because("cumsum_rows_f32 takes ScanArgs, not CopyArgs".into()))
        );
        assert_eq!(other.steps().len(), 0);
        let more = (0..MAX_STEPS).try_for_each(|_| plan.add((launch, args)));
        assert_eq!(more, Err(Refused::Because("a plan holds at most 24 launches".into())));
    }

    #[test]
    fn the_longest_plan_fits() {
        let of = |dtype| view(&[1], dtype);
        let (x, ids, mut plan) = (of(ElementType::F16), of(ElementType::U32), Plan::default());
        let report = Report::default();
        scatter::scatter(
            ("scatter_add", true),
            &[1 << 32],
            (0, 1 << 32),
            [x, ids, x],
            report,
            &device(),
            &mut plan,
        )
        .expect("a kernel");
        assert_eq!(plan.steps().len(), MAX_STEPS);
    }
}
