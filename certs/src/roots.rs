//! The signed list of trusted roots.
//!
//! The list is signed by an authority of its own, which issues no certificate: the one that decides which roots are
//! trusted must not be one of them.

use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use crate::{
    CertError, Certificate, Curve, Key, PublicKey, canonical_json,
    issue::{moment, self_signed_leaf},
};

const SIGNATURE: &str = "authority_signature";
const THIRTY_YEARS: i64 = 30 * 365 * 24 * 3600;

/// The list with its `authority_signature`: over everything else in it, in canonical JSON.
pub fn sign(mut list: Value, authority: &Key) -> Value {
    if let Some(members) = list.as_object_mut() {
        members.remove(SIGNATURE);
    }
    let signature = authority.sign(&canonical_json(&list));
    list[SIGNATURE] = Value::String(general_purpose::STANDARD.encode(signature));
    list
}

/// Whether the authority signed this list, and nothing was added or changed since.
pub fn verify(list: &Value, authority: &PublicKey) -> bool {
    let mut unsigned = list.clone();
    let Some(Value::String(signature)) =
        unsigned.as_object_mut().and_then(|members| members.remove(SIGNATURE))
    else {
        return false;
    };
    decode(&signature).is_some_and(|signature| authority.verify(&canonical_json(&unsigned), &signature))
}

/// One entry of `root_cas`, active; the places of its CRL and OCSP can be added as `crl_url` and `ocsp_url`.
pub fn entry(id: &str, root: &Certificate, added_at: i64) -> Value {
    json!({
        "id": id,
        "name": root.common_name(),
        "organization": root.organization(),
        "certificate": root.pem(),
        "fingerprint_sha256": root.fingerprint().trim_start_matches("sha256:"),
        "valid_from": rfc3339(root.not_before()),
        "valid_until": rfc3339(root.not_after()),
        "added_at": rfc3339(added_at),
        "status": "active",
    })
}

/// The certificate of the authority that signs the list: self-signed, thirty years, and no CA, so that no chain
/// can ever end in it.
pub fn authority_certificate(name: &str, key: &Key, now: i64) -> Result<Certificate, CertError> {
    if key.curve() != Curve::P384 {
        return Err(CertError::AuthorityCurve(key.curve()));
    }
    self_signed_leaf(name, key, now, now + THIRTY_YEARS)
}

/// Both alphabets, with or without padding, with or without `base64:`: what the SDKs accept in this place.
fn decode(signature: &str) -> Option<Vec<u8>> {
    let text = signature.strip_prefix("base64:").unwrap_or(signature);
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    [STANDARD, URL_SAFE].iter().find_map(|alphabet| GeneralPurpose::new(alphabet, lenient).decode(text).ok())
}

fn rfc3339(seconds: i64) -> String {
    let time = moment(seconds).and_then(|time| time.format(&Rfc3339).ok());
    time.expect("a time inside the calendar has a date")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, ChainError, dev::Pki, verify_chain};

    const NOW: i64 = 1_800_000_000;

    fn list(root: &Authority) -> Value {
        json!({
            "version": 2,
            "issued_at": rfc3339(NOW),
            "next_update": rfc3339(NOW + 86_400),
            "root_cas": [entry("root-ca-001", root.certificate(), NOW)],
        })
    }

    #[test]
    fn a_signed_list_verifies_until_anything_in_it_changes() {
        let (root, key) = (Authority::root("Wurzel ä", "Org", NOW), Key::generate(Curve::P384));
        let signed = sign(list(&root), &key);
        assert!(verify(&signed, &key.public()));
        assert!(!verify(&signed, &Key::generate(Curve::P384).public()));

        for (pointer, other) in
            [("/version", json!(3)), ("/root_cas/0/status", json!("revoked")), ("/root_cas", json!([]))]
        {
            let mut changed = signed.clone();
            *changed.pointer_mut(pointer).unwrap() = other;
            assert!(!verify(&changed, &key.public()), "{pointer} is not covered");
        }
        let mut added = signed.clone();
        added["extra"] = json!(1);
        assert!(!verify(&added, &key.public()));
    }

    #[test]
    fn signing_again_replaces_the_signature() {
        let (root, key) = (Authority::root("Root", "Org", NOW), Key::generate(Curve::P384));
        let twice = sign(sign(list(&root), &key), &key);
        assert!(verify(&twice, &key.public()));
    }

    #[test]
    fn a_signature_is_read_in_every_spelling_the_sdks_read() {
        let (root, key) = (Authority::root("Root", "Org", NOW), Key::generate(Curve::P384));
        let mut signed = sign(list(&root), &key);
        let text = signed[SIGNATURE].as_str().unwrap().to_owned();
        let url_safe = text.replace('+', "-").replace('/', "_");
        for spelling in [text.trim_end_matches('=').to_owned(), format!("base64:{text}"), url_safe] {
            signed[SIGNATURE] = json!(spelling);
            assert!(verify(&signed, &key.public()), "{spelling}");
        }
        for wrong in [json!(null), json!(""), json!("%"), json!(7)] {
            signed[SIGNATURE] = wrong;
            assert!(!verify(&signed, &key.public()));
        }
        assert!(!verify(&json!([]), &key.public()));
    }

    #[test]
    fn an_entry_says_what_the_certificate_says() {
        let root = Authority::root("Root", "Org", NOW);
        let entry = entry("root-ca-001", root.certificate(), NOW);
        assert_eq!(entry["name"], "Root");
        assert_eq!(entry["organization"], "Org");
        assert_eq!(entry["fingerprint_sha256"].as_str().unwrap().len(), 64);
        assert_eq!(entry["added_at"], "2027-01-15T08:00:00Z");
        assert_eq!(entry["certificate"], root.certificate().pem());
    }

    #[test]
    fn the_authority_of_the_list_is_no_ca_and_no_chain_ends_in_it() {
        let key = Key::generate(Curve::P384);
        let certificate = authority_certificate("AUN Authority", &key, NOW).unwrap();
        assert!(!certificate.is_ca());
        assert_eq!(certificate.issuer_name_der(), certificate.subject_name_der());
        assert_eq!(certificate.not_after() - certificate.not_before(), THIRTY_YEARS);
        assert!(certificate.is_signed_by(&key.public()));
        let pki = Pki::new("a.test", NOW);
        let verdict = verify_chain(&certificate, &[], &[pki.root.certificate().clone()], NOW);
        assert!(matches!(verdict, Err(ChainError::UnknownIssuer(_))));

        let small = authority_certificate("AUN Authority", &Key::generate(Curve::P256), NOW);
        assert_eq!(small.unwrap_err(), CertError::AuthorityCurve(Curve::P256));
    }
}
