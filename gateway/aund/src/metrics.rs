//! Every metric of the server is in the guide for operators.

use crate::services;
use gateway::telemetry::Metrics;
use kernel::{ServiceMetrics, StoreUrl, Stores, Tasks, World};

/// Every metric as it is printed before its value, a histogram by its own name.
fn names(text: &str) -> Vec<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| format!("{name}{}", if kind == "counter" { "_total" } else { "" })).collect()
}

/// What the services count: they register it when they are opened.
async fn service_metrics() -> ServiceMetrics {
    let folder = tempfile::tempdir().unwrap();
    let world = World::local("a.example", folder.path(), StoreUrl::Sqlite(folder.path().to_owned()));
    for row in services::rows() {
        let mut service = row.configured(Default::default()).unwrap().open(&world).await.unwrap();
        service.tasks.clear();
        world.add(service);
    }
    world.metrics
}

#[tokio::test]
async fn the_guide_for_operators_names_every_metric_and_no_other() {
    let stores = Stores::default();
    let metrics = Metrics::of(&stores, &Tasks::default(), &service_metrics().await);
    stores.tally("message").set_unindexed(|| 0);
    metrics.closed(1012);
    metrics.refused("sockets");
    metrics.http("health", 200);
    metrics.runs("ca");
    metrics.link("ca", "wss://127.0.0.1:7443");
    let (text, guide) = (metrics.text(), include_str!("../../../docs/operations.md"));
    let names = names(&text);
    for name in &names {
        assert!(guide.contains(&format!("| `{name}")), "{name} has no row in the table of the guide");
    }
    for named in guide.split('`').skip(1).step_by(2).filter(|word| word.starts_with("aund_")) {
        let named = named.split('{').next().unwrap_or(named);
        assert!(names.iter().any(|name| name == named), "the guide has {named}, which does not exist");
    }
    let help = text.lines().filter(|line| line.starts_with("# HELP ")).count();
    assert_eq!(names.len(), help, "each has a help text");
}
