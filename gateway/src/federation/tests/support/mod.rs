//! What the tests of the federation have in common: a gateway with a domain of its own, and the other side of its links.

pub mod inbound_link;
pub mod remote_gateway;
pub mod test_ca;
pub mod test_methods;
pub mod two_domains;
