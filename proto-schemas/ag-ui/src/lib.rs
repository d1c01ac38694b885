//! AG-UI: what front ends may send as the input of a run, and the frames that they are shown of its log.
//!
//! Everything here is pure: it reads no store and no clock, and knows no other crate of ours.

mod days;
mod fold;
mod input;
mod ui;

pub use days::*;
pub use fold::*;
pub use input::*;
pub use ui::*;
