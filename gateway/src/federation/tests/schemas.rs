//! What the gateway reads of a call to or from another domain is what the schemas list.

use super::support::two_domains::TwoDomains;
use crate::federation::inbound::relay_batch::RelayBatchParams;
use crate::federation::wire::hello::HelloParams;
use crate::federation::wire::relay::Relay;
use proto_schemas::{field_differences, fields_of};
use std::collections::BTreeSet;

#[test]
fn what_another_gateway_may_send_is_in_the_schemas() {
    assert_same("federation.hello", fields_of::<HelloParams>().unwrap());
    assert_same("federation.relay", fields_of::<Relay<'static>>().unwrap());
    // Each item has its own deadline; that of the batch is not read.
    let batch = fields_of::<RelayBatchParams<'static>>().unwrap();
    assert_same("federation.relay_batch", &[batch, &["deadline_ms"]].concat());
}

#[tokio::test]
async fn every_method_that_services_call_at_the_gateway_has_a_handler() {
    let domains = TwoDomains::new().await;
    let methods = domains.fed.methods();
    let served: BTreeSet<&str> = methods.names().collect();
    let declared = proto_schemas::methods().iter().filter(|method| method.namespace.name == "gateway");
    assert_eq!(served, declared.map(|method| method.name).collect());
}

fn assert_same(method: &str, fields: &[&str]) {
    let schema = &proto_schemas::find(method).unwrap().doc()["params"];
    assert_eq!(field_differences(fields, schema), [""; 0], "{method}");
}
