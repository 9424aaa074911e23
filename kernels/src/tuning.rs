//! Tuning parameters of launches: one table of defaults and per-target exceptions, with the reason for each value.
//! Measurements on a device may override them.
use crate::GfxTarget;

/// The values of all [`KNOBS`] for one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuning {
    values: [u32; KNOBS.len()],
    by_row: bool,
}

/// A tuning parameter.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// The name in files and tables.
    pub name: &'static str,
    /// The op to benchmark for this parameter.
    pub op: &'static str,
    /// What the parameter decides.
    pub what: &'static str,
    /// The default value.
    pub value: u32,
    /// Why this is the default.
    pub reason: &'static str,
    /// Values worth measuring, in ascending order. Any value from 1 up gives correct results.
    pub candidates: &'static [u32],
}

/// All tuning parameters.
pub const KNOBS: [Knob; 10] = [
    Knob {
        name: "element_blocks",
        op: "add",
        what: "maximum number of blocks of an elementwise kernel per compute unit",
        value: 32,
        reason: "blocks have 256 threads, so this is four times what is resident (8 blocks on RDNA, 8 to 10 waves per \
                 SIMD on gfx9): the last blocks finish together, and constants are loaded once for many elements",
        candidates: &[8, 16, 32, 64],
    },
    Knob {
        name: "row_blocks",
        op: "rms_norm",
        what: "maximum number of blocks of a kernel that processes rows, per compute unit",
        value: 64,
        reason: "rows cost about the same, and a block reloads the weight for each further row, so there are more \
                 blocks than for elementwise kernels",
        candidates: &[8, 16, 32, 64, 128],
    },
    Knob {
        name: "product_rows",
        op: "linear",
        what: "largest number of rows of x for which each wave computes a few columns of the weight and libraries are asked last",
        value: 8,
        reason: "the weight is read once for every four rows, while a tile of 64 rows with only 8 in use computes \
                 eight times too much; another project's kernel of this kind was 1.8 to 3.6 times as fast as rocBLAS \
                 on gfx1100",
        candidates: &[2, 4, 8, 16],
    },
    Knob {
        name: "qlinear_rows",
        op: "qlinear",
        what: "largest number of rows of x for which groups of lanes compute rows of a quantized weight",
        value: 8,
        reason: "one pass over the weight serves eight rows",
        candidates: &[2, 4, 8, 16],
    },
    Knob {
        name: "qlinear_dot_rows",
        op: "qlinear",
        what: "smallest number of rows of x for which a quantized weight uses byte dot products, four products per \
               instruction, on targets that have them",
        value: 1,
        reason: "float products need at least two instructions per value of the weight, which is all that memory bandwidth \
                 leaves time for with one row, and several times as many with more",
        candidates: &[1, 2, 3, 5, 17],
    },
    Knob {
        name: "large_tiles",
        op: "matmul",
        what: "minimum number of tiles, in percent of the compute units, for which tiles of 128 are used",
        value: 100,
        reason: "a tile of 128 reads half as much per product as a tile of 64, provided every compute unit has one",
        candidates: &[25, 50, 100, 200],
    },
    Knob {
        name: "decode_blocks",
        op: "attention",
        what: "number of blocks per compute unit that splitting the keys of few queries aims for",
        value: 4,
        reason: "the registers let 4 to 6 blocks of four rows be resident on gfx90a and gfx942",
        candidates: &[1, 2, 4, 8],
    },
    Knob {
        name: "decode_keys",
        op: "attention",
        what: "minimum number of keys per part when keys are split",
        value: 128,
        reason: "reading 32 KB each of keys and values (f16, heads of 128) takes longer than merging a part, \
                 about 500 bytes",
        candidates: &[64, 128, 256, 512],
    },
    Knob {
        name: "dot_blocks",
        op: "qlinear",
        what: "maximum number of blocks per compute unit of a product of one row by a quantized weight",
        value: 2,
        reason: "every block rounds the row separately, and registers and LDS have room for two or three",
        candidates: &[1, 2, 3, 4, 8],
    },
    Knob {
        name: "expert_rows",
        op: "linear_experts",
        what: "smallest mean number of rows of an expert for which rows are sorted by expert and multiplied in tiles",
        value: 4,
        reason: "without sorting, every row reads the matrix of its expert; a tile reads it once for up to 64 rows, but \
                 computes as much as for 64, and sorting takes two launches",
        candidates: &[2, 4, 8, 16],
    },
];

/// A value that differs from the default on some targets.
struct Exception {
    /// The target. A generic target also applies to the devices that it covers.
    target: &'static str,
    knob: &'static str,
    value: u32,
    reason: &'static str,
}

impl Exception {
    fn holds_for(&self, gfx: &str) -> bool {
        GfxTarget::find(gfx).is_some_and(|target| target.is_of(self.target))
    }
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        target: "gfx9-generic",
        knob: "decode_blocks",
        value: 2,
        reason: "256 registers per lane have room for two blocks of four rows",
    },
    Exception {
        target: "gfx10-3-generic",
        knob: "decode_blocks",
        value: 2,
        reason: "the registers let four waves be resident on each SIMD, that is two blocks of four rows per compute unit",
    },
    Exception {
        target: "gfx11-generic",
        knob: "decode_blocks",
        value: 3,
        reason: "the registers let seven waves be resident on each SIMD, that is three blocks of four rows per compute unit",
    },
    Exception { target: "gfx12-generic", knob: "decode_blocks", value: 3, reason: "as for gfx11-generic" },
];

impl Tuning {
    /// The values in the table for an architecture.
    pub fn of(gfx: &str) -> Tuning {
        let mut tuning = Tuning { values: KNOBS.map(|knob| knob.value), by_row: false };
        for exception in EXCEPTIONS.iter().filter(|e| e.holds_for(gfx)) {
            let _known = tuning.set(exception.knob, exception.value);
        }
        tuning
    }

