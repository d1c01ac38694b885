//! `aund peers`: the peers of this domain, and at which step a connection to one of them fails.

use super::show::printable;
use crate::admin;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
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
    async fn ask(&self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let data = self.data.as_deref().unwrap_or(Path::new("./data"));
        let answer = admin::ask(data, method, params).await?;
        answer.with_context(|| format!("no server runs on {}", data.display()))
    }
}

async fn list(args: &PeersArgs) -> anyhow::Result<()> {
    let peers = args.ask("gateway.peers", &json!({})).await?;
    // The outbox: what is stored for a peer that is down. Without the message service there are still peer links to show.
    let outbox = args.ask("message.outbox", &json!({})).await.unwrap_or_default();
    let rows = merged(&peers["peers"], &outbox["issuers"]);
    if args.json {
        println!("{}", json!({ "peers": rows }));
        return Ok(());
    }
    print!("{}", table(&rows));
    Ok(())
}

/// One row for each peer, with what its outbox holds.
fn merged(peers: &Value, outbox: &Value) -> Vec<Value> {
    let mut rows = peers.as_array().cloned().unwrap_or_default();
    for waiting in outbox.as_array().into_iter().flatten() {
        let position = rows.iter().position(|row| row["issuer"] == waiting["issuer"]).unwrap_or_else(|| {
            rows.push(json!({ "issuer": waiting["issuer"], "outbound": "none", "inbound": 0 }));
            rows.len() - 1
        });
        rows[position]["outbox"] = waiting.clone();
    }
    rows.sort_by(|one, other| one["issuer"].as_str().cmp(&other["issuer"].as_str()));
    rows
}

fn table(rows: &[Value]) -> String {
    if rows.is_empty() {
        return "no peer was connected to yet, and none connected\n".to_owned();
    }
    let wide = rows.iter().filter_map(|row| row["issuer"].as_str()).map(str::len).max().unwrap_or(0).max(6);
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
fn line(row: &Value, wide: usize) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let stored = &row["outbox"];
    let (waiting, kept) = (number(&row["waiting"]) + number(&row["in_flight"]), number(&stored["waiting"]));
    let oldest = number(&row["oldest_ms"]).max(number(&stored["oldest_ms"]));
    let retry = [&row["retry_in_ms"], &stored["retry_in_ms"]].into_iter().map(number).filter(|ms| *ms > 0);
    let error = row["last_error"].as_str().or(stored["last_error"].as_str()).unwrap_or("-");
    let line = format!(
        "{:<wide$}  {:<10} {:>7} {:>8} {:>8} {:>8} {:>9} {:>7} {:>8}  {}",
        printable(row["issuer"].as_str().unwrap_or("?")),
        printable(row["outbound"].as_str().unwrap_or("?")),
        number(&row["inbound"]),
        waiting,
        kept,
        if waiting + kept == 0 { "-".to_owned() } else { span(oldest) },
        number(&row["relayed"]),
        number(&row["failed"]),
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
    let tested = args.ask("gateway.test_peer", &json!({ "issuer": domain })).await?;
    if args.json {
        println!("{tested}");
    } else {
        for step in tested["steps"].as_array().into_iter().flatten() {
            let text = |member: &str| printable(step[member].as_str().unwrap_or("?"));
            let verdict = if step["ok"] == true { "ok" } else { "FAILED" };
            let took = span(step["elapsed_ms"].as_u64().unwrap_or(0));
            println!("{:<9} {verdict:<7} {took:>7}  {}", text("step"), text("detail"));
        }
    }
    if tested["ok"] != true {
        bail!("{} cannot be reached as it should", printable(domain));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_one_line_wherever_its_messages_wait() {
        let peers = json!([{ "issuer": "b.example", "outbound": "down", "inbound": 1, "waiting": 1, "in_flight": 1,
            "oldest_ms": 40, "relayed": 7, "failed": 2, "last_error": "refused", "retry_in_ms": 1500 }]);
        let outbox = json!([
            { "issuer": "b.example", "waiting": 3, "oldest_ms": 90_000, "retry_in_ms": 900 },
            { "issuer": "a.example", "waiting": 2, "oldest_ms": 10, "last_error": "away" }
        ]);
        let text = table(&merged(&peers, &outbox));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["a.example", "none", "0", "0", "2", "10ms", "0", "0", "-", "away"]);
        assert_eq!(lines[2], ["b.example", "down", "1", "2", "3", "90s", "7", "2", "900ms", "refused"]);
        assert_eq!(lines.len(), 3);
        assert!(table(&[]).starts_with("no peer"));
    }
}
