//! Which collectives there are, and the checks between user data and a group.
use crate::ops::registry::Group as Types;
use crate::replay::not_recorded;
use crate::{AnyMut, AnyRef, Backend, DType, Error, IntoShape, Layout, Result, Shape, Space};
use core::fmt;

/// How [`AllReduce`](Collective::AllReduce) and [`ReduceScatter`](Collective::ReduceScatter) combine the ranks' elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum. Integers wrap.
    Sum,
    /// The maximum; NaN if any rank has NaN.
    Max,
}

impl Reduction {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
        }
    }
}

/// A call that the ranks of a group make together, without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// Every rank gets the sum or maximum over all ranks.
    AllReduce(Reduction),
    /// Every rank gets the elements of all ranks, in rank order.
    AllGather,
    /// Rank `i` gets part `i` of the sum or maximum over all ranks.
    ReduceScatter(Reduction),
    /// Every rank gets the elements of one.
    Broadcast {
        /// The rank that has them.
        root: usize,
    },
    /// Sends elements to a rank, which must call [`Recv`](Collective::Recv).
    Send {
        /// The rank that receives.
        to: usize,
    },
    /// Receives the elements that a rank sends.
    Recv {
        /// The rank that sends.
        from: usize,
    },
    /// Rank `i` gets part `i` of every rank, in rank order.
    AllToAll,
}

impl Collective {
    /// The name in messages, which is that of the method.
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllReduce(_) => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter(_) => "reduce_scatter",
            Collective::Broadcast { .. } => "broadcast",
            Collective::Send { .. } => "send",
            Collective::Recv { .. } => "recv",
            Collective::AllToAll => "all_to_all",
        }
    }
    /// How elements are combined, if they are.
    pub fn reduction(self) -> Option<Reduction> {
        match self {
            Collective::AllReduce(f) | Collective::ReduceScatter(f) => Some(f),
            _ => None,
        }
    }
    /// Whether the result depends on the order in which ranks are added up: sums of floats.
    pub fn depends_on_order(self, dtype: DType) -> bool {
        self.reduction() == Some(Reduction::Sum) && dtype.is_float()
    }
    /// The rank that `Send` and `Recv` work with.
    pub fn peer(self) -> Option<usize> {
        match self {
            Collective::Send { to: peer } | Collective::Recv { from: peer } => Some(peer),
            _ => None,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Collective::AllReduce(how) | Collective::ReduceScatter(how) => write!(f, " ({})", how.name()),
            Collective::Broadcast { root } => write!(f, " from rank {root}"),
            Collective::Send { to } => write!(f, " to rank {to}"),
            Collective::Recv { from } => write!(f, " from rank {from}"),
            Collective::AllGather | Collective::AllToAll => Ok(()),
        }
    }
}

/// What all ranks must agree on in a call: the collective, the element type, and the elements of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Announced {
    /// The collective.
    pub op: Collective,
    /// The element type.
    pub dtype: DType,
    /// Elements of a part: what a rank gives to, or gets from, one other rank.
    pub count: usize,
}

impl Announced {
    /// Whether a `Send` and a `Recv`, or two ranks' calls of another collective, belong together.
    pub fn matches(&self, other: &Announced) -> bool {
        let point_to_point = |op: Collective| op.peer().is_some();
        let same = self.op == other.op || (point_to_point(self.op) && point_to_point(other.op));
        same && (self.dtype, self.count) == (other.dtype, other.count)
    }
}

impl fmt::Display for Announced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.op, self.count, self.dtype)
    }
}

/// A collective with operands that were checked. Only this crate makes one.
///
/// Elements are contiguous. If there is no `x`, the call is in place: `y` holds this rank's elements, for
/// [`AllGather`](Collective::AllGather) in the part of this rank.
pub struct GroupCall<'x, 'y, S: Space> {
    announced: Announced,
    x: Option<AnyRef<'x, S>>,
    y: Option<AnyMut<'y, S>>,
}

impl<'x, 'y, S: Space> GroupCall<'x, 'y, S> {
    /// What the ranks must agree on.
    pub fn announced(&self) -> Announced {
        self.announced
    }
    /// The operands: what is read, and what is written.
    pub fn into_operands(self) -> (Option<AnyRef<'x, S>>, Option<AnyMut<'y, S>>) {
        (self.x, self.y)
    }

    /// Checks the operands of rank `rank` of `size`. `refused` says why a call cannot be recorded, if it cannot.
    pub(super) fn check<B: Backend<Space = S>>(
        backend: &B,
        (rank, size): (usize, usize),
        op: Collective,
        x: Option<AnyRef<'x, S>>,
        y: Option<AnyMut<'y, S>>,
        refused: impl FnOnce(Announced) -> Option<String>,
    ) -> Result<Self> {
        check_peers(op, rank, size)?;
        let places = [("x", x.as_ref().map(Place::of_ref)), ("y", y.as_ref().map(Place::of_mut))];
        check_presence(op, &places)?;
        for (operand, place) in places.iter().filter_map(|(name, place)| Some((*name, place.as_ref()?))) {
            check_place(op, operand, place)?;
        }
        let [x_place, y_place] = places.map(|(_, place)| place);
        let dtype = same_type(op, x_place.as_ref(), y_place.as_ref())?;
        let count = count(op, size, x_place.as_ref(), y_place.as_ref())?;
        let announced = Announced { op, dtype, count };
        if backend.capturing()
            && let Some(why) = refused(announced)
        {
            return Err(not_recorded(op.name(), backend.name(), why));
        }
        Ok(GroupCall { announced, x, y })
    }
}

