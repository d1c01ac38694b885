//! `aund peers`: the peers of this domain, and at which step a connection to one of them fails.

use crate::output;
use crate::show::printable;
use ::gateway::admin;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use proto_schemas::Request;
use proto_schemas::requests::{gateway, message, search};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A directory that changes rarely is asked about once a minute, so a copy that was level a moment ago still is.
const LEVEL_MS: u64 = 120_000;

#[derive(Args)]
pub(in crate::cli) struct PeersCommand {
    #[command(subcommand)]
    command: Option<PeersSubcommand>,
    #[command(flatten)]
    args: PeersArgs,
}

#[derive(Subcommand)]
enum PeersSubcommand {
    /// Test each step of a connection: discovery, TLS, hello, ping; exits with code 1 if one fails
    Test {
        #[arg(value_name = "DOMAIN")]
        domain: String,
        #[command(flatten)]
        args: PeersArgs,
    },
}

#[derive(Args)]
struct PeersArgs {
    /// The data folder of the server, or of one of its processes [default: ./data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

impl PeersCommand {
    pub(in crate::cli) async fn run(self) -> anyhow::Result<()> {
        let PeersCommand { command, args: outer } = self;
        match command {
            None => list(&outer).await,
            Some(PeersSubcommand::Test { domain, args }) => {
                let args = PeersArgs { data: args.data.or(outer.data), json: args.json || outer.json };
                test(&args, &domain).await
            }
        }
    }
}

impl PeersArgs {
    async fn ask<R: Request>(&self, request: &R) -> anyhow::Result<R::Result> {
        let data = self.data.as_deref().unwrap_or(Path::new("./data"));
        let answer = admin::ask(data, R::METHOD, &serde_json::to_value(request)?).await?;
        let answer = answer.with_context(|| format!("no server runs on {}", data.display()))?;
        serde_json::from_value(answer).context("the server's answer has an unexpected form")
    }
}

async fn list(args: &PeersArgs) -> anyhow::Result<()> {
    let peers = args.ask(&gateway::Peers {}).await?;
    // The outbox: what is stored for a peer that is down. Without the message service there are still peer links to show.
    let outbox = args.ask(&message::Outbox {}).await.unwrap_or_default();
    // And how far its directory is copied, likewise.
    let directories = args.ask(&search::Peers {}).await.unwrap_or_default();
    let rows = merged(peers.peers, outbox.issuers, directories.peers);
    if args.json {
        return Ok(output::line(&json!({ "peers": rows }).to_string())?);
    }
    Ok(output::print(&table(&rows))?)
}

/// A peer, what is stored for it, and how far its directory is copied.
#[derive(Serialize)]
struct PeerSummary {
    #[serde(flatten)]
    peer: gateway::ListedPeer,
    #[serde(skip_serializing_if = "Option::is_none")]
    outbox: Option<message::IssuerOutbox>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<search::SearchPeer>,
}

/// One row for each domain that is a peer, that something is stored for, or whose directory is copied.
fn merged(
    peers: Vec<gateway::ListedPeer>,
    outbox: Vec<message::IssuerOutbox>,
    directories: Vec<search::SearchPeer>,
) -> Vec<PeerSummary> {
    let mut rows = BTreeMap::new();
    for peer in peers {
        let row = row_of(&mut rows, &peer.issuer);
        row.peer = peer;
    }
    for waiting in outbox {
        let row = row_of(&mut rows, &waiting.issuer);
        row.outbox = Some(waiting);
    }
    for copied in directories {
        let row = row_of(&mut rows, &copied.issuer);
        row.directory = Some(copied);
    }
    rows.into_values().collect()
}

/// The row of a domain; one that the gateway has no link to has one, too.
fn row_of<'a>(rows: &'a mut BTreeMap<String, PeerSummary>, issuer: &str) -> &'a mut PeerSummary {
    rows.entry(issuer.to_owned()).or_insert_with(|| {
        let peer = gateway::ListedPeer { issuer: issuer.to_owned(), ..gateway::ListedPeer::default() };
        PeerSummary { peer, outbox: None, directory: None }
    })
}

fn table(rows: &[PeerSummary]) -> String {
    if rows.is_empty() {
        return "no peers yet\n".to_owned();
    }
    let wide = rows.iter().map(|row| row.peer.issuer.len()).max().unwrap_or(0).max(6);
    let mut text = format!(
        "{:<wide$}  {:<10} {:>7} {:>8} {:>8} {:>8} {:>9} {:>7} {:>8}  {:<13} {}\n",
        "DOMAIN",
        "OUTBOUND",
        "INBOUND",
        "WAITING",
        "KEPT",
        "OLDEST",
        "RELAYED",
        "FAILED",
        "RETRY",
        "DIRECTORY",
        "LAST ERROR"
    );
    for row in rows {
        text += &line(row, wide);
    }
    text
}

