//! Tensors as text.
use crate::{
    AnyMut, AnyRef, AnyTensor, DType, Element, Layout, Packing, Space, Tensor, TensorMut, TensorRef, Wide,
};
use core::fmt::{self, Formatter};

/// How many elements a text may have, and how many of each end of an axis it shows if the tensor has more.
#[derive(Clone, Copy)]
struct Limit {
    elements: usize,
    ends: usize,
}
/// `Display`, on several lines. NumPy has the same limit.
const LINES: Limit = Limit { elements: 1000, ends: 3 };
/// `Debug`, on one line.
const ONE_LINE: Limit = Limit { elements: 32, ends: 1 };

/// The largest number of digits after the decimal point.
const DECIMALS: usize = 6;
/// The longest line that `Display` writes, brackets included, if an element fits one.
const LINE: usize = 80;

/// A view to be printed.
struct Shown<'a> {
    dtype: DType,
    layout: Layout,
    packing: Option<&'static Packing>,
    /// The memory, if the host can read it.
    memory: Option<&'a [u8]>,
}

impl<'a> Shown<'a> {
    fn of<S: Space>(x: AnyRef<'a, S>) -> Self {
        Shown { dtype: x.dtype(), layout: *x.layout(), packing: x.packing(), memory: S::host(x.bytes()) }
    }

    /// The values to print; an error in words if they cannot be.
    fn values(&self, limit: Limit) -> Result<Values<'a>, String> {
        match (self.packing, self.dtype, self.memory) {
            (Some(packing), ..) => Err(format!("packed as {packing:?}")),
            (_, DType::Block(_), _) => Err(format!("blocks of {} values", self.dtype.values())),
            (.., None) => Err("not in host memory; `to_vec(&backend)` reads it".into()),
            (.., Some(memory)) => {
                let ends = (self.layout.len() > limit.elements).then_some(limit.ends);
                Ok(Values { dtype: self.dtype, layout: self.layout, memory, ends })
            }
        }
    }

    fn debug(&self, f: &mut Formatter<'_>, name: &str) -> fmt::Result {
        write!(f, "{name}<{}> {}", self.dtype, self.layout)?;
        match self.values(ONE_LINE) {
            Ok(values) => {
                f.write_str(" ")?;
                values.on_one_line(f, &mut Vec::new())
            }
            Err(_) => self.packing.map_or(Ok(()), |packing| write!(f, " packed as {packing:?}")),
        }
    }

    fn display(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.values(LINES) {
            Ok(values) => values.on_lines(f),
            Err(why) => write!(f, "{} {} ({why})", self.dtype, self.layout.shape()),
        }
    }
}

/// Values in host memory, and which of them to print.
struct Values<'a> {
    dtype: DType,
    layout: Layout,
    memory: &'a [u8],
    /// How many indices to print at each end of an axis; all of them if there are few elements.
    ends: Option<usize>,
}

impl Values<'_> {
    /// The indices of an axis to print; `None` stands for those left out.
    fn indices(&self, axis: usize) -> impl Iterator<Item = Option<usize>> + use<> {
        let extent = self.layout.dims()[axis];
        let (start, end) = match self.ends {
            Some(ends) if extent > 2 * ends => (ends, extent - ends),
            _ => (extent, extent),
        };
        let gap = (start < end).then_some(None);
        (0..start).map(Some).chain(gap).chain((end..extent).map(Some))
    }

    fn bytes(&self, index: &[usize]) -> Option<&[u8]> {
        self.memory.chunks_exact(self.dtype.size()).nth(self.layout.position(index))
    }

    /// The elements below `index`, separated by commas, each as short as it can be told from its neighbours in its type.
    fn on_one_line(&self, f: &mut Formatter<'_>, index: &mut Vec<usize>) -> fmt::Result {
        if self.layout.is_empty() {
            return f.write_str("[]");
        }
        if index.len() == self.layout.rank() {
            return f.write_str(&self.bytes(index).map_or("?".into(), |bytes| self.dtype.show(bytes)));
        }
        f.write_str("[")?;
        for (n, i) in self.indices(index.len()).enumerate() {
            f.write_str(if n == 0 { "" } else { ", " })?;
            match i {
                None => f.write_str("...")?,
                Some(i) => {
                    index.push(i);
                    self.on_one_line(f, index)?;
                    index.pop();
                }
            }
        }
        f.write_str("]")
    }

    /// The elements nested by axis and aligned.
    fn on_lines(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.layout.is_empty() {
            return f.write_str("[]");
        }
        let mut numbers = Vec::new();
        self.collect(&mut Vec::new(), &mut numbers);
        let texts = texts(self.dtype, &numbers, f.precision());
        let width = texts.iter().map(String::len).max().unwrap_or(0);
        self.nested(f, 0, width, &mut texts.iter())
    }

    /// The numbers to print, in the order in which [`nested`](Self::nested) prints them.
    fn collect(&self, index: &mut Vec<usize>, numbers: &mut Vec<Option<Wide>>) {
        if index.len() == self.layout.rank() {
            numbers.push(self.bytes(index).and_then(|bytes| self.dtype.number(bytes)));
            return;
        }
        for i in self.indices(index.len()).flatten() {
            index.push(i);
            self.collect(index, numbers);
            index.pop();
        }
    }

    fn nested<'t>(
        &self,
        f: &mut Formatter<'_>,
        axis: usize,
        width: usize,
        texts: &mut impl Iterator<Item = &'t String>,
    ) -> fmt::Result {
        let Some(inner) = self.layout.rank().checked_sub(axis + 1) else {
            return write!(f, "{:>width$}", texts.next().map_or("?", |text| text));
        };
        f.write_str("[")?;
        let indent = axis + 1;
        let mut column = indent;
        for (n, i) in self.indices(axis).enumerate() {
            let taken = if i.is_some() { width } else { 3 };
            let fits = column + 1 + taken + self.layout.rank() <= LINE;
            if n > 0 && inner > 0 {
                write!(f, "{:\n<inner$}{:indent$}", "", "")?;
            } else if n > 0 && !fits {
                write!(f, "\n{:indent$}", "")?;
                column = indent;
            } else if n > 0 {
                f.write_str(" ")?;
                column += 1;
            }
            column += taken;
            match i {
                None => f.write_str("...")?,
                Some(_) => self.nested(f, axis + 1, width, texts)?,
            }
        }
        f.write_str("]")
    }
}

