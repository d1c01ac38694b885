//! The messages of the bench.

use std::sync::Arc;

use tokio_tungstenite::tungstenite::Utf8Bytes;

pub(super) use super::super::random::SplitMix64;

/// A payload as agents write it, 200 bytes long.
pub(super) const PAYLOAD: &str = concat!(
    r#"{"type":"text","text":"It is twenty past five, the tide is out and the lighthouse keeper has gone to bed; "#,
    r#"whoever reads this may answer in the morning, or not at all, as the two of us agreed at six."}"#
);

/// Writes `message.send` calls to agents picked at random.
pub(super) struct SendRequests {
    to: Arc<[String]>,
    random: SplitMix64,
}

impl SendRequests {
    /// Give each writer a seed of its own, or they write the same message ids.
    pub(super) fn new(to: Arc<[String]>, seed: u64) -> Self {
        Self { to, random: SplitMix64::new(seed) }
    }

    /// The ids of the SDKs have no order, so those of the bench have none, either.
    pub(super) fn request(&mut self, number: usize) -> Utf8Bytes {
        let to = &self.to[self.random.below(self.to.len())];
        request(number, to, self.random.next(), self.random.next())
    }
}

/// A send as the SDKs write it. Both halves of the message id are given, so that a half can carry a number.
pub(super) fn request(number: usize, to: &str, high: u64, low: u64) -> Utf8Bytes {
    format!(
        r#"{{"jsonrpc":"2.0","id":"rpc-{number:016x}","method":"message.send","params":{{"to":"{to}","payload":{PAYLOAD},"message_id":"m-{high:016x}{low:016x}","need_render":true}}}}"#
    )
    .into()
}

/// The low half of the message id in an event.
pub(super) fn low_half(event: &str) -> Option<u64> {
    let (_, id) = event.split_once(r#""message_id":"m-"#)?;
    u64::from_str_radix(id.get(16..32)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_an_object_of_200_bytes() {
        assert_eq!(PAYLOAD.len(), 200);
        assert!(serde_json::from_str::<serde_json::Value>(PAYLOAD).unwrap().is_object());
    }

    #[test]
    fn a_number_in_a_message_id_is_found_again() {
        let request = request(3, "bob.agents.localhost", u64::MAX, 77);
        assert_eq!(low_half(&request), Some(77));
        assert!(serde_json::from_str::<serde_json::Value>(&request).is_ok());
    }

    #[test]
    fn two_writers_write_different_ids() {
        let to: Arc<[String]> = ["bob".to_owned()].into();
        let (mut one, mut two) = (SendRequests::new(to.clone(), 1), SendRequests::new(to, 2));
        let first = one.request(0);
        assert_ne!(first, one.request(0));
        assert!((0..100).all(|_| two.request(0) != first));
    }
}
