//! The backend on the stand-in for ROCm: choice, cache, index errors, faults, threads, groups.
mod absent;
mod aot;
mod cache;
mod choice;
mod faults;
mod group;
mod group_own;
mod installations;
mod prepare;
mod queues;
mod smoke;
