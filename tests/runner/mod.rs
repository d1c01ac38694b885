//! `aund runner` as a process of its own, with the real server and the example back end: turns, guidance, interrupts, questions, cancels, and
//! the death of everybody who takes part.

mod deaths;
mod ends;
mod process;
mod table;
mod turns;
