//! `integration_tests!` declares every integration test as a module of `tests/main.rs`; `build.rs` finds them.
//!
//! It is a crate of its own because cargo runs a build script again after each change of a test: as one of `aund`'s it would have the
//! server compiled again, too.

include!(concat!(env!("OUT_DIR"), "/modules.rs"));
