//! Capability manifests: what an agent declares about the tools it would use on a person's device, and why.
//!
//! ```
//! # fn example(old: &str, new: &str) -> Result<(), manifest::ManifestRefusal> {
//! use manifest::{Manifest, compare};
//!
//! let (old, new) = (Manifest::parse(old)?, Manifest::parse(new)?);
//! println!("{} has {} bytes", new.hash(), new.canonical().len());
//! if compare(&old, &new).breaking() {
//!     println!("whoever has granted scopes is asked again");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - [`Manifest::parse`] reads, checks and canonicalizes, and refuses with everything that is wrong at once, each with its JSON Pointer.
//! - [`compare`] says which changes are breaking; only a server decides that, and clients believe it.
//! - [`scope_texts`] and [`Scope::shown`] have what people are shown of scopes.
//! - [`ArgumentValidator`] checks the arguments of a tool call, on the device that would execute it.
//!
//! Everything here is pure: no file, no network, no clock.

mod canonical;
mod compare;
mod grammar;
mod json;
mod manifest;
mod model;
mod pointer;
mod refusal;
mod schema;
#[cfg(test)]
mod testing;
mod texts;

pub use canonical::{canonical_form, digest};
pub use compare::{ChangeReason, ManifestComparison, compare};
pub use manifest::{LARGEST_BYTES, Manifest, WARNED_BYTES};
pub use model::{CapabilityFlags, ManifestWarning, Scope, Sensitivity, Tool};
pub use refusal::{ManifestRefusal, Violation};
pub use schema::{ArgumentValidator, schema_violations};
pub use texts::{Language, ShownScope, TextsByScope, preset_sensitivity, scope_texts};