/// What is queued or in flight, and what the outbox keeps for as long as the retention says.
fn line(row: &PeerSummary, wide: usize) -> String {
    let PeerSummary { peer, outbox, directory } = row;
    let stored = outbox.clone().unwrap_or_default();
    let (waiting, kept) = (peer.waiting + peer.in_flight, stored.waiting);
    let oldest = peer.oldest_ms.max(stored.oldest_ms.unwrap_or(0));
    let retry = [peer.retry_in_ms, stored.retry_in_ms].into_iter().flatten().filter(|ms| *ms > 0);
    let not_copied = directory.as_ref().and_then(|directory| directory.last_error.as_deref());
    let error = peer.last_error.as_deref().or(stored.last_error.as_deref()).or(not_copied).unwrap_or("-");
    let line = format!(
        "{:<wide$}  {:<10} {:>7} {:>8} {:>8} {:>8} {:>9} {:>7} {:>8}  {:<13} {}",
        printable(&peer.issuer),
        peer.outbound.as_str(),
        peer.inbound,
        waiting,
        kept,
        if waiting == 0 && kept == 0 { "-".to_owned() } else { span(oldest) },
        peer.relayed,
        peer.failed,
        retry.min().map_or_else(|| "-".to_owned(), span),
        directory.as_ref().map_or_else(|| "-".to_owned(), copied),
        printable(error),
    );
    line.trim_end().to_owned() + "\n"
}

/// How far the directory of a domain is copied.
fn copied(directory: &search::SearchPeer) -> String {
    match (directory.state.as_str(), directory.lag_ms) {
        ("snapshot", _) => format!("copying {}", directory.agents),
        ("waiting" | "changes", Some(lag)) if lag <= LEVEL_MS => "level".to_owned(),
        ("waiting" | "changes", Some(lag)) => format!("{} behind", span(lag)),
        ("waiting" | "changes", None) => "behind".to_owned(),
        _ => "failed".to_owned(),
    }
}

/// As few characters as tell how long: `310ms`, `12s`, `3m`, `5h`.
fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..120_000 => format!("{}s", ms / 1_000),
        120_000..7_200_000 => format!("{}m", ms / 60_000),
        _ => format!("{}h", ms / 3_600_000),
    }
}

async fn test(args: &PeersArgs, domain: &str) -> anyhow::Result<()> {
    let tested = args.ask(&gateway::TestPeer { issuer: domain.to_owned() }).await?;
    if args.json {
        output::line(&serde_json::to_string(&tested)?)?;
    } else {
        for step in &tested.steps {
            let verdict = if step.ok { "ok" } else { "FAILED" };
            let took = span(step.elapsed_ms);
            let (step, detail) = (printable(&step.step), printable(&step.detail));
            output::line(&format!("{step:<9} {verdict:<7} {took:>7}  {detail}"))?;
        }
    }
    if !tested.ok {
        bail!("the connection to {} failed", printable(domain));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_one_line_wherever_its_messages_wait() {
        let peer = gateway::ListedPeer {
            issuer: "b.example".to_owned(),
            outbound: gateway::OutboundState::Down,
            inbound: 1,
            waiting: 1,
            in_flight: 1,
            oldest_ms: 40,
            relayed: 7,
            failed: 2,
            last_error: Some("refused".to_owned()),
            retry_in_ms: Some(1500),
            ..gateway::ListedPeer::default()
        };
        let waiting = |issuer: &str, waiting, oldest_ms| message::IssuerOutbox {
            issuer: issuer.to_owned(),
            waiting,
            oldest_ms: Some(oldest_ms),
            ..message::IssuerOutbox::default()
        };
        let outbox = vec![
            message::IssuerOutbox { retry_in_ms: Some(900), ..waiting("b.example", 3, 90_000) },
            message::IssuerOutbox { last_error: Some("away".to_owned()), ..waiting("a.example", 2, 10) },
        ];
        let directory = |issuer: &str, state: &str, lag_ms| search::SearchPeer {
            issuer: issuer.to_owned(),
            state: state.to_owned(),
            agents: 1200,
            lag_ms,
            ..search::SearchPeer::default()
        };
        let failed = Some("no directory".to_owned());
        let directories = vec![
            directory("b.example", "changes", Some(180_000)),
            search::SearchPeer { last_error: failed, ..directory("c.example", "failed", None) },
        ];
        let text = table(&merged(vec![peer], outbox, directories));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["a.example", "none", "0", "0", "2", "10ms", "0", "0", "-", "-", "away"]);
        let behind =
            ["b.example", "down", "1", "2", "3", "90s", "7", "2", "900ms", "3m", "behind", "refused"];
        assert_eq!(lines[2], behind);
        let failed = ["c.example", "none", "0", "0", "0", "-", "0", "0", "-", "failed", "no", "directory"];
        assert_eq!(lines[3], failed);
        assert_eq!(lines.len(), 4);
        for (state, lag_ms, shown) in [
            ("snapshot", None, "copying 1200"),
            ("waiting", Some(60_000), "level"),
            ("changes", Some(0), "level"),
            ("waiting", Some(7_200_000), "2h behind"),
            ("changes", None, "behind"),
            ("failed", Some(12_000), "failed"),
        ] {
            assert_eq!(copied(&directory("b.example", state, lag_ms)), shown);
        }
        assert!(table(&[]).starts_with("no peer"));
    }
}
