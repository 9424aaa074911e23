//! Tests of `ops-cpu` through its public interface: one program, because each is optimized.

mod exact_activations;
mod hostile_views;
mod long_attention;
mod reductions;
mod refusals;
mod sampling;
mod scatter;
