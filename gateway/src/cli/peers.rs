//! `aund peers`: the peers of this domain, and at which step a connection to one of them fails.

use super::show::printable;
use crate::admin;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use proto_schemas::Request;
use proto_schemas::requests::{gateway, message};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct PeersCommand {
    #[command(subcommand)]
    command: Option<PeersSubcommand>,
    #[command(flatten)]
    args: PeersArgs,
}

#[derive(Subcommand)]
enum PeersSubcommand {
    /// Test every step to a domain: discovery, TLS, hello and a ping; exits with 1 if one fails
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
    pub(super) async fn run(self) -> anyhow::Result<()> {
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
        serde_json::from_value(answer).context("the server's answer is not understood")
    }
}

async fn list(args: &PeersArgs) -> anyhow::Result<()> {
    let peers = args.ask(&gateway::Peers {}).await?;
    // The outbox: what is stored for a peer that is down. Without the message service there are still peer links to show.
    let outbox = args.ask(&message::Outbox {}).await.unwrap_or_default();
    let rows = merged(peers.peers, outbox.issuers);
    if args.json {
        println!("{}", json!({ "peers": rows }));
        return Ok(());
    }
    print!("{}", table(&rows));
    Ok(())
}

/// A peer, and what is stored for it.
#[derive(Serialize)]
struct PeerWithOutbox {
    #[serde(flatten)]
    peer: gateway::ListedPeer,
    #[serde(skip_serializing_if = "Option::is_none")]
    outbox: Option<message::IssuerOutbox>,
}

/// One row for each peer, with what its outbox holds.
fn merged(peers: Vec<gateway::ListedPeer>, outbox: Vec<message::IssuerOutbox>) -> Vec<PeerWithOutbox> {
    let mut rows: Vec<_> = peers.into_iter().map(|peer| PeerWithOutbox { peer, outbox: None }).collect();
    for waiting in outbox {
        let position = rows.iter().position(|row| row.peer.issuer == waiting.issuer).unwrap_or_else(|| {
            let (issuer, outbound) = (waiting.issuer.clone(), "none".to_owned());
            let peer = gateway::ListedPeer { issuer, outbound, ..gateway::ListedPeer::default() };
            rows.push(PeerWithOutbox { peer, outbox: None });
            rows.len() - 1
        });
        rows[position].outbox = Some(waiting);
    }
    rows.sort_by(|one, other| one.peer.issuer.cmp(&other.peer.issuer));
    rows
}

fn table(rows: &[PeerWithOutbox]) -> String {
    if rows.is_empty() {
        return "no peer was connected to yet, and none connected\n".to_owned();
    }
    let wide = rows.iter().map(|row| row.peer.issuer.len()).max().unwrap_or(0).max(6);
    let mut text = format!(
        "{:<wide$}  {:<10} {:>7} {:>8} {:>8} {:>8} {:>9} {:>7} {:>8}  {}\n",
        "DOMAIN",
        "OUTBOUND",
        "INBOUND",
        "WAITING",
        "KEPT",
        "OLDEST",
        "RELAYED",
        "FAILED",
        "RETRY",
        "LAST ERROR"
    );
    for row in rows {
        text += &line(row, wide);
    }
    text
}

/// What is queued or in flight, and what the outbox keeps for as long as the retention says.
fn line(row: &PeerWithOutbox, wide: usize) -> String {
    let PeerWithOutbox { peer, outbox } = row;
    let stored = outbox.clone().unwrap_or_default();
    let (waiting, kept) = (peer.waiting + peer.in_flight, stored.waiting);
    let oldest = peer.oldest_ms.max(stored.oldest_ms.unwrap_or(0));
    let retry = [peer.retry_in_ms, stored.retry_in_ms].into_iter().flatten().filter(|ms| *ms > 0);
    let error = peer.last_error.as_deref().or(stored.last_error.as_deref()).unwrap_or("-");
    let line = format!(
        "{:<wide$}  {:<10} {:>7} {:>8} {:>8} {:>8} {:>9} {:>7} {:>8}  {}",
        printable(&peer.issuer),
        printable(&peer.outbound),
        peer.inbound,
        waiting,
        kept,
        if waiting + kept == 0 { "-".to_owned() } else { span(oldest) },
        peer.relayed,
        peer.failed,
        retry.min().map_or_else(|| "-".to_owned(), span),
        printable(error),
    );
    line.trim_end().to_owned() + "\n"
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
        println!("{}", serde_json::to_string(&tested)?);
    } else {
        for step in &tested.steps {
            let verdict = if step.ok { "ok" } else { "FAILED" };
            let took = span(step.elapsed_ms);
            println!("{:<9} {verdict:<7} {took:>7}  {}", printable(&step.step), printable(&step.detail));
        }
    }
    if !tested.ok {
        bail!("{} cannot be reached as it should", printable(domain));
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
            outbound: "down".to_owned(),
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
        let text = table(&merged(vec![peer], outbox));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["a.example", "none", "0", "0", "2", "10ms", "0", "0", "-", "away"]);
        assert_eq!(lines[2], ["b.example", "down", "1", "2", "3", "90s", "7", "2", "900ms", "refused"]);
        assert_eq!(lines.len(), 3);
        assert!(table(&[]).starts_with("no peer"));
    }
}
