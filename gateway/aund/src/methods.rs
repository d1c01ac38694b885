//! Every method that a service has to answer has a handler, in that service.

use crate::services;
use std::collections::BTreeSet;
use testing::TestWorld;

/// `auth.connect` makes a session, which is the gateway's.
const OF_THE_GATEWAY: [&str; 1] = ["auth.connect"];

#[tokio::test]
async fn every_method_of_a_service_has_a_handler() {
    let plan = services::rows().iter().fold(TestWorld::with(&[]), |plan, row| plan.and_row(row));
    let test = plan.await;
    let served: BTreeSet<&str> = test.methods.iter().flat_map(|methods| methods.names()).collect();
    let declared = proto_schemas::methods().iter().filter(|method| method.namespace.service != "gateway");
    let declared: BTreeSet<&str> =
        declared.map(|method| method.name).filter(|name| !OF_THE_GATEWAY.contains(name)).collect();
    assert_eq!(served, declared);
}
