//! What the server reads of an encrypted message: its recipients, and what the sender authenticated. The rest is passed on as
//! it came.

mod members;
#[cfg(test)]
mod tests;
mod tree;

use kernel::{Aid, CallingAgent};
use members::{BorrowedText, DeviceCopies, EnvelopeMembers, EnvelopeType, PayloadType};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::collections::HashSet;
use tree::{ProofStep, RecipientTree};

/// How far from ours the clock of a sender may be.
const SKEW_MS: i64 = 86_400_000;

/// No agent has this many devices; more rows only cost time.
const MAX_ROWS: usize = 1000;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EnvelopeError {
    /// A recipient is not one that its role allows.
    #[error("{0}")]
    Recipient(String),
    /// It is malformed.
    #[error("{0}")]
    Form(String),
    /// What the sender authenticated is not what is being sent.
    #[error("{0}")]
    Aad(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadKind {
    /// Passed on as it is to every device.
    Plain,
    /// `e2ee.multi_device`: a copy for each device, split here.
    V1Split,
    /// `e2ee.p2p_encrypted`: one body, and a row for each recipient who can read it.
    V2,
}

/// Looks at the two members that say how a message is delivered. What is no object at all counts as plain here.
pub(super) fn classify(payload: &RawValue) -> PayloadKind {
    let text = payload.get();
    let Some(head) = text.starts_with('{').then(|| serde_json::from_str::<EnvelopeType>(text).ok()).flatten()
    else {
        return PayloadKind::Plain;
    };
    match (head.kind.as_deref(), head.version.as_deref()) {
        (Some("e2ee.p2p_encrypted"), Some("v2")) => PayloadKind::V2,
        (Some("e2ee.multi_device"), _) => PayloadKind::V1Split,
        _ => PayloadKind::Plain,
    }
}

/// Whether a payload may be an envelope of end-to-end encryption: its `type` begins with `e2ee.`.
pub(super) fn may_be_sealed(payload: &RawValue) -> bool {
    let text = payload.get();
    // The type is one of the strings in it; only an escape could hide that.
    if !text.contains("e2ee.") && !text.contains("\\u") {
        return false;
    }
    let head = text.starts_with('{').then(|| serde_json::from_str::<PayloadType>(text).ok()).flatten();
    head.and_then(|head| head.kind).is_some_and(|kind| kind.starts_with("e2ee."))
}

/// A V2 envelope that was checked.
pub(super) struct Envelope<'a> {
    /// The envelope without `recipients`: nobody needs to know who else can read it.
    pub body: Box<RawValue>,
    pub rows: Vec<RecipientRow<'a>>,
    pub message_id: String,
    tree: RecipientTree,
}

/// Who can read it, and the key wrapped for them. An empty device stands for all devices of the agent.
#[derive(Debug, Serialize)]
pub(super) struct RecipientRow<'a> {
    pub aid: Cow<'a, str>,
    #[serde(rename = "device_id")]
    pub device: Cow<'a, str>,
    pub role: Role,
    pub key_source: Cow<'a, str>,
    pub fp: Cow<'a, str>,
    pub spk_id: Cow<'a, str>,
    pub wrap_nonce: Cow<'a, str>,
    pub wrapped_key: Cow<'a, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    Audit,
    Peer,
    SelfSync,
}

#[derive(Serialize)]
struct WrappedKey<'a> {
    recipient: &'a RecipientRow<'a>,
    merkle_proof: Vec<ProofStep>,
}

impl<'a> Envelope<'a> {
    /// Checks everything that can be checked without a key. The signature and the fingerprints are for the readers to verify.
    pub fn open(
        payload: &'a RawValue,
        from: &CallingAgent,
        to: &Aid,
        message_id: Option<&str>,
        now_ms: i64,
    ) -> Result<Envelope<'a>, EnvelopeError> {
        let members = EnvelopeMembers::read(payload)?;
        if members.t_send.is_some_and(|sent| sent.abs_diff(now_ms) > SKEW_MS.unsigned_abs()) {
            return Err(EnvelopeError::Form("t_send is more than a day from now".to_owned()));
        }
        let message_id = members.aad.check(from, to, message_id)?;
        let rows = rows(members.recipients, &from.aid, to)?;

        let tree = RecipientTree::over(&rows)?;
        if tree.root() != *members.recipients_digest {
            return Err(EnvelopeError::Form("recipients_digest does not match recipients".to_owned()));
        }
        Ok(Envelope { body: members.body, rows, message_id, tree })
    }

    /// What the recipient of one row needs beside the body.
    pub fn wrap(&self, index: usize) -> Box<RawValue> {
        let wrap = WrappedKey { recipient: &self.rows[index], merkle_proof: self.tree.proof(index) };
        to_raw_value(&wrap).expect("a row is plain text")
    }
}

