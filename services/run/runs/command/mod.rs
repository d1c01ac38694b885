//! One command of a run.

mod command_cancel;
mod command_create;
mod command_get;
