//! For which scopes of medium sensitivity a person was asked, and when they were used last.

use crate::error::Error;
use crate::files;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// How long nobody is asked again after a call.
const SILENT_MS: i64 = 24 * 60 * 60 * 1000;

/// What a person confirmed on this device. It is the folder's, and so the device's.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConfirmedScope {
    pub agent_id: String,
    pub conversation: String,
    pub scope: String,
}

#[derive(Serialize, Deserialize)]
struct ScopeUse {
    #[serde(flatten)]
    confirmed: ConfirmedScope,
    /// When it was used last, in unix milliseconds.
    used: i64,
}

/// The consents of one device. Calls need `locked` around them.
pub(super) struct DayConsents(PathBuf);

impl DayConsents {
    pub fn new(file: PathBuf) -> DayConsents {
        DayConsents(file)
    }

    /// Whether it was used within the last 24 hours. Notes this use, if so.
    pub fn use_silently(&self, confirmed: &ConfirmedScope, now: i64) -> Result<bool, Error> {
        let silent = self.read(now).iter().any(|entry| entry.confirmed == *confirmed);
        if silent {
            self.confirm(confirmed, now)?;
        }
        Ok(silent)
    }

    /// Notes that it was confirmed and used.
    pub fn confirm(&self, confirmed: &ConfirmedScope, now: i64) -> Result<(), Error> {
        let mut entries = self.read(now);
        entries.retain(|entry| entry.confirmed != *confirmed);
        entries.push(ScopeUse { confirmed: confirmed.clone(), used: now });
        let text = serde_json::to_string(&entries).map_err(|error| Error::Invalid(error.to_string()))?;
        files::replace(&self.0, &text)
    }

    /// Those that count. A file that cannot be read is as good as none: the person is asked again. The same goes for a use in the
    /// future, after somebody turned the clock back.
    fn read(&self, now: i64) -> Vec<ScopeUse> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let mut entries: Vec<ScopeUse> = serde_json::from_str(&text).unwrap_or_default();
        entries.retain(|entry| (0..SILENT_MS).contains(&(now - entry.used)));
        entries
    }
}
