//! The metrics of the server, as a process with every service prints them.

use super::markdown;
use crate::services;
use gateway::telemetry::Metrics;
use kernel::{DiskReading, StoreUrl, Task, World};
use std::collections::BTreeMap;

/// The table of the reference.
pub(super) async fn table() -> String {
    let text = printed().await;
    let rows =
        metrics(&text).into_iter().map(|metric| [format!("`{}`", metric.shown()), metric.help.to_owned()]);
    markdown::table(["metric", "what"], rows)
}

/// One metric of the text that tools scrape.
struct PrintedMetric<'a> {
    name: &'a str,
    kind: &'a str,
    help: &'a str,
    labels: Vec<&'a str>,
}

impl PrintedMetric<'_> {
    /// As it stands in front of its value, a histogram by its own name.
    fn full_name(&self) -> String {
        format!("{}{}", self.name, if self.kind == "counter" { "_total" } else { "" })
    }

    fn shown(&self) -> String {
        match &self.labels[..] {
            [] => self.full_name(),
            labels => format!("{}{{{}}}", self.full_name(), labels.join(",")),
        }
    }
}

fn metrics(text: &str) -> Vec<PrintedMetric<'_>> {
    let about = |word: &str| -> BTreeMap<&str, &str> {
        text.lines().filter_map(|line| line.strip_prefix(word)?.split_once(' ')).collect()
    };
    let (helps, kinds) = (about("# HELP "), about("# TYPE "));
    let named = kinds.into_iter().map(|(name, kind)| PrintedMetric {
        name,
        kind,
        help: helps.get(name).copied().unwrap_or_default().trim_end_matches('.'),
        labels: labels(text, name, kind),
    });
    named.collect()
}

/// The labels of the first value of a metric.
fn labels<'a>(text: &'a str, name: &str, kind: &str) -> Vec<&'a str> {
    let end = match kind {
        "counter" => "_total",
        "histogram" => "_sum",
        _ => "",
    };
    let begin = format!("{name}{end}{{");
    let first = text.lines().find_map(|line| line.strip_prefix(&begin)?.split_once("} "));
    let labels = first.map_or("", |(labels, _)| labels);
    // A value may have a comma in it, but no quotation mark.
    labels
        .split('"')
        .step_by(2)
        .map(|name| name.trim_matches([',', '=']))
        .filter(|name| !name.is_empty())
        .collect()
}

/// What a process prints that has everything: a store, a task, a link, and what services register when they are opened.
async fn printed() -> String {
    let folder = tempfile::tempdir().unwrap();
    let world = World::local("a.example", folder.path(), StoreUrl::Sqlite(folder.path().to_owned()));
    for row in services::rows() {
        let mut service = row.configured(Default::default()).unwrap().open(&world).await.unwrap();
        service.tasks.clear();
        world.add(service);
    }
    world.tasks.run(&world.tracker, &world.stop, "ca", Task::new("renewal", || async {}));
    while world.tasks.statuses().is_empty() {
        tokio::task::yield_now().await;
    }
    world.stores.tally("message").set_unindexed(|| 0);
    world.disk.set(DiskReading::of_disk(0, 0));
    let metrics = Metrics::of(&world);
    metrics.closed(1012);
    metrics.refused("sockets");
    metrics.http("health", 200);
    metrics.runs("ca");
    metrics.link("ca", "wss://127.0.0.1:7443");
    metrics.text()
}

#[tokio::test]
async fn each_metric_has_a_help_text_and_the_guide_for_operators_names_no_other() {
    let text = printed().await;
    let (metrics, guide) = (metrics(&text), super::read("docs/operations.md"));
    assert!(metrics.len() > 30, "only {} metrics were found", metrics.len());
    for metric in &metrics {
        assert!(!metric.help.is_empty(), "{} has no help text", metric.name);
    }
    for named in guide.split('`').skip(1).step_by(2).filter(|word| word.starts_with("aund_")) {
        let named = named.split('{').next().unwrap_or(named);
        assert!(
            metrics.iter().any(|metric| metric.full_name() == named),
            "docs/operations.md has {named}, which does not exist"
        );
    }
}

#[test]
fn labels_are_read_from_the_first_value() {
    let text = "# HELP aund_x Calls.\n# TYPE aund_x counter\naund_x_total{a=\"1,2\",b=\"}\"} 3\n\
                # HELP aund_y Bytes.\n# TYPE aund_y gauge\naund_y 1\n";
    let shown: Vec<String> = metrics(text).iter().map(PrintedMetric::shown).collect();
    assert_eq!(shown, ["aund_x_total{a,b}", "aund_y"]);
}
