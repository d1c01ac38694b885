//! `agent.md`: YAML front matter, Markdown, and signature blocks at the end.
//!
//! A block signs every byte from the start of the file to the `<` of its own marker, so later blocks sign earlier ones
//! too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_saphyr::Budget;

const MARKER: &str = "<!-- AUN-SIGNATURE";
const END: &str = "-->";
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
}

/// A document that can be read. Its signatures are not verified here: that needs the certificates.
#[derive(Debug)]
pub struct AgentMd {
    pub front: FrontMatter,
    pub blocks: Vec<SignatureBlock>,
}

#[derive(Debug, Deserialize)]
pub struct FrontMatter {
    pub aid: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub version: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub avatar: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub exttype: Option<String>,
    #[serde(default)]
    pub owner: Option<String>,
    #[serde(default)]
    pub entity_cert_fingerprint: Option<String>,
}

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

impl AgentMd {
    pub fn parse(text: &str) -> Result<AgentMd, AgentMdError> {
        let payload = text.find(MARKER).unwrap_or(text.len());
        within("text", payload, PAYLOAD_BYTES)?;
        within("signature part", text.len() - payload, BLOCKS_BYTES)?;
        let front = front_matter(&text[..payload]).map_err(AgentMdError::FrontMatter)?;
        let blocks = blocks(text, payload)?;
        Ok(AgentMd { front, blocks })
    }

    /// For clients that do not know of several blocks: up to the end of the first one, without its tag and signer.
    pub fn single_signature_form(text: &str) -> String {
        let Some(start) = text.find(MARKER) else { return text.to_owned() };
        let end = text[start..].find(END).map_or(text.len(), |at| start + at + END.len());
        let mut lines = text[start..end].split('\n');
        lines.next();
        let kept = lines.filter(|line| !line.trim_start().starts_with("signer_aid:"));
        let block: Vec<&str> = std::iter::once(MARKER).chain(kept).collect();
        format!("{}{}", &text[..start], block.join("\n"))
    }
}

fn within(part: &'static str, bytes: usize, limit: usize) -> Result<(), AgentMdError> {
    if bytes > limit { Err(AgentMdError::TooLarge { part, bytes, limit }) } else { Ok(()) }
}

fn front_matter(payload: &str) -> Result<FrontMatter, String> {
    let unix = payload.replace("\r\n", "\n");
    let rest = unix.strip_prefix("---\n").ok_or("the document must begin with a line ---")?;
    let end = rest.find("\n---\n").or_else(|| rest.strip_suffix("\n---").map(str::len));
    let yaml = &rest[..end.ok_or("a line --- must end it")?];

    // Anchors and aliases are forbidden by the protocol; duplicate keys are refused by default.
    let mut budget = Budget::default();
    budget.max_anchors = 0;
    budget.max_aliases = 0;
    budget.max_depth = 8;
    let mut options = serde_saphyr::Options::default();
    options.budget = Some(budget);
    options.duplicate_keys = serde_saphyr::options::DuplicateKeyPolicy::Error;
    options.merge_keys = serde_saphyr::options::MergeKeyPolicy::Error;
    if let Some(line) = yaml.lines().find(|line| has_tag(line)) {
        return Err(format!("YAML tags are refused: {}", line.chars().take(60).collect::<String>()));
    }
    let front: FrontMatter =
        serde_saphyr::from_str_with_options(yaml, options).map_err(|error| first_line(&error))?;
    front.check()?;
    Ok(front)
}

fn first_line(error: &serde_saphyr::Error) -> String {
    error.to_string().lines().next().unwrap_or("not YAML").chars().take(200).collect()
}

/// A value that begins with `!` outside quotes is a YAML tag.
fn has_tag(line: &str) -> bool {
    let value = line.split_once(": ").map_or(line, |(_, value)| value);
    value.trim_start().trim_start_matches("- ").trim_start().starts_with('!')
}

