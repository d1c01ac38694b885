use super::super::samples::MetricSamples;
use super::super::snapshot::ProcessSnapshot;
use super::*;
use std::time::{Duration, Instant};

fn snapshot(process: &str, text: &str, at: Instant) -> ProcessSnapshot {
    ProcessSnapshot { process: process.to_owned(), samples: Some(MetricSamples::parse(text)), at }
}

/// What a terminal of this size shows.
fn drawn(model: &TopModel, width: u16, height: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(model, SortOrder::default(), buffer.area, &mut buffer);
    let lines = buffer.content.chunks(usize::from(width));
    let lines = lines.map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

fn line<'a>(text: &'a str, begins: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.starts_with(begins));
    line.unwrap_or_else(|| panic!("no line {begins:?} in\n{text}")).split_whitespace().collect()
}

const GATEWAY: &str = r#"aund_service{service="gateway"} 1
aund_sockets 3
aund_sessions 2
aund_requests_total{method="message.send",code="0"} 100
aund_requests_total{method="message.send",code="5003"} 10
aund_request_duration_seconds_bucket{le="0.001",method="message.send"} 110
aund_request_duration_seconds_bucket{le="+Inf",method="message.send"} 110
aund_mesh_link_up{namespace="message",address="10.0.0.2:7443"} 0
aund_mesh_calls_total{namespace="message",address="10.0.0.2:7443"} 110
aund_mesh_pending{namespace="message",address="10.0.0.2:7443"} 4
aund_mesh_redials_total{namespace="message",address="10.0.0.2:7443"} 5
aund_bus_up 1
aund_bus_lag_seconds 0.002
"#;
const SERVICE: &str = r#"aund_service{service="message"} 1
aund_requests_total{method="message.send",code="0"} 100
aund_request_duration_seconds_bucket{le="0.0001",method="message.send"} 100
aund_request_duration_seconds_bucket{le="+Inf",method="message.send"} 100
aund_store_commit_duration_seconds_count{service="agent"} 0
aund_store_commit_duration_seconds_count{service="message"} 40
aund_store_commit_duration_seconds_bucket{le="0.0002",service="message"} 20
aund_store_commit_duration_seconds_bucket{le="0.0004",service="message"} 40
aund_store_commit_duration_seconds_bucket{le="+Inf",service="message"} 40
aund_store_rows_total{service="message"} 100
aund_store_queue_bytes{service="message"} 1048000
aund_store_failures_total{service="message"} 3
aund_store_busy_total{service="message"} 12
"#;

#[test]
fn one_snapshot_shows_what_happened_since_the_start() {
    let at = Instant::now();
    let mut snapshots = vec![snapshot("gateway:1", GATEWAY, at), snapshot("service:1", SERVICE, at)];
    snapshots.push(ProcessSnapshot { process: "down:1".to_owned(), samples: None, at });
    let text = text(&TopModel::new(None, &snapshots, SortOrder::default()), SortOrder::default());
    assert_eq!(line(&text, "gateway:1"), ["gateway:1", "gateway", "3", "2", "0", "B", "110", "10"]);
    assert!(text.contains("down:1                   does not answer"), "{text}");
    // Reported by both processes and counted once; the gateway's time and the service's time apart.
    assert_eq!(
        line(&text, "message.send"),
        ["message.send", "110", "10", "500", "µs", "990", "µs", "50", "µs", "99", "µs"]
    );
    assert_eq!(line(&text, "message "), ["message", "100", "10", "50", "µs", "99", "µs"]);
    assert!(text.contains("10.0.0.2:7443                DOWN"), "{text}");
    assert!(text.contains("2.0 ms"), "{text}");
}

#[test]
fn two_snapshots_show_what_happened_between_them() {
    let at = Instant::now();
    let later = GATEWAY.replace("\"0\"} 100", "\"0\"} 300").replace(" 110", " 310");
    let (first, second) =
        ([snapshot("d", GATEWAY, at)], [snapshot("d", &later, at + Duration::from_secs(2))]);
    let text = text(&TopModel::new(Some(&first), &second, SortOrder::Name), SortOrder::Name);
    assert_eq!(line(&text, "message.send")[..3], ["message.send", "100", "0"]);
    assert!(text.contains("calls/s") && text.contains("(by name)"), "{text}");
}

