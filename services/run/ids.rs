//! Identifiers: a prefix and 32 hex characters, in the order in which they were made.

use kernel::Ids;

/// `run_` and a UUID of version 7 without its dashes.
pub(crate) fn new_id(ids: &Ids, prefix: &str, now: i64) -> String {
    format!("{prefix}_{}", ids.time_ordered(now).replace('-', ""))
}

/// Whether an id may name something. None that was ever given has a control character, and PostgreSQL refuses a statement in which a text
/// has a NUL.
pub(crate) fn can_exist(id: &str) -> bool {
    !id.chars().any(char::is_control)
}

/// The id of an event follows from its run and its seq, so it is not stored.
pub(crate) fn event_id(run_id: &str, seq: i64) -> String {
    let hex = run_id.strip_prefix("run_").unwrap_or(run_id);
    let of_run = u128::from_str_radix(hex, 16).unwrap_or_default();
    format!("evt_{:032x}", of_run ^ u128::from(seq.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_ordered_and_those_of_events_differ() {
        let ids = Ids::default();
        let (one, two) = (new_id(&ids, "run", 5), new_id(&ids, "run", 5));
        assert!(one < two && one.len() == 36, "{one} {two}");
        let events: BTreeSet<String> =
            [&one, &two].iter().flat_map(|run| (1..100).map(|seq| event_id(run, seq))).collect();
        assert_eq!(events.len(), 198);
        assert!(events.iter().all(|id| id.len() == 36));
    }
}
