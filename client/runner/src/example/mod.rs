//! The example back end: a program of the kind `process-jsonl`, without a model and the same every time, so that the first run works at once
//! and clients can be tested. What it does stands in the text of a turn; see [`Skill`].

mod clock;
mod program;
mod said;
mod skill;
#[cfg(test)]
mod tests;
mod turn;

pub use program::run;
pub use skill::Skill;
