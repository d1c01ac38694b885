//! How large a message may be: each of its rows as a client reads it.
//!
//! SDKs up to 0.5.4 read frames of at most 1 MiB. A row that does not fit into one would be sent again with every pull, and
//! nothing behind it in the inbox would be read until it is removed.

use crate::Error;
use crate::delivery::rows::VolatileFields;
use crate::store::stored_message::{InboxEntry, StoredMessage};
use kernel::DeviceId;
use serde_json::value::RawValue;

pub(crate) const MAX_ROW_BYTES: usize = 1_000_000;
/// The most bytes that JSON writes for one.
const MOST_ESCAPED: usize = 6;
/// More than the members of a row have that no sender writes.
const FIXED_BYTES: usize = 4096;
/// A row has its seq when it is stored. Clients read none that is larger than this.
const LARGEST_SEQ: i64 = (1 << 53) - 1;
/// At least as many characters as a volatile cursor has.
const CURSOR_CHARS: usize = 64;

/// Refuses a message if one of its rows would be too large. The rows of a volatile message say when they expire.
pub(crate) fn check(message: &StoredMessage, devices: &[DeviceId], volatile: bool) -> Result<(), Error> {
    for (entry, device) in message.entries.iter().zip(devices) {
        if is_surely_small(message, entry) {
            continue;
        }
        let bytes = written_bytes(message, entry, device, volatile);
        if bytes > MAX_ROW_BYTES {
            return Err(Error::Param(format!(
                "payload: the message as delivered must have at most {MAX_ROW_BYTES} bytes, and has {bytes}"
            )));
        }
    }
    Ok(())
}

/// Whether the row is small enough however it is written: most messages need not be written only to be measured.
fn is_surely_small(message: &StoredMessage, entry: &InboxEntry) -> bool {
    let attributes = &message.attributes;
    let raw = [&attributes.protected_headers, &attributes.headers, &attributes.context];
    let raw = raw.into_iter().flatten().map(|raw| raw.get().len()).sum::<usize>();
    let copy = message.copies.get(entry.copy as usize).map_or(0, |copy| copy.get().len());
    let kind = attributes.kind.as_ref().map_or(0, String::len);
    let written = message.body.get().len() + copy + raw + kind + message.message_id.len();
    written.saturating_mul(MOST_ESCAPED) + FIXED_BYTES <= MAX_ROW_BYTES
}

/// The larger one of the two rows that clients read of it.
fn written_bytes(message: &StoredMessage, entry: &InboxEntry, device: &DeviceId, volatile: bool) -> usize {
    let entry = InboxEntry { seq: LARGEST_SEQ, ..*entry };
    let fields = volatile.then(|| VolatileFields {
        storage: "volatile",
        volatile_cursor: "0".repeat(CURSOR_CHARS),
        created_at: message.at,
        expires_at: message.at,
    });
    let rows =
        [message.plain_row(&entry, device, fields.as_ref()), message.v2_row(&entry, device, fields.as_ref())];
    let bytes = |row: Box<RawValue>| row.get().len();
    rows.into_iter().flatten().map(bytes).max().unwrap_or_default()
}
