//! What is kept for tenants.

use crate::settings::Settings;
use kernel::{AccountShare, CountedRows, Keeping, Kept, KeptTable, TenantShares};

pub(crate) static KEEPING: Keeping = Keeping {
    service: "run",
    tables: &[
        KeptTable {
            name: "run",
            payer: "payer",
            columns: &["fixed"],
            counted: &[CountedRows { rows: "event_rows", bytes: "event_bytes" }],
        },
        KeptTable { name: "run_command", payer: "payer", columns: &["payload"], counted: &[] },
        KeptTable { name: "run_approval", payer: "payer", columns: &["question", "answer"], counted: &[] },
        KeptTable { name: "run_runner", payer: "payer", columns: &["body"], counted: &[] },
        KeptTable { name: "run_job", payer: "payer", columns: &["env"], counted: &[] },
        KeptTable { name: "run_session", payer: "payer", columns: &["title", "back_end"], counted: &[] },
        KeptTable {
            name: "agui_thread",
            payer: "aid",
            columns: &[],
            counted: &[CountedRows { rows: "event_rows", bytes: "event_bytes" }],
        },
        KeptTable { name: "agui_run", payer: "aid", columns: &["input"], counted: &[] },
        KeptTable {
            name: "agui_message",
            payer: "aid",
            columns: &["content", "attachments", "ui_schema"],
            counted: &[],
        },
        KeptTable { name: "agui_profile", payer: "aid", columns: &["timezone"], counted: &[] },
        KeptTable {
            name: "agui_attachment",
            payer: "aid",
            columns: &[],
            counted: &[CountedRows { rows: "stored_rows", bytes: "stored_bytes" }],
        },
        KeptTable { name: "run_session_reader", payer: "payer", columns: &["reader"], counted: &[] },
    ],
    free: &[
        ("run_event", "counted in the row of its run"),
        ("run_token", "made by the operator, or one for each runner job, and removed with its run"),
        ("run_profile", "written by administrators only, one for each profile"),
        ("run_validation", "made by administrators only, the last ones of each profile"),
        ("run_task", "at most one for each run, which its tenant pays for, and removed with it"),
        ("run_task_worker", "two rows"),
        ("agui_key", "one row"),
    ],
};

/// Agents pay for their conversations. For everything else their tenants do.
pub(crate) fn share(settings: &Settings) -> AccountShare {
    AccountShare { setting: "run.agui.kept_bytes", bytes: settings.agui.kept_bytes }
}

/// Rows that a tenant may keep for each byte: most events are short, and each row counts 512 bytes as well.
const BYTES_PER_ROW: i64 = 512;

/// What each tenant may keep. One that is not listed any more may keep nothing new.
pub(crate) fn tenant_shares(settings: &Settings) -> TenantShares {
    let own = settings.tenants.iter().map(|(name, tenant)| {
        let bytes = i64::try_from(tenant.kept_bytes).unwrap_or(i64::MAX);
        (name.clone(), Kept { bytes, rows: bytes / BYTES_PER_ROW })
    });
    TenantShares { each: Kept::default(), own: own.collect() }
}