#[test]
fn a_narrow_terminal_cuts_words_short_and_never_figures() {
    let at = Instant::now();
    let gateway = GATEWAY.replace("message.send", "message.v2.get_statistics");
    let model = TopModel::new(
        None,
        &[snapshot("somebody.far.away.example:7443", &gateway, at)],
        SortOrder::default(),
    );
    for (width, name) in [(80, "message.v2.get_statistics "), (62, "message.")] {
        let text = drawn(&model, width, 12);
        for whole in [" sessions ", "errors", "svc p50", "110", "500 µs", "990 µs", name] {
            assert!(text.contains(whole), "no {whole:?} at {width} in\n{text}");
        }
    }
}

/// The lines below this head.
fn below(text: &str, head: &str) -> String {
    text[text.find(head).unwrap_or_else(|| panic!("no {head:?} in\n{text}"))..].to_owned()
}

#[test]
fn a_store_has_a_line_for_each_service_and_process() {
    let at = Instant::now();
    let snapshots = [
        snapshot("gateway:1", GATEWAY, at),
        snapshot("service:1", SERVICE, at),
        snapshot("service:2", SERVICE, at),
    ];
    let text = text(&TopModel::new(None, &snapshots, SortOrder::default()), SortOrder::default());
    let stores = below(&text, "store of");
    assert_eq!(
        line(&stores, "store"),
        ["store", "of", "service", "commits", "rows", "each", "p50", "p99", "waiting", "failed", "busy"]
    );
    let rows: Vec<_> = stores.lines().filter(|line| line.starts_with("service:")).collect();
    assert_eq!(rows.len(), 4, "{stores}");
    assert_eq!(line(&stores, "service:2"), ["service:2", "agent", "0", "-", "-", "-", "0", "B", "0", "0"]);
    let message = ["service:2", "message", "40", "2.5", "200", "µs", "396", "µs", "1023", "KiB", "3", "12"];
    assert_eq!(rows[3].split_whitespace().collect::<Vec<_>>(), message);

    let later = SERVICE
        .replace(" 40", " 60")
        .replace(" 20\n", " 40\n")
        .replace(" 100\naund_store", " 110\naund_store");
    let (first, second) =
        ([snapshot("r", SERVICE, at)], [snapshot("r", &later, at + Duration::from_secs(2))]);
    let model = TopModel::new(Some(&first), &second, SortOrder::default());
    let store = &model.stores[1];
    assert_eq!((store.commits, store.rows_each), (10.0, Some(0.5)), "between the two snapshots");
    assert_eq!((store.failures, store.busy), (3.0, 12.0), "since the start");
    assert!(store.times.is_some_and(|(p50, _)| p50 < 0.0002), "{store:?}");
}

#[test]
fn where_it_is_narrow_no_word_takes_space_that_another_needs() {
    let at = Instant::now();
    let gateway =
        GATEWAY.replace("10.0.0.2:7443", "wss://127.0.0.1:7104").replace("\"message\"", "\"gateway\"");
    let model = TopModel::new(None, &[snapshot("127.0.0.1:7206", &gateway, at)], SortOrder::default());
    let links = below(&drawn(&model, 80, 24), "link from");
    assert_eq!(line(&links, "127")[..3], ["127.0.0.1:7206", "gateway", "wss://127.0.0.1:7104"]);
}

#[test]
fn a_narrow_terminal_names_every_store_whole() {
    let at = Instant::now();
    let model = TopModel::new(None, &[snapshot("127.0.0.1:7204", SERVICE, at)], SortOrder::default());
    let text = below(&drawn(&model, 80, 24), "store of");
    for whole in
        ["service ", "rows each", " p99", "waiting", "failed", " busy", "396 µs", "1023 KiB", " 3 ", " 12"]
    {
        assert!(text.contains(whole), "no {whole:?} in\n{text}");
    }
    assert!(!text.contains("p50"), "{text}");
    let ends: Vec<usize> = text.lines().take(3).map(|line| line.trim_end().chars().count()).collect();
    assert_eq!(ends, [80; 3], "figures stand below their heads\n{text}");
    assert_eq!(line(&text, "127.0.0.1:7204")[..2], ["127.0.0.1:7204", "agent"]);
}
