//! The mixtures. This is the only list of them.
use super::Role::{self, AttentionOutput, Down, Fused, Key, Output, Value};
use super::Row;
use super::When::{self, Always, EightExperts, First, FirstPart, Grouped, Spread};
use crate::GgmlType as T;

const fn row(name: &'static str, file_type: u32, base: T, rules: &'static [(Role, When, T)]) -> Row {
    Row { name, file_type, base, rules }
}

pub(super) const TABLE: &[Row] = &[
    row("f32", 0, T::F32, &[]),
    row("f16", 1, T::F16, &[]),
    row("bf16", 32, T::BF16, &[]),
    row("q8_0", 7, T::Q8_0, &[]),
    row("q4_0", 2, T::Q4_0, &[(Output, Always, T::Q6_K)]),
    row("q4_1", 3, T::Q4_1, &[(Output, Always, T::Q6_K)]),
    row("q5_0", 8, T::Q5_0, &[(Output, Always, T::Q6_K)]),
    row("q5_1", 9, T::Q5_1, &[(Output, Always, T::Q6_K)]),
    row(
        "q2_k",
        10,
        T::Q2_K,
        &[
            (Output, Always, T::Q6_K),
            (Value, EightExperts, T::Q8_0),
            (Value, Grouped(4), T::Q4_K),
            (Value, Always, T::Q3_K),
            (Key, EightExperts, T::Q8_0),
            (AttentionOutput, EightExperts, T::Q5_K),
            (AttentionOutput, Always, T::Q3_K),
            (Down, Always, T::Q3_K),
        ],
    ),
    row(
        "q3_k_m",
        12,
        T::Q3_K,
        &[
            (Output, Always, T::Q6_K),
            (Value, EightExperts, T::Q8_0),
            (Value, First(2), T::Q5_K),
            (Value, Always, T::Q4_K),
            (Key, EightExperts, T::Q8_0),
            (AttentionOutput, EightExperts, T::Q5_K),
            (AttentionOutput, Always, T::Q4_K),
            (Fused, Always, T::Q4_K),
            (Down, FirstPart(16), T::Q5_K),
            (Down, Always, T::Q4_K),
        ],
    ),
    row(
        "q4_k_s",
        14,
        T::Q4_K,
        &[
            (Output, Always, T::Q6_K),
            (Value, EightExperts, T::Q8_0),
            (Value, First(4), T::Q5_K),
            (Key, EightExperts, T::Q8_0),
            (AttentionOutput, EightExperts, T::Q5_K),
            (Down, FirstPart(8), T::Q5_K),
        ],
    ),
    row(
        "q4_k_m",
        15,
        T::Q4_K,
        &[
            (Output, Always, T::Q6_K),
            (Value, EightExperts, T::Q8_0),
            (Value, Spread, T::Q6_K),
            (Key, EightExperts, T::Q8_0),
            (AttentionOutput, EightExperts, T::Q5_K),
            (Fused, Always, T::Q5_K),
            (Down, Spread, T::Q6_K),
        ],
    ),
    row(
        "q5_k_s",
        16,
        T::Q5_K,
        &[(Output, Always, T::Q6_K), (Value, EightExperts, T::Q8_0), (Key, EightExperts, T::Q8_0)],
    ),
    row(
        "q5_k_m",
        17,
        T::Q5_K,
        &[
            (Output, Always, T::Q6_K),
            (Value, EightExperts, T::Q8_0),
            (Value, Spread, T::Q6_K),
            (Key, EightExperts, T::Q8_0),
            (Fused, Always, T::Q6_K),
            (Down, Spread, T::Q6_K),
        ],
    ),
    row("q6_k", 18, T::Q6_K, &[(Value, EightExperts, T::Q8_0), (Key, EightExperts, T::Q8_0)]),
    row(
        "iq4_nl",
        25,
        T::IQ4_NL,
        &[(Output, Always, T::Q6_K), (Value, EightExperts, T::Q8_0), (Key, EightExperts, T::Q8_0)],
    ),
    row(
        "iq4_xs",
        30,
        T::IQ4_XS,
        &[(Output, Always, T::Q6_K), (Value, EightExperts, T::Q8_0), (Key, EightExperts, T::Q8_0)],
    ),
];
