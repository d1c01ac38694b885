//! Randomness: every id, nonce and secret the server makes comes from here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[derive(Clone, Debug)]
pub struct Ids {
    random: SystemRandom,
    /// The time and the counter of the last ordered id.
    last: Arc<AtomicU64>,
}

impl Default for Ids {
    fn default() -> Ids {
        Ids { random: SystemRandom::new(), last: Arc::default() }
    }
}

impl Ids {
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).expect("the operating system gives random bytes");
        bytes
    }

    /// 256 bits as URL-safe text: refresh tokens and challenges.
    pub fn secret(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.bytes::<32>())
    }

    /// So many digits and characters, each as likely as any other: what follows the prefix of a token.
    pub fn base62<const N: usize>(&self) -> String {
        let mut text = String::with_capacity(N);
        while text.len() < N {
            // 248 is four times 62: what is above would make some characters more likely.
            let usable = self.bytes::<64>().into_iter().filter(|byte| *byte < 248);
            let missing = N - text.len();
            text.extend(usable.take(missing).map(|byte| char::from(BASE62[usize::from(byte % 62)])));
        }
        text
    }

    /// A UUID of version 7: ids made later sort later, which keeps what is stored by them together. Within a millisecond
    /// the twelve bits after the version count; past those the time runs a little ahead.
    pub fn time_ordered(&self, now_ms: i64) -> String {
        let floor = now_ms.unsigned_abs() << 12;
        let after = |last: u64| Some(floor.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or_default();
        let now = floor.max(last + 1);
        let [.., high, low] = now.to_be_bytes();
        let mut bytes = self.bytes::<16>();
        bytes[..6].copy_from_slice(&(now >> 12).to_be_bytes()[2..]);
        bytes[6] = 0x70 | (high & 0x0f);
        bytes[7] = low;
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        let text = hex::encode(bytes);
        [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
    }

    /// A random share of a wait, at least half of it: those who lost the same thing must not all come back at once.
    pub fn jitter(&self, wait: Duration) -> Duration {
        let share = f64::from(u16::from_be_bytes(self.bytes())) / f64::from(u16::MAX);
        wait.mul_f64(0.5 + share / 2.0)
    }

    /// A short readable id such as `req-1f0c…`, 96 bits.
    pub fn tagged(&self, tag: &str) -> String {
        format!("{tag}-{}", hex::encode(self.bytes::<12>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_base62_have_their_length_and_differ() {
        let ids = Ids::default();
        let (one, other) = (ids.base62::<40>(), ids.base62::<40>());
        assert!(one.len() == 40 && one.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{one}");
        assert_ne!(one, other);
        let long = ids.base62::<10_000>();
        assert_eq!(long.len(), 10_000);
        assert!(BASE62.iter().all(|byte| long.as_bytes().contains(byte)), "every character is drawn");
    }

    #[test]
    fn ordered_ids_grow_within_a_millisecond_and_when_the_clock_goes_back() {
        let ids = Ids::default();
        let times =
            std::iter::repeat_n(1_794_701_761_000, 5000).chain([1_794_701_760_000, 1_794_701_761_000]);
        let made: Vec<String> = times.map(|now| ids.time_ordered(now)).collect();
        assert!(made.is_sorted());
        assert!(made.iter().all(|id| id.len() == 36 && id.as_bytes()[14] == b'7'), "{}", made[0]);
    }
}
