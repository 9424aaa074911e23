//! The backend on the stand-in for ROCm: choice, cache, index errors, faults, threads.
mod absent;
mod aot;
mod cache;
mod choice;
mod faults;
mod installations;
mod prepare;
mod queues;
mod smoke;
