//! A call as a type: its parameters, the name of its method, and what it answers.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The parameters of one method. Whoever calls it, over the mesh, as an agent or in a test, writes neither its name nor its
/// JSON a second time.
pub trait Request: Serialize {
    const METHOD: &'static str;
    type Result: DeserializeOwned;
}
