//! Cursors: where a reader goes on. Those of the log are plain numbers, because a reader keeps them for long and compares them; the others
//! carry a mark that only this store can make, so that nobody can make one up.

use super::Error;
use super::index::Rank;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How many bytes of the mark are kept.
const MARK_BYTES: usize = 12;

/// Everything up to this sequence is known to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChangeCursor(pub i64);

impl fmt::Display for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chg_{:08}", self.0)
    }
}

impl ChangeCursor {
    pub fn parse(text: &str) -> Result<ChangeCursor, Error> {
        let digits = text.strip_prefix("chg_").filter(|digits| {
            (1..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        let number = digits.and_then(|digits| digits.parse().ok());
        let wrong =
            || Error::Param("cursor must be a next_cursor of this method, such as chg_00000920".to_owned());
        number.map(ChangeCursor).ok_or_else(wrong)
    }
}

/// Where the next page of a snapshot begins.
#[derive(Serialize, Deserialize)]
pub(super) struct SnapshotCursor {
    pub version: String,
    pub last_aid: String,
}

/// Where the next page of a query begins.
#[derive(Serialize, Deserialize)]
pub(super) struct QueryCursor {
    /// Of the query, so that it is not continued with another one.
    pub hash: String,
    /// When its first page was answered: ranks depend on how old a document is.
    pub asked_at: i64,
    /// The sequence of the index that answered.
    pub generation: i64,
    score_bits: u64,
    updated_at: i64,
    aid: String,
}

impl QueryCursor {
    pub fn after(rank: &Rank, hash: String, asked_at: i64, generation: i64) -> QueryCursor {
        QueryCursor {
            hash,
            asked_at,
            generation,
            score_bits: rank.score.to_bits(),
            updated_at: rank.updated_at,
            aid: rank.aid.clone(),
        }
    }

    pub fn rank(&self) -> Rank {
        Rank { score: f64::from_bits(self.score_bits), updated_at: self.updated_at, aid: self.aid.clone() }
    }
}

/// Makes cursors and recognises those it made.
pub(super) struct CursorKey(hmac::Key);

impl CursorKey {
    pub fn new(key: &str) -> CursorKey {
        CursorKey(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))
    }

    /// A number that nobody without the key can compute.
    pub fn hash(&self, text: &str) -> u64 {
        let tag = hmac::sign(&self.0, text.as_bytes());
        tag.as_ref().iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
    }

    pub fn write(&self, prefix: &str, cursor: &impl Serialize) -> Result<String, Error> {
        let mut bytes = serde_json::to_vec(cursor).map_err(|error| Error::Index(error.into()))?;
        let mark = hmac::sign(&self.0, &marked(prefix, &bytes));
        bytes.extend_from_slice(&mark.as_ref()[..MARK_BYTES]);
        Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// None if this store did not make it, or not with this prefix.
    pub fn read<T: DeserializeOwned>(&self, prefix: &str, text: &str) -> Option<T> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(prefix)?).ok()?;
        let (bytes, mark) = bytes.split_at_checked(bytes.len().checked_sub(MARK_BYTES)?)?;
        let expected = hmac::sign(&self.0, &marked(prefix, bytes));
        // A cursor gives access to nothing: how long the comparison takes tells nothing of use.
        if expected.as_ref()[..MARK_BYTES] != *mark {
            return None;
        }
        serde_json::from_slice(bytes).ok()
    }
}

fn marked(prefix: &str, bytes: &[u8]) -> Vec<u8> {
    [prefix.as_bytes(), bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_cursor_is_a_number_of_at_least_eight_digits() {
        assert_eq!(ChangeCursor(991).to_string(), "chg_00000991");
        assert_eq!(ChangeCursor(1_234_567_890).to_string(), "chg_1234567890");
        for number in [0, 991, 1_234_567_890] {
            assert_eq!(ChangeCursor::parse(&ChangeCursor(number).to_string()).unwrap(), ChangeCursor(number));
        }
        for bad in ["", "chg_", "991", "chg_-1", "chg_+1", "chg_1x", "snap_1", "chg_9999999999999999999"] {
            assert!(ChangeCursor::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cursor_of_another_store_kind_or_content_is_not_read() {
        let key = CursorKey::new("one");
        let cursor = SnapshotCursor { version: "v".into(), last_aid: "alice.aid.pub".into() };
        let text = key.write("snap_", &cursor).unwrap();
        let read: SnapshotCursor = key.read("snap_", &text).unwrap();
        assert_eq!((read.version, read.last_aid), (cursor.version.clone(), cursor.last_aid.clone()));
        assert!(CursorKey::new("two").read::<SnapshotCursor>("snap_", &text).is_none());
        assert!(key.read::<SnapshotCursor>("cur_", &text.replace("snap_", "cur_")).is_none());
        let mut changed = text.clone().into_bytes();
        changed[8] ^= 1;
        assert!(key.read::<SnapshotCursor>("snap_", str::from_utf8(&changed).unwrap()).is_none());
        for bad in ["snap_", "snap_0001", "snap_%%%", "", "x"] {
            assert!(key.read::<SnapshotCursor>("snap_", bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_query_cursor_keeps_every_bit_of_the_score() {
        let rank = Rank { score: 0.1 + 0.2, updated_at: 7, aid: "alice.aid.pub".into() };
        let key = CursorKey::new("one");
        let text = key.write("cur_", &QueryCursor::after(&rank, "h".into(), 1, 2)).unwrap();
        let read: QueryCursor = key.read("cur_", &text).unwrap();
        assert_eq!(read.rank().score.to_bits(), rank.score.to_bits());
        assert_eq!((read.hash.as_str(), read.asked_at, read.generation), ("h", 1, 2));
    }
}
