//! The Rust side and the sources agree on what exists and how it is laid out.
use crate::host::run_program;
use ops_kernels::batch_norm::Parameter;
use ops_kernels::cache::HeadRows;
use ops_kernels::conv::ConvAxis;
use ops_kernels::group::{GroupRecord, GroupState, GroupStatus};
use ops_kernels::pool::Windows;
use ops_kernels::pool_upsample::Planes;
use ops_kernels::upsample::Source;
use ops_kernels::{Arguments, Family, instances, source};
use std::collections::BTreeMap;

type Fields = &'static [(&'static str, usize)];

/// A struct inside of arguments.
fn inner<A: Arguments>() -> (&'static str, (usize, Fields)) {
    (A::name(), (size_of::<A>(), A::FIELDS))
}

/// Compiles a family's structs for the host and compares what the compiler says of every field, and of the size of each.
fn agree(family: Family, structs: &BTreeMap<&str, (usize, Fields)>) {
    let mut text = String::from("#define OPS_WAVE 32\n#define OPS_MATRIX 11\n");
    text += &source::unit(family, []);
    text += "#include <stddef.h>\n#include <stdio.h>\nint main() {\n";
    let mut want = String::new();
    for (name, (size, fields)) in structs {
        for (field, offset) in *fields {
            text += &format!("    printf(\"{name}.{field} %zu\\n\", offsetof(ops::{name}, {field}));\n");
            want += &format!("{name}.{field} {offset}\n");
        }
        text += &format!("    printf(\"{name} %zu\\n\", sizeof(ops::{name}));\n");
        want += &format!("{name} {size}\n");
    }
    // What is private in Rust is asserted there, with these numbers.
    text += "    using ops::Shape; using ops::Divider; using ops::Operand;
    static_assert(offsetof(Shape, dim) == 0 && offsetof(Shape, magic) == 48 && offsetof(Shape, shift) == 96, \"\");
    static_assert(offsetof(Shape, rank) == 120 && offsetof(Shape, pack) == 124 && offsetof(Shape, count) == 128, \"\");
    static_assert(sizeof(Shape) == 136 && sizeof(Divider) == 24 && sizeof(Operand) == 56, \"\");
    static_assert(offsetof(Divider, magic) == 8 && offsetof(Divider, shift) == 16, \"\");
    static_assert(offsetof(Operand, data) == 0 && offsetof(Operand, stride) == 8, \"\");
}\n";
    assert_eq!(run_program(&format!("fields-{}", family.name()), &text), want);
}

#[test]
fn every_field_of_every_argument_struct_lies_where_the_source_has_it() {
    for &family in Family::ALL {
        let of_family = instances().iter().filter(|k| k.family == family);
        let mut structs: BTreeMap<_, _> = of_family.map(|k| (k.args, (k.args_size, k.args_fields))).collect();
        assert!(!structs.is_empty(), "{}", family.name());
        structs.extend(match family {
            Family::BatchNorm => vec![inner::<Parameter>()],
            Family::Pool => vec![inner::<Planes>(), inner::<Windows>()],
            Family::Upsample => vec![inner::<Source>()],
            Family::Cache => vec![inner::<HeadRows>()],
            Family::Group => vec![inner::<GroupState>(), inner::<GroupRecord>(), inner::<GroupStatus>()],
            Family::Conv => vec![inner::<ConvAxis>()],
            _ => Vec::new(),
        });
        agree(family, &structs);
    }
}
