//! What is kept for tenants.

use kernel::{AccountShare, CountedRows, Keeping, KeptTable};

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
        KeptTable { name: "run_session_reader", payer: "payer", columns: &["reader"], counted: &[] },
    ],
    free: &[
        ("run_event", "counted in the row of its run"),
        ("run_token", "made by the operator, or one for each runner job, and removed with its run"),
        ("run_profile", "written by administrators only, one for each profile"),
    ],
};

/// Agents pay for nothing here: their tenants do.
pub(crate) fn share() -> AccountShare {
    AccountShare { setting: "run.tenants.NAME.kept_bytes", bytes: 0 }
}
