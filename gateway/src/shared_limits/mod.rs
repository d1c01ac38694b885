//! Limits that all sockets share. When one is reached, nobody is refused who has just come: whoever holds most gives up what it has
//! held for longest.

mod handshakes;

pub use handshakes::{HandshakeLimits, HandshakeSlot, Handshakes};
