//! Every handler reads the members that the schema of its method lists, and no others.

use crate::services;
use proto_schemas::field_differences;
use testing::TestWorld;

/// Members that a client may send and that this server does not read, as their schemas say.
const NOT_READ: [(&str, &[&str]); 8] = [
    ("auth.aid_login2", &["cert"]),
    (
        "auth.refresh_token",
        &[
            "aid",
            "device_id",
            "slot_id",
            "access_token",
            "access_token_expires_at",
            "sdk_lang",
            "sdk_version",
        ],
    ),
    ("auth.rekey", &["old_cert"]),
    ("auth.renew_cert", &["old_cert"]),
    ("message.e2ee.check_replay_guard", &["encryption_mode", "timestamp_ms", "ephemeral_pk_hash"]),
    ("message.e2ee.record_replay_guard", &["encryption_mode", "timestamp_ms", "ephemeral_pk_hash"]),
    ("message.thought.put", &["encrypted", "type", "timestamp"]),
    ("message.v2.put_peer_pk", &["key_source"]),
];

#[tokio::test]
async fn every_handler_reads_the_members_that_its_schema_lists() {
    let plan = services::rows().iter().fold(TestWorld::with(&[]), |plan, row| plan.and_row(row));
    let test = plan.await;
    let mut wrong = Vec::new();
    for (method, fields) in test.methods.iter().flat_map(|methods| methods.fields()) {
        let Some(fields) = fields else {
            wrong.push(format!("{method}: its params are not a struct of fixed names"));
            continue;
        };
        let schema = &proto_schemas::find(method).expect("Rpc::method has looked it up").doc()["params"];
        let not_read = NOT_READ.iter().filter(|(name, _)| *name == method).flat_map(|(_, names)| *names);
        let mut fields: Vec<&str> = fields.iter().chain(not_read).copied().collect();
        // The gateway has verified the signature before the call gets here.
        if proto_schemas::properties_of(schema).contains("client_signature") {
            fields.push("client_signature");
        }
        wrong.extend(field_differences(&fields, schema).iter().map(|it| format!("{method}: {it}")));
    }
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
