//! Errors name the op that was called and its operand, not an op or a view that it uses.
use crate::defects::{Any, on_all};
use rocm_ops::model::{CacheRotation, KvCache, PagedCache, WindowCache};
use rocm_ops::ops::*;
use rocm_ops::quant::Q8_0;
use rocm_ops::{AnyOf, Backend, DType, Result, TensorOf};

/// How a message begins, and the result of the wrong call.
type Wrong = (String, Result<()>);

fn wrong<R>(begin: &str, result: Result<R>) -> Wrong {
    (begin.to_owned(), result.map(drop))
}

fn zeros(b: &Any, dims: &[usize]) -> TensorOf<Any, f32> {
    b.zeros(dims).unwrap()
}

fn of_broadcasts(b: &Any) -> Vec<Wrong> {
    let (x, four, mut y) = (zeros(b, &[2, 3]), zeros(b, &[4]), zeros(b, &[2, 4]));
    let mut all = Vec::new();
    for f in BinaryFn::ALL {
        all.push(wrong(&format!("{}: a and b: ", f.name()), b.binary(&x, &four, f)));
        all.push(wrong(&format!("{}: a: ", f.name()), b.binary_into(&x, &four, &mut y, f)));
        all.push(wrong(&format!("{}: b: ", f.name()), b.binary_into(&four, &x, &mut y, f)));
    }
    let mut flags = b.zeros::<u8>(&[2, 4]).unwrap();
    for f in CompareFn::ALL {
        all.push(wrong(&format!("{}: a and b: ", f.name()), b.compare(&x, &four, f)));
        all.push(wrong(&format!("{}: a: ", f.name()), b.compare_into(&x, &four, &mut flags, f)));
        all.push(wrong(&format!("{}: b: ", f.name()), b.compare_into(&four, &x, &mut flags, f)));
    }
    let integers = |dims: &[usize]| b.zeros::<i32>(dims).unwrap();
    let (n, fours, mut bits) = (integers(&[2, 3]), integers(&[4]), integers(&[2, 4]));
    for f in BitwiseFn::ALL {
        all.push(wrong(&format!("{}: a and b: ", f.name()), b.bitwise(&n, &fours, f)));
        all.push(wrong(&format!("{}: a: ", f.name()), b.bitwise_into(&n, &fours, &mut bits, f)));
        all.push(wrong(&format!("{}: b: ", f.name()), b.bitwise_into(&fours, &n, &mut bits, f)));
    }
    let yes = b.zeros::<u8>(&[5]).unwrap();
    let matrices = zeros(b, &[2, 3, 3]);
    let mask = zeros(b, &[5, 5]);
    let q = zeros(b, &[1, 1, 2, 8]);
    all.extend([
        wrong("where: on_true and on_false: ", b.where_(&yes, &x, &four)),
        wrong("where: cond: ", b.where_(&yes, &x, &x)),
        wrong("where: cond: ", b.where_into(&yes, &four, &four, &mut y)),
        wrong("where: on_true: ", b.where_into(&flags, &x, &four, &mut y)),
        wrong("where: on_false: ", b.where_into(&flags, &four, &x, &mut y)),
        wrong("matmul: a and b: ", b.matmul(zeros(b, &[4, 3, 3]), &matrices)),
        wrong("matmul: a: ", b.matmul_into(&matrices, &matrices, &mut zeros(b, &[4, 3, 3]))),
        wrong("matmul: b: ", b.matmul_into(zeros(b, &[3, 3]), &matrices, &mut zeros(b, &[4, 3, 3]))),
        wrong("matmul: a has ", b.matmul_into(&four, &matrices, &mut zeros(b, &[4, 3, 3]))),
        wrong("matmul: c has ", b.matmul_into(&matrices, &matrices, &mut zeros(b, &[3]))),
        wrong("attention: mask: ", {
            let extras = AttentionExtras::new().mask(mask.any());
            b.attention_with(&q, &q, &q, extras, Attention::full())
        }),
    ]);
    all
}

