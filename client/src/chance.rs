//! Randomness and time: whatever an agent draws or reads from a clock comes from here.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// 256 bits as text.
pub(crate) fn secret() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(random_bytes::<32>())
}

/// A readable id such as `cli-1f0c…`, 96 bits.
pub(crate) fn tagged(tag: &str) -> String {
    format!("{tag}-{}", hex::encode(random_bytes::<12>()))
}

/// The id of a new message. Ids made later sort later, which keeps together what is stored by them.
pub(crate) fn message_id() -> String {
    format!("m-{:012x}{}", since_1970().as_millis(), hex::encode(random_bytes::<10>()))
}

/// The present, in unix seconds.
pub(crate) fn now() -> i64 {
    since_1970().as_secs().cast_signed()
}

#[expect(clippy::disallowed_methods, reason = "an agent lives in the time of its machine")]
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
