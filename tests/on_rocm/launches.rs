//! The kernels of a decode step, counted by name.
use ops_tests::bundled::path;
use ops_tests::{model, quantized};
use rocm_ops::gguf::Gguf;
use rocm_ops::models::Decoder;
use rocm_ops::{Float, Rocm, f16};
use standin_testing::{Standin, with_standin};
use std::collections::BTreeMap;

/// Maximum number of launches per layer of the bundled llama.
const MOST: u64 = 5;

/// The functions with which libraries multiply; their kernels have no names here.
const PRODUCTS: [&str; 3] = ["rocblas_gemm_ex", "rocblas_gemm_strided_batched_ex", "hipblasLtMatmul"];

/// How often each kernel, and each product of a library, has run so far.
fn launches(standin: &Standin) -> BTreeMap<&'static str, u64> {
    let kernels = ops_kernels::instances().iter().map(|k| k.symbol.as_str());
    let kernels = kernels.map(|symbol| (symbol, standin.count(&format!("kernel {symbol}"))));
    let products = PRODUCTS.map(|name| (name, standin.count(name)));
    kernels.chain(products).filter(|(_, n)| *n > 0).collect()
}

/// The launches of a decode step by kernel, and the number of layers.
fn of_a_step<T: Float>(standin: &Standin, gguf: &Gguf) -> (BTreeMap<&'static str, u64>, u64) {
    let (rocm, prompt) = (Rocm::new().unwrap(), [1, 2, 3]);
    let decoder = Decoder::<T, Rocm>::load(&rocm, gguf, prompt.len() + 2).unwrap();
    let mut state = decoder.state(&rocm, prompt.len() + 2).unwrap();
    decoder.forward(&rocm, &mut state, &prompt).unwrap();
    let before = launches(standin);
    decoder.forward(&rocm, &mut state, &[4]).unwrap();
    let made = launches(standin).into_iter().map(|(name, n)| (name, n - before.get(name).unwrap_or(&0)));
    (made.collect(), decoder.config().layers as u64)
}

/// The launches of one layer in a decode step, by kernel.
fn of_a_layer<T: Float>(standin: &Standin, dtype: &str) -> BTreeMap<&'static str, u64> {
    let (made, layers) = of_a_step::<T>(standin, &model(dtype));
    // Launches before and after the layers are fewer than there are layers.
    made.into_iter().map(|(name, n)| (name, n / layers)).filter(|(_, n)| *n > 0).collect()
}

/// Checks a layer's launches by op: the products, which `product` stands for, and the ops between them.
fn check<T: Float>(standin: &Standin, dtype: &str, product: &str) {
    let made = of_a_layer::<T>(standin, dtype);
    let total: u64 = made.values().sum();
    println!("{dtype} in {}: {total} launches a layer: {made:?}", T::DTYPE);
    assert!(total <= MOST, "{dtype} in {}: {total} launches a layer: {made:?}", T::DTYPE);
    let mut by_op = BTreeMap::new();
    for (symbol, n) in &made {
        let op = ops_kernels::by_symbol(symbol).map_or(*symbol, |kernel| kernel.op);
        *by_op.entry(op).or_insert(0) += n;
    }
    // One kernel for blocks computes a gated unit with or without a norm; for floats, there are two.
    let blocks = product == "qlinear";
    let wanted = [
        // Query, key and value in one product, with the norm before it, rotated and written to the caches.
        ("rms_norm_linear_rope_cache_write", 1),
        ("attention", 1),
        // The output of attention, added to the stream.
        (product, 1),
        // With the norm before it.
        (if blocks { "linear_swiglu" } else { "rms_norm_linear_swiglu" }, 1),
        // Down, added to the stream.
        (product, 1),
    ];
    let mut by_name = BTreeMap::new();
    wanted.into_iter().for_each(|(op, n)| *by_name.entry(op).or_insert(0) += n);
    assert_eq!(by_op, by_name, "{dtype} in {}: {made:?}", T::DTYPE);
}

#[test]
fn a_layer_of_a_decode_step_takes_five_launches() {
    with_standin("launches::a_layer_of_a_decode_step_takes_five_launches", &[], |standin| {
        check::<f16>(standin, "f16", "matmul");
        check::<f32>(standin, "f16", "matmul");
        check::<f32>(standin, "q8_0", "qlinear");
        check::<f16>(standin, "q4_0", "qlinear");
    });
}

