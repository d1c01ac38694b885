//! What the processes of one server tell each other over the bus, as a type: a name and its parameters.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A signal only says that something changed: it may come twice or not at all, the store is the truth. It is for services and
/// gateways, and no client sees it. Each one is declared with the requests of the namespace that sends it.
pub trait Signal: Serialize + DeserializeOwned {
    const NAME: &'static str;
}
