//! Every method that a service has to answer has a handler, in that service, and every service of the schemas is one of ours.

use crate::services;
use std::collections::BTreeSet;
use testing::TestWorld;

/// `auth.connect` makes a session, which is the gateway's.
const OF_THE_GATEWAY: [&str; 1] = ["auth.connect"];

#[tokio::test]
async fn every_method_of_a_service_has_a_handler() {
    let rows = services::rows();
    let plan = rows.iter().fold(TestWorld::with(&[]), |plan, row| plan.and_row(row));
    let test = plan.await;
    assert_eq!(test.methods.len(), rows.len());
    for (row, methods) in rows.iter().zip(&test.methods) {
        let served: BTreeSet<&str> = methods.names().collect();
        let declared = proto_schemas::methods().iter().filter(|method| method.namespace.service == row.name);
        let declared: BTreeSet<&str> =
            declared.map(|method| method.name).filter(|name| !OF_THE_GATEWAY.contains(name)).collect();
        assert!(!declared.is_empty(), "{} has no method", row.name);
        assert_eq!(served, declared, "{}", row.name);
    }
    let opened: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
    let declared: BTreeSet<&str> =
        proto_schemas::services().filter(|service| *service != "gateway").collect();
    assert_eq!(opened, declared);
}
