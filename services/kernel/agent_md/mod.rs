//! `agent.md`: YAML front matter, Markdown, and signature blocks at the end.
//!
//! What is read here is well-formed, and that is all: whether its signatures verify needs the certificates, and whether a
//! directory lists it is another question (`FrontMatter::is_complete`).

mod front_matter;
mod secrets;
mod signatures;
#[cfg(test)]
mod tests;
mod yaml;

pub use front_matter::{FrontMatter, Visibility};
pub use signatures::SignatureBlock;

use std::ops::Range;

/// Everything before the first block, and all blocks together.
const PAYLOAD_BYTES: usize = 4096;
const BLOCKS_BYTES: usize = 2048;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AgentMdError {
    #[error("the {part} must have at most {limit} bytes, and has {bytes}")]
    TooLarge { part: &'static str, bytes: usize, limit: usize },
    #[error("front matter: {0}")]
    FrontMatter(String),
    #[error("signature block {block}: {reason}")]
    Block { block: usize, reason: String },
    #[error("line {line} has a NUL character, which text must not have")]
    Nul { line: usize },
    #[error("line {line} has what looks like {what}: the document is public and must not contain secrets")]
    Secret { what: &'static str, line: usize },
}

/// A document that can be read. Its signatures are not verified here: that needs the certificates.
#[derive(Debug)]
pub struct AgentMd {
    pub front: FrontMatter,
    pub blocks: Vec<SignatureBlock>,
    /// Where the Markdown is in the text: after the front matter, before the signature blocks.
    pub body: Range<usize>,
}

/// Something in a document that is accepted, and that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentMdWarning {
    /// A JSON Pointer into the front matter.
    pub path: String,
    /// A sentence about it.
    pub message: String,
}

impl AgentMd {
    pub fn parse(text: &str) -> Result<AgentMd, AgentMdError> {
        let payload = signatures::payload_length(text);
        within("text", payload, PAYLOAD_BYTES)?;
        within("signature part", text.len() - payload, BLOCKS_BYTES)?;
        if let Some(at) = text.find('\0') {
            return Err(AgentMdError::Nul { line: line_of(text, at) });
        }
        let (front, body) = front_matter::read(&text[..payload]).map_err(AgentMdError::FrontMatter)?;
        let blocks = signatures::blocks(text, payload)?;
        Ok(AgentMd { front, blocks, body })
    }

    /// A document that is to be published: it can be read, and nothing before its signatures looks like a secret. What was published
    /// is read by `parse` alone, so that a scan that learns more takes no document out of a directory.
    pub fn parse_new(text: &str) -> Result<AgentMd, AgentMdError> {
        let document = AgentMd::parse(text)?;
        match secrets::find(&text[..signatures::payload_length(text)]) {
            Some((what, at)) => Err(AgentMdError::Secret { what, line: line_of(text, at) }),
            None => Ok(document),
        }
    }

    /// What is accepted, and what its author should know.
    pub fn warnings(&self) -> Vec<AgentMdWarning> {
        let version = self.front.version.as_ref().filter(|version| !front_matter::is_three_numbers(version));
        let warning = version.map(|version| AgentMdWarning {
            path: "/version".to_owned(),
            message: format!(
                "version is {version:?}: write it as three numbers, such as \"1.0.0\", because fastaun 0.5.25 takes a document with \
                 another version for invalid"
            ),
        });
        warning.into_iter().collect()
    }

    /// For clients that do not know of several blocks: up to the end of the first one, without its tag and signer.
    pub fn single_signature_form(text: &str) -> String {
        signatures::single_signature_form(text)
    }
}

fn within(part: &'static str, bytes: usize, limit: usize) -> Result<(), AgentMdError> {
    if bytes > limit { Err(AgentMdError::TooLarge { part, bytes, limit }) } else { Ok(()) }
}

/// The number of the line that has this byte.
fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}
