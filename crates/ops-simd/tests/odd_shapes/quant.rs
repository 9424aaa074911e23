use super::calls::{Calls, calls};
use super::guarded::Guarded;
use half::bf16;
use ops_simd::Isa;
use ops_simd::gemm::MatMut;
use ops_simd::quant::{
    self, Activations, BLOCK, Format, LookupFormat, Outliers, SUPER_BLOCK, Sums, SuperFormat, TILE_ROWS,
    TileFormat, Tiles, Weight,
};

/// Memory of a result with about this many rows and columns.
struct Output {
    data: Guarded<f32>,
    rows: usize,
    cols: usize,
}

impl Output {
    fn new(c: &mut Calls, rows: usize, cols: usize) -> Self {
        let (rows, cols) = (c.near(rows), c.near(cols));
        Output { data: Guarded::new(rows * cols, || 0.0), rows, cols }
    }
    fn mat(&mut self) -> MatMut<'_, f32> {
        MatMut::new(&mut self.data, self.rows, self.cols, self.cols).unwrap()
    }
}

/// About `m` rows of about `k` numbers, if they can be quantized.
fn activations(c: &mut Calls, isa: Isa, m: usize, k: usize) -> Option<Activations> {
    let (x, k) = (c.floats::<f32>(m * k), c.number(k));
    c.saw("Activations::new", Activations::new(isa, &x, k))
}

#[test]
fn activations_of_any_shape() {
    calls(300, |c, isa| {
        let (m, k) = (c.pick(&[0, 1, 2, 3, 7, 8, 9, 17]), c.multiple(BLOCK));
        let Some(mut x) = activations(c, isa, m, k) else { return };
        let picked = c.places(m, m);
        let mut some = Activations::default();
        c.saw("gather", some.gather(&x, &picked));
        let (rows, k, each) = (c.near(m), c.pick(&[k, k, k, 5]), c.number(4));
        let numbers = c.floats::<bf16>(m * k);
        let Some(parts) = c.saw("parts", x.parts(rows, k, each)) else { return };
        for part in parts {
            c.saw("ActivationsPart::quantize", part.quantize(isa, &numbers, Outliers::SetAside));
        }
    });
}

#[test]
fn blocks_and_tiles() {
    calls(300, |c, isa| {
        let (m, n, k) = (c.pick(&[0, 1, 2, 3, 8, 13, 33]), c.extent(), c.multiple(BLOCK));
        let Some(x) = activations(c, isa, m, k) else { return };
        let format = c.pick(&[TileFormat::Q8_0, TileFormat::Q4_0]);
        let raw = c.bytes(n * k / BLOCK * format.block_bytes());
        let mut y = Output::new(c, m, n);
        c.saw("multiply_rows", quant::multiply_rows(isa, format, &raw, &x, y.mat()));
        c.saw("multiply_rows_by_row", quant::multiply_rows_by_row(isa, format, &raw, &x, y.mat()));
        c.saw("reference::multiply", quant::reference::multiply(format, &raw, n, &x));
        if x.rows() > 0 {
            c.saw("reference::dot", quant::reference::dot(format, &raw, &x, 0));
        }
        let (rows, columns) = (c.number(n), c.number(k));
        let ours = c.saw("Tiles::new", Tiles::new(format, &raw, n, k));
        let mut memory = c.bytes(Tiles::size(format, n, k));
        c.saw("Tiles::pack_into", Tiles::pack_into(format, &raw, n, k, &mut memory));
        let borrowed = c.saw("Tiles::from_bytes", Tiles::from_bytes(format, rows, columns, &memory));
        for tiles in [ours, borrowed].into_iter().flatten().filter(|tiles| tiles.rows() < 1000) {
            let mut blocks = c.bytes(n * k / BLOCK * format.block_bytes());
            c.saw("unpack", tiles.unpack(&mut blocks));
            let (start, end) = (c.pick(&[0, 0, 1, tiles.count()]), c.number(tiles.count()));
            let columns = tiles.rows().saturating_sub(start * TILE_ROWS);
            let mut y = Output::new(c, m, columns);
            c.saw("multiply_tiles", quant::multiply_tiles(isa, &tiles, start..end, &x, y.mat()));
        }
    });
}

#[test]
fn an_empty_range_of_tiles_has_no_columns() {
    let tiles = Tiles::new(TileFormat::Q4_0, &[0; 17 * 18], 17, BLOCK).unwrap();
    let x = Activations::new(Isa::best(), &[1.0f32; BLOCK], BLOCK).unwrap();
    for at in 0..=tiles.count() {
        let y = MatMut::new(&mut [], 1, 0, 0).unwrap();
        assert_eq!(quant::multiply_tiles(Isa::best(), &tiles, at..at, &x, y), Ok(()));
    }
}

#[test]
fn formats_in_file_order() {
    calls(150, |c, isa| {
        let m = c.pick(&[0, 1, 2, 3, 8, 9, 33]);
        let n = c.extent();
        for format in Format::ALL {
            let (values, bytes) = format.block();
            let k = c.multiple(values);
            let Some(x) = activations(c, isa, m, k) else { continue };
            let (raw, mut y) = (c.bytes(n * k / values * bytes), Output::new(c, m, n));
            c.saw("multiply_codes", quant::multiply_codes(isa, format, &raw, &x, y.mat()));
            let (format, sums) = (c.pick(&[Some(format), None]), c.pick(&[Sums::Any, Sums::ByRow]));
            let weight = Weight { raw: &raw, format, decode: &|_, y| y.fill(1.0) };
            c.saw("multiply", quant::multiply(isa, weight, &x, sums, y.mat()));
        }
        for format in [SuperFormat::Q4K, SuperFormat::Q5K, SuperFormat::Q6K, SuperFormat::Iq4Xs] {
            let k = c.multiple(SUPER_BLOCK);
            let Some(x) = activations(c, isa, m, k) else { continue };
            let (raw, mut y) = (c.bytes(n * k / SUPER_BLOCK * format.block_bytes()), Output::new(c, m, n));
            c.saw("multiply_super_rows", quant::multiply_super_rows(isa, format, &raw, &x, y.mat()));
        }
        for (format, bytes) in [(LookupFormat::Iq4Nl, 18), (LookupFormat::Mxfp4, 17)] {
            let k = c.multiple(BLOCK);
            let Some(x) = activations(c, isa, m, k) else { continue };
            let (raw, mut y) = (c.bytes(n * k / BLOCK * bytes), Output::new(c, m, n));
            c.saw("multiply_lookup_rows", quant::multiply_lookup_rows(isa, format, &raw, &x, y.mat()));
        }
        let k = c.multiple(BLOCK);
        let (x, mut out) = (c.floats::<f32>(k), c.bytes(k / BLOCK * 34));
        c.saw("requantize", quant::requantize(isa, &x, &mut out));
    });
}