fn of_axes(b: &Any) -> Vec<Wrong> {
    let (x, ids, one) = (zeros(b, &[2, 3]), b.zeros::<u32>(&[2, 3]).unwrap(), b.zeros::<u32>(&[1]).unwrap());
    let mut dst = zeros(b, &[2, 3]);
    let reductions = ReduceFn::ALL.into_iter().map(|f| {
        let result = match f {
            ReduceFn::Sum => b.sum(&x, 2),
            ReduceFn::Mean => b.mean(&x, 2),
            ReduceFn::Max => b.max(&x, 2),
            ReduceFn::Min => b.min(&x, 2),
            _ => b.prod(&x, 2),
        };
        wrong(&format!("{}: x: axis 2 ", f.name()), result)
    });
    let mut all: Vec<Wrong> = reductions.collect();
    all.extend([
        wrong("softmax: x: axis 2 ", b.softmax(&x, Softmax::axis(2))),
        wrong("log_softmax: x: axis -3 ", b.softmax(&x, Softmax::axis(-3).log())),
        wrong("cumsum: x: axis 2 ", b.cumsum(&x, 2)),
        wrong("cumprod: x: axis -3 ", b.cumprod(&x, -3)),
        wrong("argmax: x: axis 2 ", b.argmax(&x, 2)),
        wrong("argmin: x: axis 2 ", b.argmin(&x, 2)),
        wrong("sort: x: axis 2 ", b.sort(&x, Sort::axis(2))),
        wrong("argsort: x: axis 2 ", b.argsort(&x, ArgSort::axis(2))),
        wrong("topk: x: axis ", b.topk(zeros(b, &[]), 1)),
        wrong("index_select: x: axis 2 ", b.index_select(&x, &one, IndexSelect::axis(2))),
        wrong("gather: x: axis 2 ", b.gather(&x, &ids, Gather::axis(2))),
        wrong("scatter: dst: axis 2 ", b.scatter(&mut dst, &ids, &x, Scatter::axis(2))),
        wrong("scatter_add: dst: axis 2 ", b.scatter_add(&mut dst, &ids, &x, ScatterAdd::axis(2))),
        wrong("index_add: dst: axis 2 ", b.index_add(&mut dst, &one, &x, IndexAdd::axis(2))),
    ]);
    all
}

/// Views that no op makes name themselves.
fn of_views(b: &Any) -> Vec<Wrong> {
    let x = zeros(b, &[2, 3]);
    let x = x.as_ref();
    vec![
        wrong("narrow: axis 2 ", x.narrow(2, 0, 1)),
        wrong("cannot narrow [2, 3]: axis 1 ", x.narrow(1, 2, 2)),
        wrong("transpose: axis -3 ", x.transpose(0, -3)),
        wrong("cannot permute [2, 3]: ", x.permute(&[0, 0])),
        wrong("cannot reshape [2, 3]: ", x.reshape(&[5])),
        wrong("squeeze: axis 2 ", x.squeeze(2)),
        wrong("cannot squeeze [2, 3]: ", x.squeeze(0)),
        wrong("unsqueeze: axis 4 ", x.unsqueeze(4)),
        wrong("split_at: axis 2 ", x.split_at(2, 0)),
        wrong("cannot split_at [2, 3]: ", x.split_at(0, 3)),
    ]
}

fn of_indices(b: &Any) -> Vec<Wrong> {
    let outside = b.tensor(&[2], &[1u32, 9]).unwrap();
    let rows = zeros(b, &[3, 32]);
    let blocks = b.quantize(&rows, DType::Block(&Q8_0)).unwrap();
    let weight = b.quantize(zeros(b, &[2, 4, 32]), DType::Block(&Q8_0)).unwrap();
    let tables: [AnyOf<Any>; 3] = [
        b.zeros::<f32>(&[3, 32]).unwrap().into(),
        b.zeros::<rocm_ops::f16>(&[3, 32]).unwrap().into(),
        blocks,
    ];
    let of_table = |table: &AnyOf<Any>| {
        let looked_up = b.embedding::<f32>(table, &outside);
        wrong("embedding: ids holds 9 at position 1", looked_up.and_then(|_| b.synchronize()))
    };
    let mut all: Vec<Wrong> = tables.iter().map(of_table).collect();
    let (ids, x) = (b.tensor(&[1, 2], &[1u32, 9]).unwrap(), zeros(b, &[1, 1, 32]));
    let multiplied = b.linear_experts(&x, &weight, &ids, None);
    all.push(wrong("linear_experts: ids holds 9 ", multiplied.and_then(|_| b.synchronize())));
    all.push(wrong("linear: weight has ", b.linear(&rows, &weight)));
    all
}

