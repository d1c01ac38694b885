//! What is true of any set of rows.

use super::*;
use crate::envelope::row as row_of;
use proptest::prelude::*;
use ring::digest::{SHA256, digest};
use testing::cases;

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn every_reader_can_verify_its_row((rows, root) in row_set()) {
        let payload = raw(&envelope(&rows, &root));
        let opened = open(&payload).unwrap();
        for index in 0..rows.len() {
            prop_assert_eq!(root_by_proof(&opened.wrap(index)), root.as_str());
        }
    }

    #[test]
    fn a_byte_changed_in_the_recipients_or_their_digest_is_noticed(
        (rows, root) in row_set(), at in any::<prop::sample::Index>(), new in b' '..=b'~', digest in prop::bool::ANY,
    ) {
        let text = raw(&envelope(&rows, &root)).get().to_owned();
        let part = if digest { json!(root).to_string() } else { json!(rows).to_string() };
        let start = text.find(&part).unwrap();
        let at = start + at.index(part.len());
        prop_assume!(text.as_bytes()[at].is_ascii() && text.as_bytes()[at] != new);
        let mut bytes = text.into_bytes();
        bytes[at] = new;
        let text = String::from_utf8(bytes).unwrap();
        let Ok(payload) = serde_json::from_str::<Box<RawValue>>(&text) else { return Ok(()) };
        prop_assert!(open(&payload).is_err());
    }
}

/// Rows in order, and the digest over them.
fn row_set() -> impl Strategy<Value = (Vec<Value>, String)> {
    let name = ("[a-zA-Z0-9._-]{0,12}", prop::bool::ANY);
    let row = (any::<[u8; 12]>(), prop::collection::vec(any::<u8>(), 48), "\\PC{0,8}");
    prop::collection::btree_map(name, row, 1..20).prop_map(|rows| {
        let mut texts: Vec<Vec<String>> = Vec::new();
        for ((device, own), (nonce, key, free)) in rows {
            let (aid, role) =
                if own { ("alice.agentid.pub", "self_sync") } else { ("bobb.agentid.pub", "peer") };
            let free = free.replace('\0', "");
            let (nonce, key) = (STANDARD.encode(nonce), STANDARD.encode(key));
            texts.push(vec![
                aid.into(),
                device,
                role.into(),
                "aid_master".into(),
                free.clone(),
                free,
                nonce,
                key,
            ]);
        }
        let last = [abc()[1][0].as_str().unwrap(), "~", "peer", "k", "f", "s", "", ""].map(str::to_owned);
        texts.push(last.to_vec());
        texts.sort();
        let made: Vec<RecipientRow<'_>> = texts.iter().map(|texts| made(texts)).collect();
        let root = RecipientTree::over(&made).ok().unwrap().root();
        (texts.iter().map(|texts| json!(texts)).collect(), root)
    })
}

fn made(texts: &[String]) -> RecipientRow<'_> {
    let texts: [BorrowedText<'_>; 8] =
        std::array::from_fn(|at| BorrowedText(Cow::Borrowed(texts[at].as_str())));
    row_of(texts).unwrap()
}

/// Computes the root as a reader does, from what the reader gets.
fn root_by_proof(wrap: &RawValue) -> String {
    let wrap: Value = serde_json::from_str(wrap.get()).unwrap();
    let text = |name: &str| wrap["recipient"][name].as_str().unwrap();
    let mut bytes = b"AUN-V2-RCPT-LEAF-v1".to_vec();
    for name in ["aid", "device_id", "role", "key_source", "fp", "spk_id"] {
        bytes.extend([text(name).as_bytes(), &[0]].concat());
    }
    for name in ["wrap_nonce", "wrapped_key"] {
        bytes.extend(STANDARD.decode(text(name)).unwrap());
    }
    let mut hash = digest(&SHA256, &bytes).as_ref().to_vec();
    for step in wrap["merkle_proof"].as_array().unwrap() {
        let sibling = hex::decode(step["sibling"].as_str().unwrap()).unwrap();
        let (left, right) = if step["position"] == "R" { (hash, sibling) } else { (sibling, hash) };
        let node = [b"AUN-V2-RCPT-NODE-v1".to_vec(), left, right].concat();
        hash = digest(&SHA256, &node).as_ref().to_vec();
    }
    hex::encode(hash)
}
