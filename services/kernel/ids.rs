//! Chance: every id, nonce and secret the server makes comes from here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

#[derive(Clone, Debug)]
pub struct Ids(SystemRandom);

impl Default for Ids {
    fn default() -> Ids {
        Ids(SystemRandom::new())
    }
}

impl Ids {
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill(&mut bytes).expect("the operating system gives random bytes");
        bytes
    }

    /// 256 bits as URL-safe text: refresh tokens and challenges.
    pub fn secret(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.bytes::<32>())
    }

    /// A UUID of version 7: ids made later sort later, which keeps what is stored by them together.
    pub fn time_ordered(&self, now_ms: i64) -> String {
        let mut bytes = self.bytes::<16>();
        bytes[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        let text = hex::encode(bytes);
        [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
    }

    /// A short readable id such as `req-1f0c…`, 96 bits.
    pub fn tagged(&self, tag: &str) -> String {
        format!("{tag}-{}", hex::encode(self.bytes::<12>()))
    }
}
