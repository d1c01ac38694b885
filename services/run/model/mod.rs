//! Pure functions: what may happen to a run, and what came out of it. Nothing here has a store or a clock.

pub(crate) mod call;
pub(crate) mod decide;
pub(crate) mod fixed;
pub(crate) mod liveness;
pub(crate) mod policy;
pub(crate) mod result;
pub(crate) mod run;
pub(crate) mod thread;
