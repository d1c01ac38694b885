//! PEM, strictly: one block, the expected label, nothing around it but white space.

use base64::{Engine, engine::general_purpose::STANDARD};

/// Wraps `der` in lines of 64 characters, as every tool writes it.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

/// The content of the only block in `text`; a second block behind the first does not decode.
pub(crate) fn decode(label: &str, text: &str) -> Option<Vec<u8>> {
    let body = text.trim().strip_prefix(&format!("-----BEGIN {label}-----"))?;
    let body = body.strip_suffix(&format!("-----END {label}-----"))?;
    let packed: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(packed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_survives_the_round_trip() {
        for length in [0, 1, 47, 48, 49, 500] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            assert_eq!(decode("THING", &encode("THING", &bytes)), Some(bytes));
        }
    }

    #[test]
    fn carriage_returns_and_white_space_around_the_block_do_not_matter() {
        let text = encode("THING", &[7; 100]).replace('\n', "\r\n");
        assert_eq!(decode("THING", &format!("\n  {text}\n\n")), Some(vec![7; 100]));
    }

    #[test]
    fn two_blocks_another_label_and_stray_text_are_refused() {
        let one = encode("THING", &[7; 10]);
        assert_eq!(decode("THING", &one.repeat(2)), None);
        assert_eq!(decode("OTHER", &one), None);
        assert_eq!(decode("THING", &format!("subject: me\n{one}")), None);
        assert_eq!(decode("THING", ""), None);
    }
}
