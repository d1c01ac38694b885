//! Calls of `ca`: the certificates of this issuer, and the roots it trusts.

mod issuing;
mod lookup;
mod pins;
mod signals;
mod trust;

pub use issuing::*;
pub use lookup::*;
pub use pins::*;
pub use signals::*;
pub use trust::*;
