//! SHA-256, the one hash that documents, tokens and names are known by.

use ring::digest;

pub fn sha256(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes.as_ref()).as_ref());
    hash
}

/// As 64 hex digits in lower case.
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    hex::encode(sha256(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_hash_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex("abc"), abc);
        assert_eq!(sha256(b"abc")[..2], [0xba, 0x78]);
    }
}
