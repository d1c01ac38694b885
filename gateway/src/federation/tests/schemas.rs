//! What the gateway reads of a call to or from another domain is what the schemas list.

use crate::federation::inbound::relay_batch::RelayBatchParams;
use crate::federation::wire::hello::HelloParams;
use crate::federation::wire::relay::Relay;
use proto_schemas::{field_differences, fields_of};

#[test]
fn what_another_gateway_may_send_is_in_the_schemas() {
    assert_same("federation.hello", fields_of::<HelloParams>().unwrap());
    assert_same("federation.relay", fields_of::<Relay<'static>>().unwrap());
    // Each item has its own deadline; that of the batch is not read.
    let batch = fields_of::<RelayBatchParams<'static>>().unwrap();
    assert_same("federation.relay_batch", &[batch, &["deadline_ms"]].concat());
}

fn assert_same(method: &str, fields: &[&str]) {
    let schema = &proto_schemas::find(method).unwrap().doc()["params"];
    assert_eq!(field_differences(fields, schema), [""; 0], "{method}");
}
