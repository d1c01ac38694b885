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

    /// A short readable id such as `req-1f0c…`, 96 bits.
    pub fn tagged(&self, tag: &str) -> String {
        format!("{tag}-{}", hex::encode(self.bytes::<12>()))
    }
}