/// The text of `envelope_json`: the body's members, then those of the wrap, then `delivery_device_id`.
pub(super) fn envelope_json(body: &RawValue, wrap: &RawValue, device: &str) -> String {
    let body = body.get().strip_suffix('}').unwrap_or_default();
    let wrap = wrap.get().strip_prefix('{').and_then(|wrap| wrap.strip_suffix('}')).unwrap_or_default();
    let device = serde_json::Value::from(device);
    format!("{body},{wrap},\"delivery_device_id\":{device}}}")
}

/// The copies of an `e2ee.multi_device` payload, each as it came.
pub(super) struct Split {
    pub recipients: Vec<(String, Box<RawValue>)>,
    /// For the sender's other devices.
    pub own: Vec<(String, Box<RawValue>)>,
}

pub(super) fn split(payload: &RawValue) -> Result<Split, EnvelopeError> {
    let copies: DeviceCopies = serde_json::from_str(payload.get()).map_err(form)?;
    let read = |name: &str, copies: Option<Vec<members::Copy>>| {
        let (mut devices, mut envelopes) = (HashSet::new(), Vec::new());
        for copy in copies.unwrap_or_default() {
            if !copy.envelope.get().starts_with('{') {
                return Err(EnvelopeError::Form(format!("an envelope in {name} is not an object")));
            }
            // One inbox must not get two messages with the same message_id.
            if !devices.insert(copy.device_id.clone()) {
                return Err(EnvelopeError::Form(format!("{name} names device {:?} twice", copy.device_id)));
            }
            envelopes.push((copy.device_id, copy.envelope));
        }
        Ok(envelopes)
    };
    Ok(Split {
        recipients: read("recipient_copies", Some(copies.recipient_copies))?,
        own: read("self_copies", copies.self_copies)?,
    })
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Audit => "audit",
            Role::Peer => "peer",
            Role::SelfSync => "self_sync",
        }
    }

    fn parse(text: &str) -> Option<Role> {
        [Role::Audit, Role::Peer, Role::SelfSync].into_iter().find(|role| role.as_str() == text)
    }
}

/// The rows in their order, which must be the one the digest is defined over, each with a recipient that its role allows.
fn rows<'a>(
    texts: Vec<[BorrowedText<'a>; 8]>,
    from: &Aid,
    to: &Aid,
) -> Result<Vec<RecipientRow<'a>>, EnvelopeError> {
    if texts.len() > MAX_ROWS {
        return Err(EnvelopeError::Form(format!("recipients must have at most {MAX_ROWS} entries")));
    }
    let mut rows: Vec<RecipientRow<'a>> = Vec::with_capacity(texts.len());
    for texts in texts {
        let row = row(texts)?;
        let wanted = match row.role {
            Role::Peer => Some(to),
            Role::SelfSync => Some(from),
            Role::Audit => None,
        };
        if let Some(wanted) = wanted.filter(|wanted| wanted.as_str() != row.aid) {
            let role = row.role.as_str();
            return Err(EnvelopeError::Recipient(format!("a recipient of role {role} must be {wanted}")));
        }
        let key = |row: &RecipientRow<'a>| (row.aid.clone(), row.device.clone(), row.role);
        if rows.last().is_some_and(|last| key(last) >= key(&row)) {
            return Err(EnvelopeError::Form(
                "recipients must be sorted by (aid, device_id, role), without duplicates".to_owned(),
            ));
        }
        rows.push(row);
    }
    if !rows.iter().any(|row| row.role == Role::Peer) {
        return Err(EnvelopeError::Recipient(format!("recipients must have one of role peer, for {to}")));
    }
    Ok(rows)
}

fn row(texts: [BorrowedText<'_>; 8]) -> Result<RecipientRow<'_>, EnvelopeError> {
    let [aid, device, role, key_source, fp, spk_id, wrap_nonce, wrapped_key] = texts.map(|text| text.0);
    let role = Role::parse(&role).ok_or_else(|| {
        EnvelopeError::Recipient("the role of a recipient must be peer, self_sync or audit".to_owned())
    })?;
    Ok(RecipientRow { aid, device, role, key_source, fp, spk_id, wrap_nonce, wrapped_key })
}

/// The digest of rows, for those who make an envelope.
#[cfg(test)]
pub(super) fn digest(rows: &[[String; 8]]) -> String {
    let texts = rows.iter().map(|row| row.clone().map(|text| BorrowedText(text.into()))).collect::<Vec<_>>();
    let rows: Vec<RecipientRow<'_>> = texts.into_iter().map(|texts| row(texts).unwrap()).collect();
    RecipientTree::over(&rows).unwrap().root()
}

/// A parse error without line and column, which mean nothing to a client that sent an object.
fn form(error: serde_json::Error) -> EnvelopeError {
    let text = error.to_string();
    EnvelopeError::Form(format!("the envelope: {}", text.split(" at line ").next().unwrap_or(&text)))
}
