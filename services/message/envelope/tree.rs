//! The Merkle tree over the rows of an envelope. Its root is the envelope's `recipients_digest`, and whoever gets one row alone
//! verifies it by its proof.

use super::{EnvelopeError, RecipientRow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{Context, SHA256};
use serde::Serialize;

type Hash = [u8; 32];

/// Layers from the leaves up to the root, each in the order of the rows.
pub(super) struct RecipientTree {
    layers: Vec<Vec<Hash>>,
}

/// One step of a proof: what to hash with, and on which side it is.
#[derive(Serialize)]
pub(super) struct ProofStep {
    sibling: String,
    position: &'static str,
}

impl RecipientTree {
    /// There is at least one row.
    pub fn over(rows: &[RecipientRow<'_>]) -> Result<RecipientTree, EnvelopeError> {
        let mut layer = Vec::with_capacity(rows.len());
        for row in rows {
            layer.push(leaf(row)?);
        }
        let mut layers = vec![layer];
        while let Some(below) = layers.last().filter(|layer| layer.len() > 1) {
            // An odd layer doubles its last node.
            let above = below.chunks(2).map(|pair| node(&pair[0], pair.last().unwrap_or(&pair[0]))).collect();
            layers.push(above);
        }
        Ok(RecipientTree { layers })
    }

    pub fn root(&self) -> String {
        self.layers.last().and_then(|layer| layer.first()).map(hex::encode).unwrap_or_default()
    }

    pub fn proof(&self, mut index: usize) -> Vec<ProofStep> {
        let mut steps = Vec::with_capacity(self.layers.len());
        for layer in self.layers.iter().filter(|layer| layer.len() > 1) {
            let (sibling, position) = match index % 2 {
                0 => (layer.get(index + 1).unwrap_or(&layer[index]), "R"),
                _ => (&layer[index - 1], "L"),
            };
            steps.push(ProofStep { sibling: hex::encode(sibling), position });
            index /= 2;
        }
        steps
    }
}

fn leaf(row: &RecipientRow<'_>) -> Result<Hash, EnvelopeError> {
    let mut hash = Context::new(&SHA256);
    hash.update(b"AUN-V2-RCPT-LEAF-v1");
    for text in [&*row.aid, &*row.device, row.role.as_str(), &*row.key_source, &*row.fp, &*row.spk_id] {
        // A zero byte ends each text, so a text with one inside could be read in two ways.
        if text.contains('\0') {
            return Err(EnvelopeError::Form("texts in recipients must not contain a zero byte".to_owned()));
        }
        hash.update(text.as_bytes());
        hash.update(&[0]);
    }
    for (name, text) in [("wrap_nonce", &row.wrap_nonce), ("wrapped_key", &row.wrapped_key)] {
        let bytes = STANDARD
            .decode(text.as_bytes())
            .map_err(|_| EnvelopeError::Form(format!("{name} in recipients must be base64")))?;
        hash.update(&bytes);
    }
    Ok(finish(hash))
}

fn node(left: &Hash, right: &Hash) -> Hash {
    let mut hash = Context::new(&SHA256);
    hash.update(b"AUN-V2-RCPT-NODE-v1");
    hash.update(left);
    hash.update(right);
    finish(hash)
}

fn finish(hash: Context) -> Hash {
    hash.finish().as_ref().try_into().expect("a SHA-256 has 32 bytes")
}