impl FrontMatter {
    fn check(&self) -> Result<(), String> {
        let long = |text: &Option<String>, most: usize| {
            text.as_ref().is_some_and(|text| text.chars().count() > most)
        };
        if self.name.trim().is_empty() {
            return Err("name must not be empty".into());
        }
        if self.kind.trim().is_empty() {
            return Err("type must not be empty".into());
        }
        let numbers: Vec<&str> = self.version.split('.').collect();
        if numbers.len() != 3
            || !numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        {
            return Err(format!("version must be of the form 1.2.3, and is {:?}", self.version));
        }
        if long(&self.description, 100) {
            return Err("description must have at most 100 characters".into());
        }
        if long(&self.avatar, 256) {
            return Err("avatar must have at most 256 characters".into());
        }
        if matches!(self.kind.as_str(), "group" | "org")
            && (self.owner.is_none() || self.entity_cert_fingerprint.is_none())
        {
            return Err(format!("a {} must name its owner and its entity_cert_fingerprint", self.kind));
        }
        Ok(())
    }
}

fn blocks(text: &str, mut at: usize) -> Result<Vec<SignatureBlock>, AgentMdError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRONT: &str =
        "---\naid: \"alice.aid.pub\"\nname: \"alice\"\ntype: \"agent\"\nversion: \"1.0.0\"\n---\n\n# alice\n";
    const BLOCK: &str = "<!-- AUN-SIGNATURE\ncert_fingerprint: sha256:ab\ntimestamp: 7\nsignature: AAAA\n-->";

    fn refused(text: &str) -> String {
        AgentMd::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_signed_document_is_read_and_its_block_signs_all_before_it() {
        let document = AgentMd::parse(&format!("{FRONT}{BLOCK}")).unwrap();
        assert_eq!(document.front.aid, "alice.aid.pub");
        assert_eq!(document.blocks[0].start, FRONT.len());
        assert!(AgentMd::parse(FRONT).unwrap().blocks.is_empty(), "older clients publish unsigned documents");
    }

    #[test]
    fn yaml_tricks_are_refused() {
        for line in ["tags: &a [x]", "description: !!str x", "name: twice", "tags: *a", "<<: {x: 1}"] {
            let text = FRONT.replace("type:", &format!("{line}\ntype:"));
            assert!(refused(&text).starts_with("front matter:"), "{line}");
        }
    }

    #[test]
    fn required_fields_sizes_and_versions_are_checked() {
        assert!(refused(&FRONT.replace("name: \"alice\"\n", "")).contains("name"));
        assert!(refused(&FRONT.replace("1.0.0", "1.0")).contains("version"));
        assert!(refused(&FRONT.replace("\"agent\"", "group")).contains("owner"));
        assert!(refused("# alice\n").contains("---"));
        assert!(refused(&format!("{FRONT}{}", "x".repeat(4096))).contains("4096"));
        assert!(refused(&format!("{FRONT}{}", BLOCK.repeat(30))).contains("2048"));
    }

    #[test]
    fn broken_blocks_are_named() {
        for (from, to) in [
            ("AAAA", "%%"),
            ("timestamp: 7", "timestamp: x"),
            ("sha256:ab", "sha256:ab\nmore: 1"),
            ("-->", ""),
        ] {
            assert!(
                refused(&format!("{FRONT}{}", BLOCK.replace(from, to))).starts_with("signature block 1"),
                "{to}"
            );
        }
        assert!(refused(&format!("{FRONT}{BLOCK}\ntext")).contains("block 2"));
    }

    #[test]
    fn old_clients_get_one_plain_block() {
        let tagged =
            BLOCK.replace("SIGNATURE", "SIGNATURE-OWNER").replace("timestamp", "signer_aid: bob\ntimestamp");
        let text = format!("{FRONT}{tagged}\n{tagged}");
        assert_eq!(AgentMd::single_signature_form(&text), format!("{FRONT}{BLOCK}"));
        assert_eq!(AgentMd::single_signature_form(FRONT), FRONT);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(---\n)?\\PC{0,200}(<!-- AUN-SIGNATURE\\PC{0,60}-->)?") {
            let _ = AgentMd::parse(&text);
            let _ = AgentMd::single_signature_form(&text);
        }
    }
}
