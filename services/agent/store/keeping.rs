//! What is kept for agents: documents, what owners register, and what users grant.

use kernel::{AccountShare, Keeping, KeptTable};

pub(crate) static KEEPING: Keeping = Keeping {
    service: "agent",
    tables: &[
        KeptTable { name: "agent_md", payer: "aid", columns: &["content"], counted: &[] },
        KeptTable {
            name: "agent",
            payer: "owner",
            columns: &[
                "name",
                "description",
                "health_check_url",
                "webhook_url",
                "manifest",
                "manifest_facts",
                "consent_facts",
            ],
            counted: &[],
        },
        // What a user has to be asked about comes from the manifest, whose owner pays for it.
        KeptTable { name: "relation", payer: "user_aid", columns: &["granted_scopes"], counted: &[] },
    ],
    free: &[
        ("agent_change", "one for each agent that ever had a document"),
        ("agent_state", "as many as there are names in the code"),
        ("used_proof", "removed after some minutes, one for each registration"),
        ("event_outbox", "an owner has at most 10000"),
        ("event_destination", "there is one"),
        ("webhook_outbox", "an agent has at most 100, and an owner webhook.waiting_per_owner"),
        ("webhook_destination", "one for each agent with a webhook"),
        ("webhook_ended", "an agent has at most 100"),
        ("message_outbox", "two for each agent with a webhook"),
        ("message_destination", "one for each agent with a webhook"),
        ("message_attempt", "one for each agent with a webhook"),
    ],
};

pub(crate) fn share(bytes: u64) -> AccountShare {
    AccountShare { setting: "agent.kept_bytes", bytes }
}
