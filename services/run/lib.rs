//! `run.*`, `runner.*`, `session.*` and `profile.*`: the manager of runs.
//!
//! A back end creates a run, submits commands and reads events and results; runners take the lease of a run, work on its commands and
//! append what happens. What may happen to a run is decided by pure functions (`model`). Every change goes through one queue
//! (`batch`), is committed together with others, and is told to those who wait after its commit.

#![expect(dead_code, unused_imports, reason = "nothing calls the model yet")]

mod access;
mod error;
mod ids;
mod model;
mod settings;

pub use settings::Settings;