    /// Why the table has this value for `knob` on an architecture.
    pub fn reason(gfx: &str, knob: &Knob) -> &'static str {
        let mut own = EXCEPTIONS.iter().filter(|e| e.knob == knob.name);
        own.find(|e| e.holds_for(gfx)).map_or(knob.reason, |e| e.reason)
    }

    /// The value of a knob; `None` if there is no knob with this name.
    pub fn get(&self, knob: &str) -> Option<u32> {
        KNOBS.iter().position(|k| k.name == knob).map(|at| self.values[at])
    }

    /// Sets a knob. Returns `false` if there is no knob with this name, or if `value` is 0.
    pub fn set(&mut self, knob: &str, value: u32) -> bool {
        let place = KNOBS.iter().position(|k| k.name == knob).filter(|_| value > 0);
        place.map(|at| self.values[at] = value).is_some()
    }

    /// Sets whether kernels sum each row in an order that depends only on the length of the sum: a row then
    /// has the same bits whatever other rows are in a launch.
    pub fn by_row(self, by_row: bool) -> Tuning {
        Tuning { by_row, ..self }
    }
    /// Whether kernels must sum each row in an order that depends only on the length of the sum.
    pub fn is_by_row(&self) -> bool {
        self.by_row
    }

    pub(crate) fn element_blocks(&self) -> u32 {
        self.values[0]
    }
    pub(crate) fn row_blocks(&self) -> u32 {
        self.values[1]
    }
    /// The value of `product_rows`, which providers of products use when they defer to each other.
    pub fn product_rows(&self) -> u64 {
        self.values[2].into()
    }
    pub(crate) fn qlinear_rows(&self) -> u64 {
        self.values[3].into()
    }
    pub(crate) fn qlinear_dot_rows(&self) -> u64 {
        self.values[4].into()
    }
    pub(crate) fn large_tiles(&self) -> u64 {
        self.values[5].into()
    }
    pub(crate) fn decode_blocks(&self) -> u32 {
        self.values[6]
    }
    pub(crate) fn decode_keys(&self) -> u64 {
        self.values[7].into()
    }
    pub(crate) fn dot_blocks(&self) -> u32 {
        self.values[8]
    }
    pub(crate) fn expert_rows(&self) -> u64 {
        self.values[9].into()
    }
}

impl Default for Tuning {
    /// The defaults, for an unknown architecture.
    fn default() -> Self {
        Tuning::of("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_values() {
        let mut tuning = Tuning::default();
        for (knob, value) in KNOBS.iter().zip(1000..) {
            assert!(tuning.set(knob.name, value) && knob.candidates.contains(&knob.value), "{}", knob.name);
            assert!(knob.candidates.is_sorted(), "{}", knob.name);
        }
        assert_eq!((tuning.element_blocks(), tuning.get("element_blocks")), (1000, Some(1000)));
        assert_eq!((tuning.row_blocks(), tuning.get("row_blocks")), (1001, Some(1001)));
        assert_eq!((tuning.product_rows(), tuning.get("product_rows")), (1002, Some(1002)));
        assert_eq!((tuning.qlinear_rows(), tuning.get("qlinear_rows")), (1003, Some(1003)));
        assert_eq!((tuning.qlinear_dot_rows(), tuning.get("qlinear_dot_rows")), (1004, Some(1004)));
        assert_eq!((tuning.large_tiles(), tuning.get("large_tiles")), (1005, Some(1005)));
        assert_eq!((tuning.decode_blocks(), tuning.get("decode_blocks")), (1006, Some(1006)));
        assert_eq!((tuning.decode_keys(), tuning.get("decode_keys")), (1007, Some(1007)));
        assert_eq!((tuning.dot_blocks(), tuning.get("dot_blocks")), (1008, Some(1008)));
        assert_eq!((tuning.expert_rows(), tuning.get("expert_rows")), (1009, Some(1009)));
        assert!(!tuning.set("no such knob", 1) && !tuning.set("row_blocks", 0));
        assert_eq!(tuning.get("no such knob"), None);
    }

    #[test]
    fn an_architecture_may_have_values_of_its_own() {
        assert_eq!(Tuning::of("gfx906").decode_blocks(), 2);
        assert_eq!(Tuning::of("gfx90a:xnack-").decode_blocks(), 4);
        let knob = KNOBS.iter().find(|k| k.name == "decode_blocks").unwrap();
        assert_ne!(Tuning::reason("gfx906", knob), Tuning::reason("gfx942", knob));
    }

    #[test]
    fn launches_follow_it() {
        use crate::matmul::{self, Matmul};
        use crate::{Device, ElementType, OperandView};
        let with = |knob: &str, value: u32, m: u64, n: u64| {
            let mut tuning = Tuning::default();
            assert!(tuning.set(knob, value), "{knob}");
            let device = Device { compute_units: 4, wave: 32, matrix: None, dot4: None, tuning };
            let view = |strides| OperandView { data: 0, strides, dtype: ElementType::F16 };
            let (a, b, c) = (view(&[64, 1]), view(&[1, 64]), view(&[64, 1]));
            let product = Matmul { batch: &[], m, n, k: 64, a, b, c, bias: None };
            matmul::prepare(&product, &device).unwrap().0.instance.variant
        };
        assert_eq!(with("product_rows", 8, 5, 64), "rows4");
        assert_eq!(with("product_rows", 4, 5, 64), "tile64");
        assert_eq!(with("large_tiles", 100, 256, 256), "tile128");
        assert_eq!(with("large_tiles", 101, 256, 256), "tile64");
    }
}
