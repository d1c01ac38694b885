//! A token: only what the key signed is believed.
#![no_main]

#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../../services/auth/tokens/jwt.rs"]
mod jwt;

use certs::{Curve, Key, PublicKey};
use jwt::verify as verify_token;
use libfuzzer_sys::fuzz_target;
// The server parses it as a range of addresses, which would compile the kernel here.
use std::string::String as Network;
use std::sync::LazyLock;

static KEY: LazyLock<PublicKey> = LazyLock::new(|| Key::generate(Curve::P256).public());

fuzz_target!(|text: &str| {
    assert!(verify_token(text, |_| Some(&*KEY)).is_err());
    // A token whose parts are made of the input, so that the fuzzer gets past the outer form.
    let made = format!("eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6IjEifQ.{text}.AAAA");
    assert!(verify_token(&made, |_| Some(&*KEY)).is_err());
});
