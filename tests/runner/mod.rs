//! `aund runner` as a process of its own, with the real server and the example back end: turns, guidance, interrupts, questions, cancels, and
//! the death of everybody who takes part. And with the real Codex.

mod codex;
mod deaths;
mod ends;
mod free_space;
mod kills;
pub mod local;
mod managers;
mod many;
mod model;
mod process;
mod table;
mod tasks;
mod turns;
mod validation;
