//! Text of limited length.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Text of so many characters at least and at most, without control characters but tabs and line ends: no store takes a NUL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct LimitedText<const LEAST: usize, const MOST: usize>(String);

impl<const LEAST: usize, const MOST: usize> LimitedText<LEAST, MOST> {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

impl<const LEAST: usize, const MOST: usize> TryFrom<String> for LimitedText<LEAST, MOST> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if !(LEAST..=MOST).contains(&text.chars().count()) {
            return Err(format!("it must have {LEAST} to {MOST} characters"));
        }
        if text.chars().any(|next| next.is_control() && !matches!(next, '\n' | '\r' | '\t')) {
            return Err("it must not have control characters".to_owned());
        }
        Ok(LimitedText(text))
    }
}

impl<const LEAST: usize, const MOST: usize> FromStr for LimitedText<LEAST, MOST> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.to_owned().try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_its_length_and_no_control_characters() {
        let read = |text: &str| text.parse::<LimitedText<1, 64>>();
        for good in ["ä".repeat(64), "two\nlines".to_owned()] {
            assert_eq!(read(&good).unwrap().into_text(), good);
        }
        for bad in [String::new(), "ä".repeat(65), "a\u{0}b".to_owned(), "\u{1b}[2J".to_owned()] {
            assert!(read(&bad).is_err(), "{bad:?}");
        }
        assert!("".parse::<LimitedText<0, 1>>().is_ok());
    }
}
