//! The signature blocks at the end of a document.
//!
//! A block signs every byte from the start of the file to the `<` of its own marker, so later blocks sign earlier ones
//! too.

use super::AgentMdError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const MARKER: &str = "<!-- AUN-SIGNATURE";
const END: &str = "-->";

#[derive(Debug, PartialEq, Eq)]
pub struct SignatureBlock {
    /// The block signs the bytes before this offset.
    pub start: usize,
    pub end: usize,
    pub cert_fingerprint: String,
    pub public_key_fingerprint: Option<String>,
    pub signer_aid: Option<String>,
    pub timestamp: i64,
    pub signature: Vec<u8>,
}

/// How many bytes come before the first block.
pub(super) fn payload_length(text: &str) -> usize {
    text.find(MARKER).unwrap_or(text.len())
}

pub(super) fn single_signature_form(text: &str) -> String {
    let start = payload_length(text);
    if start == text.len() {
        return text.to_owned();
    }
    let end = text[start..].find(END).map_or(text.len(), |at| start + at + END.len());
    let mut lines = text[start..end].split('\n');
    lines.next();
    let kept = lines.filter(|line| !line.trim_start().starts_with("signer_aid:"));
    let block: Vec<&str> = std::iter::once(MARKER).chain(kept).collect();
    format!("{}{}", &text[..start], block.join("\n"))
}

/// The blocks, of which the first begins at this offset; nothing but space is between them and behind them.
pub(super) fn blocks(text: &str, mut at: usize) -> Result<Vec<SignatureBlock>, AgentMdError> {
    let mut blocks = Vec::new();
    loop {
        let space = text[at..].len() - text[at..].trim_start().len();
        if at + space == text.len() {
            return Ok(blocks);
        }
        let number = blocks.len() + 1;
        let block =
            block(text, at + space).map_err(|reason| AgentMdError::Block { block: number, reason })?;
        if number > 1 && block.signer_aid.is_none() {
            return Err(AgentMdError::Block { block: number, reason: "signer_aid is missing".into() });
        }
        at = block.end;
        blocks.push(block);
    }
}

fn block(text: &str, start: usize) -> Result<SignatureBlock, String> {
    let rest = text[start..].strip_prefix(MARKER).ok_or("there is text after the signature")?;
    let length = rest.find(END).ok_or("it has no end")?;
    let (tag, fields) = rest[..length].split_once('\n').ok_or("it has no fields")?;
    let tag = tag.trim_end();
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-';
    let tagged = |tag: &str| tag.len() > 1 && tag.starts_with('-') && tag.bytes().all(plain);
    if !tag.is_empty() && !tagged(tag) {
        return Err("its tag must consist of A-Z, 0-9 and '-'".into());
    }
    let mut block = SignatureBlock {
        start,
        end: start + MARKER.len() + length + END.len(),
        cert_fingerprint: String::new(),
        public_key_fingerprint: None,
        signer_aid: None,
        timestamp: -1,
        signature: Vec::new(),
    };
    let mut seen = Vec::new();
    for line in fields.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or("a field must be written name: value")?;
        let value = value.trim();
        if seen.contains(&name) {
            return Err(format!("{name} is given twice"));
        }
        seen.push(name);
        match name {
            "cert_fingerprint" => block.cert_fingerprint = value.to_ascii_lowercase(),
            "public_key_fingerprint" => block.public_key_fingerprint = Some(value.to_ascii_lowercase()),
            "signer_aid" => block.signer_aid = Some(value.to_owned()),
            "timestamp" => {
                block.timestamp = value.parse().map_err(|_| "timestamp must be a number of seconds")?
            }
            "signature" => {
                block.signature = STANDARD.decode(value).map_err(|_| "signature must be base64")?
            }
            other => {
                return Err(format!("{:?} is not a known field", other.chars().take(40).collect::<String>()));
            }
        }
    }
    if block.cert_fingerprint.is_empty() || block.timestamp < 0 || block.signature.is_empty() {
        return Err("cert_fingerprint, timestamp and signature must be given".into());
    }
    Ok(block)
}
