//! Conversations of front ends: what is accepted, worked on, shown and kept.

mod accepting;
mod frames;
mod history;
mod pictures;
mod removing;
mod resuming;
mod support;