fn of_caches(b: &Any) -> Vec<Wrong> {
    let mut kv = KvCache::<_, f32>::new(b, [1, 2, 4, 8]).unwrap();
    let mut latent = KvCache::<_, f32>::latent(b, [1, 2, 4, 8], 4).unwrap();
    let mut paged = PagedCache::<_, f32>::new(b, [2, 4, 2, 8]).unwrap();
    let mut keys_only = PagedCache::<_, f32>::latent(b, [2, 4, 2, 8], 4).unwrap();
    let mut window = WindowCache::<_, f32>::new(b, [1, 2, 8], 3, 2).unwrap();
    let mut window_of_keys = WindowCache::<_, f32>::latent(b, [1, 2, 8], 4, 3, 2).unwrap();
    // For caches with heads before tokens, and after them.
    let (good, narrow, long) = (zeros(b, &[1, 2, 1, 8]), zeros(b, &[1, 2, 1, 7]), zeros(b, &[1, 2, 5, 8]));
    let (row, narrow_row, rows) = (zeros(b, &[1, 2, 8]), zeros(b, &[1, 2, 7]), zeros(b, &[5, 2, 8]));
    let (good, narrow, long) = (good.as_ref(), narrow.as_ref(), long.as_ref());
    let (row, narrow_row, rows) = (row.as_ref(), narrow_row.as_ref(), rows.as_ref());
    let (tables, numbers) = (zeros(b, &[9, 4]), b.zeros::<u32>(&[1]).unwrap());
    let floats = zeros(b, &[1]);
    let rotation = CacheRotation {
        cos: tables.any(),
        sin: tables.any(),
        positions: numbers.any(),
        slots: numbers.any(),
        order: RopeOrder::Half,
        norm: None,
    };
    let of_floats = CacheRotation { positions: floats.any(), ..rotation };
    let wide = zeros(b, &[9, 5]);
    let wide = CacheRotation { cos: wide.any(), sin: wide.any(), ..rotation };
    let normed = CacheRotation { norm: Some((tables.any(), 1e-5)), ..rotation };
    vec![
        wrong("KvCache::append: keys ", kv.append(b, narrow, good)),
        wrong("KvCache::append: keys ", kv.append(b, long, long)),
        wrong("KvCache::append: values ", kv.append(b, good, narrow)),
        wrong("KvCache::append: values ", latent.append(b, good, good)),
        wrong("KvCache::append_keys: keys ", latent.append_keys(b, narrow)),
        wrong("KvCache::append_keys: keys ", latent.append_keys(b, long)),
        wrong("KvCache::append_keys: values ", kv.append_keys(b, good)),
        wrong("KvCache::append_rotated: keys ", kv.append_rotated(b, None, narrow_row, row, rotation)),
        wrong("KvCache::append_rotated: keys ", kv.append_rotated(b, None, rows, rows, rotation)),
        wrong("KvCache::append_rotated: values ", kv.append_rotated(b, None, row, narrow_row, rotation)),
        wrong("KvCache::append_rotated: positions ", kv.append_rotated(b, None, row, row, of_floats)),
        wrong("KvCache::append_rotated: cos ", kv.append_rotated(b, None, row, row, wide)),
        wrong("KvCache::append_rotated: weight ", kv.append_rotated(b, None, row, row, normed)),
        wrong("KvCache::append_rotated: cache ", latent.append_rotated(b, None, row, row, rotation)),
        wrong("PagedCache::write: keys ", paged.write(b, narrow_row, row, &numbers)),
        wrong("PagedCache::write: values ", paged.write(b, row, narrow_row, &numbers)),
        wrong("PagedCache::write: slots ", paged.write(b, row, row, &floats)),
        wrong("PagedCache::write: values ", keys_only.write(b, row, row, &numbers)),
        wrong("PagedCache::write_keys: keys ", keys_only.write_keys(b, narrow_row, &numbers)),
        wrong("PagedCache::write_keys: slots ", keys_only.write_keys(b, row, &floats)),
        wrong("PagedCache::write_rotated: keys ", paged.write_rotated(b, None, narrow_row, row, rotation)),
        wrong("PagedCache::write_rotated: positions ", paged.write_rotated(b, None, row, row, of_floats)),
        wrong("PagedCache::copy_blocks: copies ", paged.copy_blocks(b, &[(0, 2)])),
        wrong("WindowCache::append: keys ", window.append(b, narrow, good)),
        wrong("WindowCache::append: keys ", window.append(b, long, long)),
        wrong("WindowCache::append: values ", window.append(b, good, narrow)),
        wrong("WindowCache::append: values ", window_of_keys.append(b, good, good)),
        wrong("WindowCache::append_keys: keys ", window_of_keys.append_keys(b, narrow)),
        wrong("WindowCache::append_keys: values ", window.append_keys(b, good)),
    ]
}

#[test]
fn errors_name_the_op_that_was_called_and_its_operand() {
    on_all("messages::errors_name_the_op_that_was_called_and_its_operand", |b| {
        for (begin, result) in
            [of_broadcasts, of_axes, of_views, of_indices, of_caches].into_iter().flat_map(|of| of(b))
        {
            let error = result.expect_err(&begin).to_string();
            assert!(error.starts_with(&begin), "on {}: {error:?}, wanted {begin:?}", b.name());
        }
    });
}