/// Q4_K_M files store the values of some layers in another type than queries and keys.
#[test]
fn queries_and_keys_are_one_product_where_values_have_another_type() {
    with_standin(
        "launches::queries_and_keys_are_one_product_where_values_have_another_type",
        &[],
        |standin| {
            let gguf = Gguf::from_bytes(quantized(&path("f16"), "q4_k_m")).unwrap();
            let kind = |layer: u64, name: &str| {
                gguf.tensor(&format!("blk.{layer}.{name}.weight")).unwrap().ggml_type()
            };
            let (made, layers) = of_a_step::<f32>(standin, &gguf);
            let apart =
                (0..layers).filter(|layer| kind(*layer, "attn_v") != kind(*layer, "attn_k")).count() as u64;
            assert!((1..layers).contains(&apart), "{apart} of {layers}");
            let products = made.iter().filter(|(symbol, _)| {
                ops_kernels::by_symbol(symbol).is_some_and(|kernel| kernel.op == "qlinear")
            });
            // The output of attention; down; and the logits.
            assert_eq!(products.map(|(_, n)| n).sum::<u64>(), 2 * layers + 1, "{made:?}");
            let projections =
                made.iter().filter(|(symbol, _)| symbol.starts_with("rms_norm_linear_rope_cache_write"));
            assert_eq!(projections.map(|(_, n)| n).sum::<u64>(), layers + apart, "{made:?}");
            // No kernel only rotates or writes.
            let rotations =
                made.iter().filter(|(symbol, _)| symbol.starts_with("rope_") || symbol.starts_with("cache_"));
            assert_eq!(rotations.map(|(_, n)| n).sum::<u64>(), 0, "{made:?}");
        },
    );
}

/// Queries and keys are normed in the launch that rotates them.
#[test]
fn a_layer_with_norms_of_heads_takes_six_launches() {
    with_standin("launches::a_layer_with_norms_of_heads_takes_six_launches", &[], |standin| {
        let file = format!("{}/data/families/qwen3-f16.gguf", env!("CARGO_MANIFEST_DIR"));
        let (made, layers) = of_a_step::<f16>(standin, &Gguf::open(file).unwrap());
        let of_each: u64 = made.values().map(|n| n / layers).sum();
        // Before and after the layers: the embedding, the norm, the logits and their type.
        assert_eq!((of_each, made.values().sum::<u64>()), (6, 6 * layers + 4), "{made:?}");
    });
}

/// Linear attention takes eleven: the projections, which are of one type; the convolution; the norm of queries and keys; five for the decay and
/// the share of new values; the update of the states; the norm of the result; and the product that is added to the stream. Attention
/// with a gate of its result takes seven.
#[test]
fn layers_of_qwen35_take_as_many_launches_as_the_docs_say() {
    with_standin("launches::layers_of_qwen35_take_as_many_launches_as_the_docs_say", &[], |standin| {
        // Before and after the layers: the embedding, the logits and their type; the last norm, unless the addition before it makes it.
        for (name, of_feed_forward, others) in [("qwen3_5", 2, 4), ("qwen3_5_moe", 12, 3)] {
            let file = format!("{}/data/families/{name}-f16.gguf", env!("CARGO_MANIFEST_DIR"));
            let gguf = Gguf::open(file).unwrap();
            let (made, layers) = of_a_step::<f16>(standin, &gguf);
            let recurrent = made["conv1d_update_f16"];
            assert!((1..layers).contains(&recurrent), "{recurrent} of {layers}");
            let wanted = recurrent * 11 + (layers - recurrent) * 7 + layers * of_feed_forward + others;
            assert_eq!(made.values().sum::<u64>(), wanted, "{name}: {made:?}");
        }
    });
}

/// From routing to the sum of the experts, a decode step takes four launches: the router's product, the top experts, the gated unit, and the
/// weighted sum. With quantized weights, only the gated unit is checked: the down projections of gpt-oss in this folder have fewer than 64
/// outputs.
#[test]
fn experts_take_four_launches() {
    with_standin("launches::experts_take_four_launches", &[], |standin| {
        const QWEN: [&str; 4] = [
            "matmul_rows1_f16_f32",
            "router_topk_f16",
            "linear_experts_swiglu_f16",
            "linear_experts_combine_f16",
        ];
        const GPT_OSS: [&str; 3] = ["matmul_rows1_f16_f32", "router_topk_f16", "linear_experts_swiglu_mxfp4"];
        for (name, kernels) in [("qwen3moe-f16", &QWEN[..]), ("gpt-oss-MXFP4", &GPT_OSS)] {
            let file = format!("{}/data/families/{name}.gguf", env!("CARGO_MANIFEST_DIR"));
            let (made, layers) = of_a_step::<f16>(standin, &Gguf::open(file).unwrap());
            for kernel in kernels {
                assert_eq!(made.get(kernel), Some(&layers), "{name}: {kernel}: {made:?}");
            }
            let parts =
                ["linear_experts_split", "linear_experts_f16_f32", "swiglu_f16", "swiglu_clamped_f16"];
            let apart: u64 = parts.iter().filter_map(|part| made.get(part)).sum();
            assert_eq!(apart, 0, "{name}: {made:?}");
        }
    });
}
