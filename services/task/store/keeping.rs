//! What tasks keep for agents: the author of a text or an artifact pays for it, and the owner of a task for the task.

use kernel::{AccountFull, AccountShare, Keeping, KeptTable};

pub(crate) static KEEPING: Keeping = Keeping {
    service: "task",
    tables: &[
        KeptTable {
            name: "task",
            payer: "owner",
            columns: &["title", "metadata", "participants"],
            counted: &[],
        },
        KeptTable { name: "task_message", payer: "from_aid", columns: &["body"], counted: &[] },
        KeptTable { name: "task_artifact", payer: "created_by", columns: &["meta", "content"], counted: &[] },
    ],
    free: &[
        ("task_participant", "the owner pays for the list of a task, which has at most 50"),
        ("task_answer", "removed after a day, one for each call that changed a task"),
        ("task_subscription", "a device and slot have at most 1000"),
        ("task_content_removal", "one for each agent whose share was full"),
        ("task_stub", "an agent has at most 10000 of one domain"),
        ("relay_outbox", "one for each task and domain"),
        ("relay_destination", "one for each domain"),
    ],
};

/// The settings that limit the share of an agent, as refusals name them.
const KEPT_BYTES: &str = "task.kept_bytes";
const KEPT_ROWS: &str = "accounts.rows";

pub(crate) fn share(bytes: u64) -> AccountShare {
    AccountShare { setting: KEPT_BYTES, bytes }
}

/// Whether the share of the caller itself is full, and nothing else.
pub(crate) fn is_own_share(full: &AccountFull) -> bool {
    [KEPT_BYTES, KEPT_ROWS].contains(&full.scope)
}
