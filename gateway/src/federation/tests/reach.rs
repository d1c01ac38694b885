//! Before hello: discovery, TLS, proof, and the pause after a failure.

use super::rig::{Rig, THEIRS};
use services::kernel::Caller;

#[tokio::test]
async fn the_way_is_walked_step_by_step() {
    let rig = Rig::new().await;
    let params = serde_json::from_value(serde_json::json!({ "issuer": THEIRS })).unwrap();
    let theirs = async { rig.link().await.next().await };
    let (tested, _) = tokio::join!(rig.fed.clone().test_peer(Caller::Operator, params), theirs);
    let tested = serde_json::to_value(tested.unwrap()).unwrap();
    assert_eq!(tested["ok"], true, "{tested}");
    let steps: Vec<_> = tested["steps"].as_array().unwrap().iter().map(|step| step["step"].clone()).collect();
    assert_eq!(steps, ["discover", "connect", "hello", "ping"]);
}
