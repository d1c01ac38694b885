//! What a task is and what may happen to it: no SQL, no clock, no chance.

pub(super) mod access;
pub(super) mod answer;
mod apply;
mod artifacts;
pub(super) mod decide;
pub(super) mod error;
pub(super) mod event;
mod new;
pub(super) mod operation;
pub(super) mod state;
pub(super) mod task;
#[cfg(test)]
mod tests;
pub(super) mod tree;
