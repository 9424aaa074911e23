//! The adapter against candle's own ops and against `Reference`.
mod attention;
mod compare;
mod errors;
mod examples;
mod experts;
mod gradients;
mod llama;
mod norms;
mod quantized;
mod rope;
mod threads;
