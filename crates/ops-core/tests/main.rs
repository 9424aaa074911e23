//! Tests of `ops-core` through its public interface.

mod blocks;
mod formats;
mod hash_options;
mod into;
mod layout;
mod making;
mod memories;
mod paged_cache;
mod show;
mod views_in_buffer;
mod window_cache;
