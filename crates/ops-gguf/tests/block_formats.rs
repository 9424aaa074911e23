//! Files with tensors of every block format.

use ops_core::ops::{LinearMethods, QuantMethods};
use ops_core::{Backend, quant};
use ops_cpu::Cpu;
use ops_gguf::{GgmlType, Gguf, Weights, Writer};

/// A file with one matrix `w` of `rows` rows of two blocks, all of these bytes.
fn file(ty: GgmlType, bytes: u8) -> Gguf {
    let block = ty.block().expect("a type with a size");
    let mut writer = Writer::new();
    writer.tensor("w", ty, &[3, 2 * block.len]).unwrap();
    let mut body = writer.write_to(Vec::new()).unwrap();
    body.write("w", &vec![bytes; 6 * block.bytes]).unwrap();
    Gguf::from_bytes(body.finish().unwrap()).unwrap()
}

#[test]
fn every_format_is_read_decoded_and_multiplied() {
    let cpu = Cpu::new();
    for format in quant::FORMATS {
        let name = format.name();
        let ty = GgmlType::from_name(name).unwrap_or_else(|| panic!("{name} has no number"));
        let block = ty.block().unwrap();
        assert_eq!((block.len, block.bytes), (format.values(), format.bytes()), "{name}");
        // 0x33 is an ordinary number in every type of scale.
        let gguf = file(ty, 0x33);
        let w = Weights::new(&cpu, &gguf).packed::<f32>("w", [3, 2 * block.len]).unwrap();
        assert_eq!(w.dtype().name(), name);
        let mut values = vec![0.0; block.len];
        format.decode(&vec![0x33; block.bytes], &mut values);
        assert!(
            values.iter().all(|v| v.is_finite()) && values.iter().any(|v| *v != 0.0),
            "{name}: {values:?}"
        );
        if w.packing().is_none() {
            assert_eq!(cpu.dequantize(&w).unwrap().to_vec(&cpu).unwrap(), values.repeat(6), "{name}");
        }
        let x = cpu.tensor(&[1, 2 * block.len], &vec![1.0f32; 2 * block.len]).unwrap();
        let (sum, size) =
            (2.0 * values.iter().sum::<f32>(), 2.0 * values.iter().map(|v| v.abs()).sum::<f32>());
        for y in cpu.linear(&x, &w).unwrap().to_vec(&cpu).unwrap() {
            assert!((y - sum).abs() <= 1e-4 * size, "{name}: {y}, wanted {sum}");
        }
    }
}

#[test]
fn other_types_are_errors_that_name_them() {
    let cpu = Cpu::new();
    let known: Vec<&str> = quant::FORMATS.iter().map(|format| format.name()).collect();
    let others =
        GgmlType::all().filter(|ty| ty.is_quantized() && !known.contains(&ty.name().unwrap_or_default()));
    let others: Vec<GgmlType> = others.collect();
    assert!(others.contains(&GgmlType::TQ1_0) && others.contains(&GgmlType::IQ1_S), "{others:?}");
    for ty in others {
        let gguf = file(ty, 0);
        let error =
            Weights::new(&cpu, &gguf).matrix("w", [3, 2 * ty.block().unwrap().len]).unwrap_err().to_string();
        assert!(error.contains(&format!("type {ty}")) && error.contains("q4_k"), "{error}");
    }
}

#[test]
fn rows_that_are_not_whole_blocks_are_errors_that_say_so() {
    let cpu = Cpu::new();
    let gguf = file(GgmlType::Q4_K, 0x33);
    let w = Weights::new(&cpu, &gguf).matrix("w", [3, 512]).unwrap();
    let x = cpu.tensor(&[1, 500], &[0.0f32; 500]).unwrap();
    let error = cpu.linear(&x, &w).unwrap_err().to_string();
    assert!(error.contains("a multiple of 256, the number of values in a q4_k block"), "{error}");
    let error = Writer::new().tensor("w", GgmlType::Q6_K, &[1, 300]).map(drop).unwrap_err().to_string();
    assert!(error.contains("a multiple of 256 for q6_k"), "{error}");
}
