//! A certificate or key from outside: parsed or refused, never a panic, and never one that verifies by luck.
#![no_main]

use certs::{Certificate, PublicKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(key) = PublicKey::from_spki_der(data) {
        assert!(!key.verify(b"message", data));
    }
    if let Ok(certificate) = Certificate::from_der(data) {
        assert!(Certificate::from_pem(certificate.pem()).is_ok());
        let _ = certs::verify_chain(
            &certificate,
            &[],
            std::slice::from_ref(&certificate),
            certificate.not_before(),
        );
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Certificate::from_pem(text);
        if let Some(serial) = certs::parse_serial(text) {
            assert_eq!(certs::parse_serial(&serial).as_deref(), Some(serial.as_str()));
        }
    }
});
