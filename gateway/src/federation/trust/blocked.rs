//! `federation.block`: the domains this one never deals with, by name and by key. A name is easily changed; a key is not
//! without losing the trust in it.

use certs::Certificate;
use std::collections::{HashMap, HashSet};

/// Names of domains, and fingerprints of keys or certificates.
pub(super) struct BlockList {
    names: Vec<String>,
    keys: Vec<String>,
}

impl BlockList {
    pub(super) fn new(entries: &[String]) -> BlockList {
        let (mut names, mut keys) = (Vec::new(), Vec::new());
        for entry in entries {
            match fingerprint(entry) {
                Some(key) => keys.push(key),
                None => names.push(entry.trim().to_ascii_lowercase()),
            }
        }
        BlockList { names, keys }
    }

    /// Whether this domain is blocked by its name.
    pub(super) fn has_name(&self, issuer: &str) -> bool {
        self.names.iter().any(|name| name == issuer)
    }

    /// What is blocked under whatever name: the keys that are listed, and those of the domains that are.
    pub(super) fn keys(&self, pinned: &HashMap<String, String>) -> HashSet<String> {
        let of_names = self.names.iter().filter_map(|name| pinned.get(name));
        self.keys.iter().chain(of_names).cloned().collect()
    }
}

/// Whether a certificate or its key is blocked.
pub(super) fn is_blocked(blocked: &HashSet<String>, certificate: &Certificate) -> bool {
    blocked.contains(certificate.fingerprint()) || blocked.contains(&certificate.public_key().fingerprint())
}

/// A SHA-256 as people copy it: with or without `sha256:`, in either case, with colons between.
fn fingerprint(entry: &str) -> Option<String> {
    let text = entry.trim().to_ascii_lowercase();
    let digits = text.strip_prefix("sha256:").unwrap_or(&text).replace(':', "");
    let is_hash = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| format!("sha256:{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use certs::dev::Pki;

    #[test]
    fn a_key_is_blocked_by_its_fingerprint_and_by_the_name_of_its_domain() {
        let pki = Pki::new("far.test", 1_800_000_000);
        let (issuer, root) = (pki.issuer.certificate(), pki.root.certificate());
        let shown = root.fingerprint().trim_start_matches("sha256:").to_ascii_uppercase();
        let list = BlockList::new(&["Far.test".to_owned(), shown]);
        assert!(list.has_name("far.test") && !list.has_name("near.test"));
        let listed = list.keys(&HashMap::new());
        assert!(is_blocked(&listed, root) && !is_blocked(&listed, issuer));
        let key = issuer.public_key().fingerprint();
        let seen = list.keys(&HashMap::from([("far.test".to_owned(), key)]));
        assert!(is_blocked(&seen, issuer), "whatever its name is now");
    }
}
