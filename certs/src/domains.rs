//! The domains that a root is trusted for. Whoever holds a root can sign an authority of any name, so whoever trusts a root
//! says for which names.

use std::fmt;

use crate::CertError;

/// What stands for every domain.
const ANY: &str = "*";

/// Names of domains, and patterns such as `*.east.example`, which stands for every name below `east.example`, and not for
/// `east.example` itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootDomains(Vec<String>);

impl RootDomains {
    /// Every domain.
    pub fn any() -> RootDomains {
        RootDomains(vec![ANY.to_owned()])
    }

    /// No domain.
    pub fn none() -> RootDomains {
        RootDomains(Vec::new())
    }

    /// Reads names and patterns, in any case and order; `*` alone is every domain.
    pub fn parse<T: AsRef<str>>(patterns: &[T]) -> Result<RootDomains, CertError> {
        let mut domains = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            let pattern = pattern.as_ref().trim().to_ascii_lowercase();
            let any = pattern == ANY && patterns.len() == 1;
            if !any && !is_domain(pattern.strip_prefix("*.").unwrap_or(&pattern)) {
                return Err(CertError::Domain(pattern.chars().take(80).collect()));
            }
            domains.push(pattern);
        }
        domains.sort();
        domains.dedup();
        Ok(RootDomains(domains))
    }

    /// Whether this is one of the domains.
    pub fn covers(&self, domain: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_prefix("*.") {
            Some(above) => {
                domain.strip_suffix(above).is_some_and(|below| below.len() > 1 && below.ends_with('.'))
            }
            None => pattern == domain || pattern == ANY,
        })
    }

    /// Whether it is every domain.
    pub fn is_any(&self) -> bool {
        self.0.iter().any(|pattern| pattern == ANY)
    }

    /// The names and patterns, sorted.
    pub fn patterns(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for RootDomains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("no domain"),
            _ if self.is_any() => f.write_str("any domain"),
            patterns => f.write_str(&patterns.join(", ")),
        }
    }
}

/// Whether this is the name of a domain as it stands in AIDs: in lower case, without a dot at either end.
pub fn is_domain(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= 190
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
        && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(patterns: &[&str]) -> RootDomains {
        RootDomains::parse(patterns).unwrap()
    }

    #[test]
    fn a_name_covers_itself_and_a_pattern_what_is_below() {
        let some = domains(&["south.example", "*.East.example"]);
        for (domain, covered) in [
            ("south.example", true),
            ("a.south.example", false),
            ("east.example", false),
            ("a.east.example", true),
            ("a.b.east.example", true),
            ("northeast.example", false),
            (".east.example", false),
            ("", false),
        ] {
            assert_eq!(some.covers(domain), covered, "{domain}");
        }
        assert_eq!(some.to_string(), "*.east.example, south.example");
        assert!(!some.is_any());
    }

    #[test]
    fn every_domain_has_to_be_said_and_none_covers_none() {
        let any = domains(&["*"]);
        assert!(any.is_any() && any.covers("east.example"));
        assert_eq!((any.clone(), any.to_string()), (RootDomains::any(), "any domain".to_owned()));
        assert!(!RootDomains::none().covers("east.example"));
    }

    #[test]
    fn what_is_no_name_and_no_pattern_is_refused() {
        for wrong in ["", "*.", "*x.example", "a.*.example", "a..b", ".a", "a.", "a b", "**", "é.example"] {
            assert!(matches!(RootDomains::parse(&[wrong]), Err(CertError::Domain(_))), "{wrong:?}");
        }
        assert!(RootDomains::parse(&["*", "a.example"]).is_err(), "every domain, and one of them");
    }
}