/// An operand without its memory.
#[derive(Clone, Copy)]
struct Place {
    dtype: DType,
    layout: Layout,
    packed: bool,
}

impl Place {
    fn of_ref<S: Space>(x: &AnyRef<'_, S>) -> Place {
        Place { dtype: x.dtype(), layout: *x.layout(), packed: x.packing().is_some() }
    }
    fn of_mut<S: Space>(y: &AnyMut<'_, S>) -> Place {
        Place { dtype: y.dtype(), layout: *y.layout(), packed: false }
    }
}

fn check_peers(op: Collective, rank: usize, size: usize) -> Result<()> {
    let (param, value) = match op {
        Collective::Broadcast { root } => ("root", root),
        Collective::Send { to } => ("to", to),
        Collective::Recv { from } => ("from", from),
        _ => return Ok(()),
    };
    if value >= size {
        return Err(Error::param(op.name(), param, value, format!("a rank below {size}")));
    }
    if op.peer() == Some(rank) {
        return Err(Error::param(op.name(), param, value, format!("another rank than {rank}, which calls")));
    }
    Ok(())
}

fn check_presence(op: Collective, places: &[(&'static str, Option<Place>); 2]) -> Result<()> {
    // Whether the operand must, may or must not be given.
    let wanted = match op {
        Collective::Send { .. } => [Some(true), Some(false)],
        Collective::Broadcast { .. } | Collective::Recv { .. } => [Some(false), Some(true)],
        _ => [None, Some(true)],
    };
    for ((operand, place), wanted) in places.iter().zip(wanted) {
        let (got, want) = match (wanted, place) {
            (Some(true), None) => ("missing", "a tensor"),
            (Some(false), Some(_)) => ("given", "none"),
            _ => continue,
        };
        return Err(Error::Operand { op: op.name(), operand, got: got.into(), want: want.into() });
    }
    Ok(())
}

fn check_place(op: Collective, operand: &'static str, place: &Place) -> Result<()> {
    if place.packed {
        let want = "plain elements; send the weight before pack_weight".into();
        return Err(Error::Operand { op: op.name(), operand, got: "packed".into(), want });
    }
    if !place.layout.is_contiguous() {
        let want = "contiguous elements; copy it first (copy_of)";
        return Err(Error::shape(op.name(), operand, &place.layout, want));
    }
    if op.reduction().is_some() && !Types::Numbers.members().contains(&place.dtype) {
        let want = "a number type with sums: u8 i8 i16 i32 i64 u32 f16 bf16 f32 f64";
        return Err(Error::DType { op: op.name(), operand, got: place.dtype, want });
    }
    Ok(())
}

fn same_type(op: Collective, x: Option<&Place>, y: Option<&Place>) -> Result<DType> {
    match (x, y) {
        (Some(x), Some(y)) if x.dtype != y.dtype => {
            Err(Error::DType { op: op.name(), operand: "y", got: y.dtype, want: "the element type of x" })
        }
        (Some(place), _) | (None, Some(place)) => Ok(place.dtype),
        (None, None) => unreachable!("every collective has an operand, and its presence was checked"),
    }
}

/// Elements of a part, if the shapes follow the collective's rule.
fn count(op: Collective, size: usize, x: Option<&Place>, y: Option<&Place>) -> Result<usize> {
    let whole = match (op, x, y) {
        (Collective::AllGather, Some(x), Some(y)) => {
            let want = gathered(x.layout.shape(), size)?;
            return same_shape(op, y, want).map(|()| x.layout.len());
        }
        (Collective::ReduceScatter(_), Some(x), Some(y)) => {
            let want = part(op, "x", &x.layout, size)?;
            return same_shape(op, y, want).map(|()| y.layout.len());
        }
        (_, Some(x), Some(y)) => {
            same_shape(op, y, x.layout.shape())?;
            x
        }
        (_, Some(place), None) | (_, None, Some(place)) => place,
        (_, None, None) => unreachable!("every collective has an operand, and its presence was checked"),
    };
    match op {
        Collective::AllGather | Collective::ReduceScatter(_) | Collective::AllToAll => {
            part(op, if x.is_some() { "x" } else { "y" }, &whole.layout, size).map(|shape| shape.len())
        }
        _ => Ok(whole.layout.len()),
    }
}

fn same_shape(op: Collective, y: &Place, want: Shape) -> Result<()> {
    if y.layout.shape() == want {
        return Ok(());
    }
    Err(Error::shape(op.name(), "y", &y.layout, format!("{want}")))
}

/// The extents of `size` tensors of these extents, one after the other along the first axis.
pub(super) fn gathered(shape: Shape, size: usize) -> Result<Shape> {
    let mut dims = shape.dims().to_vec();
    match dims.first_mut() {
        Some(first) => *first = first.saturating_mul(size),
        None => dims.push(size),
    }
    dims.into_shape()
}

/// The extents of one of `size` parts along the first axis.
pub(super) fn part(op: Collective, operand: &'static str, layout: &Layout, size: usize) -> Result<Shape> {
    let mut dims = layout.dims().to_vec();
    match dims.first_mut() {
        Some(first) if first.is_multiple_of(size) => *first /= size,
        _ => {
            let want = format!("a first extent that is a multiple of {size}, the number of ranks");
            return Err(Error::shape(op.name(), operand, layout, want));
        }
    }
    dims.into_shape()
}
