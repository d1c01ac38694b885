//! The signature of what is sent to a webhook: HMAC-SHA256 over the time, the id of the delivery and the body, as they are sent.

use ring::hmac;

/// Lower-case hex, 64 characters. The key is the text of the secret as it was shown.
pub(super) fn signature(secret: &str, timestamp: i64, delivery_id: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hex::encode(hmac::sign(&key, format!("{timestamp}.{delivery_id}.{body}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_message_has_its_known_signature() {
        let made = signature(
            "0123456789abcdef0123456789abcdef",
            1_731_200_000,
            "018f0000-0000-7000-8000-000000000000",
            r#"{"type":"message.new"}"#,
        );
        assert_eq!(made, "d6426c4e397a6beaf373aa659993b5e22223688ad6dee12cbeed787fe77d1d37");
    }
}