/// Numbers as texts, floats with the same number of decimals: as many as the longest needs, up to [`DECIMALS`], with exponents if
/// that would leave too little of a small number or make a large one too long.
/// A caller may ask for another number of decimals.
fn texts(dtype: DType, numbers: &[Option<Wide>], decimals: Option<usize>) -> Vec<String> {
    let floats = numbers.iter().filter_map(|n| match n {
        Some(Wide::Float(v)) if v.is_finite() => Some(*v),
        _ => None,
    });
    let extreme = |v: &f64| *v != 0.0 && !(1e-4..1e8).contains(&v.abs());
    let exponents = floats.clone().any(|v| extreme(&v));
    // As short as it can be told from its neighbours in its own type.
    let shortest = |v: f64| match (dtype == DType::F64, exponents) {
        (true, false) => format!("{v}"),
        (true, true) => format!("{v:e}"),
        (false, false) => format!("{}", v as f32),
        (false, true) => format!("{:e}", v as f32),
    };
    let needed = |v| {
        let text = shortest(v);
        let mantissa = text.split('e').next().unwrap_or_default();
        mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len())
    };
    let decimals = decimals.unwrap_or_else(|| floats.map(needed).max().unwrap_or(0).clamp(1, DECIMALS));
    let text = |n: &Option<Wide>| match n {
        None => "?".into(),
        Some(Wide::Int(v)) => v.to_string(),
        Some(Wide::Float(v)) if exponents => format!("{v:.decimals$e}"),
        Some(Wide::Float(v)) => format!("{v:.decimals$}"),
    };
    numbers.iter().map(text).collect()
}

/// `Debug`: type, layout, and the values if the host can read them, on one line. `Display`: the values nested by axis.
macro_rules! as_text {
    ([$($generics:tt)*] $type:ty, $name:literal, |$x:ident| $view:expr) => {
        /// One line: type, layout, and the values if they are in host memory. Of many values it prints the ends of each axis.
        impl<$($generics)*> fmt::Debug for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                let $x = self;
                Shown::of($view).debug(f, $name)
            }
        }
        /// The values, nested by axis; the ends of each axis if there are more than 1000. Type and shape of tensors that are not in
        /// host memory, are packed, or have blocks as elements. A precision, as in `{x:.2}`, sets the number of decimals.
        impl<$($generics)*> fmt::Display for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                let $x = self;
                Shown::of($view).display(f)
            }
        }
    };
}
as_text!([S: Space, T: Element] Tensor<S, T>, "Tensor", |x| x.any());
as_text!([S: Space, T: Element] TensorRef<'_, S, T>, "TensorRef", |x| x.any());
as_text!([S: Space, T: Element] TensorMut<'_, S, T>, "TensorMut", |x| x.as_ref().any());
as_text!([S: Space] AnyTensor<S>, "AnyTensor", |x| x.as_ref());
as_text!([S: Space] AnyRef<'_, S>, "AnyRef", |x| *x);
as_text!([S: Space] AnyMut<'_, S>, "AnyMut", |x| x.as_ref());
