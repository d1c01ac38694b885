//! `aund top`: the metrics of a server, in a terminal or as text.

pub(in crate::cli::operator) mod cells;
mod methods;
mod model;
mod rows;
mod samples;
mod snapshot;
mod stores;
mod view;

use crate::output;
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use futures_util::future::join_all;
use gateway::admin;
use methods::SortOrder;
use model::TopModel;
use outbound::OneShot;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use samples::MetricSamples;
use serde_json::{Value, json};
use snapshot::ProcessSnapshot;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// How long a process may take to answer with its metrics.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The metrics of a process are never longer.
const PAGE_BYTES: usize = 16 << 20;

#[derive(Args)]
pub(in crate::cli) struct TopCommand {
    /// HOST:PORT of status.listen, or of a listener without TLS, per process [default: the process on --data]
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    /// The data folder of a server on this machine
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,
    /// Print one reading as text, and exit
    #[arg(long)]
    once: bool,
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    every: f64,
}

impl TopCommand {
    pub(in crate::cli) async fn run(self) -> anyhow::Result<()> {
        let every = Duration::try_from_secs_f64(self.every).ok().filter(|every| !every.is_zero());
        let every = every.context("--every: write how many seconds, such as 2")?;
        let sources = match self.urls.is_empty() {
            true => vec![MetricsSource::Data(&self.data)],
            false => {
                let addresses = self.urls.iter().map(|url| address(url).map(MetricsSource::Address));
                addresses.collect::<anyhow::Result<_>>()?
            }
        };
        if !self.once {
            return watch(&sources, every).await;
        }
        let snapshots = snapshot(&sources).await;
        let model = TopModel::new(None, &snapshots, SortOrder::default());
        output::print(&view::text(&model, SortOrder::default()))?;
        ensure!(snapshots.iter().any(|snapshot| snapshot.samples.is_some()), "no process answers");
        Ok(())
    }
}

/// Where the metrics of a process are read.
enum MetricsSource<'a> {
    Address(&'a str),
    Data(&'a Path),
}

/// `HOST:PORT` of an address or a URL.
fn address(url: &str) -> anyhow::Result<&str> {
    if url.starts_with("https://") {
        bail!("{url}: metrics are read without TLS; give the address of status.listen");
    }
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let address = rest.split('/').next().unwrap_or(rest);
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    port.with_context(|| format!("{url:?} is not an address: write HOST:PORT"))?;
    Ok(address)
}

async fn snapshot(sources: &[MetricsSource<'_>]) -> Vec<ProcessSnapshot> {
    join_all(sources.iter().map(|source| async {
        let (process, fetched) = match source {
            MetricsSource::Address(address) => {
                ((*address).to_owned(), tokio::time::timeout(ANSWER_TIMEOUT, fetch(address)).await)
            }
            MetricsSource::Data(data) => {
                (data.display().to_string(), tokio::time::timeout(ANSWER_TIMEOUT, ask(data)).await)
            }
        };
        let samples = fetched.ok().and_then(Result::ok).map(|text| MetricSamples::parse(&text));
        ProcessSnapshot { process, samples, at: Instant::now() }
    }))
    .await
}

async fn ask(data: &Path) -> anyhow::Result<String> {
    let answer = admin::ask(data, "metrics", &json!({})).await?;
    let text = answer.as_ref().and_then(Value::as_str).context("no server runs there")?;
    Ok(text.to_owned())
}

async fn fetch(address: &str) -> anyhow::Result<String> {
    let stream = TcpStream::connect(address).await?;
    let answer = OneShot::get("/metrics", address)?.send(stream, |_| Some(PAGE_BYTES)).await?;
    ensure!(answer.status.as_u16() == 200, "the answer has no metrics");
    Ok(String::from_utf8(answer.body.into())?)
}

/// Reads, draws and waits for a key, until it is q.
async fn watch(sources: &[MetricsSource<'_>], every: Duration) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init().context("not a terminal: use --once to print text")?;
    let watch = async {
        let (mut before, mut order) = (None, SortOrder::default());
        loop {
            let now = snapshot(sources).await;
            let read_at = Instant::now();
            while let Some(left) = every.checked_sub(read_at.elapsed()) {
                let model = TopModel::new(before.as_deref(), &now, order);
                terminal.draw(|frame| view::draw(&model, order, frame.area(), frame.buffer_mut()))?;
                match tokio::task::block_in_place(|| key(left))? {
                    Some(KeyCode::Char('q') | KeyCode::Esc) => return Ok(()),
                    Some(KeyCode::Char('s')) => order = order.next(),
                    _ => {}
                }
            }
            before = Some(now);
        }
    };
    let outcome = watch.await;
    ratatui::restore();
    outcome
}

/// The key that was pressed meanwhile, if one was. Ctrl-C is one, because the terminal is ours.
fn key(within: Duration) -> std::io::Result<Option<KeyCode>> {
    if !event::poll(within)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Press => None,
        Event::Key(key)
            if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') =>
        {
            Some(KeyCode::Esc)
        }
        Event::Key(key) => Some(key.code),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_accepted_with_and_without_http() {
        for url in ["127.0.0.1:9000", "http://127.0.0.1:9000", "http://127.0.0.1:9000/metrics"] {
            assert_eq!(address(url).ok(), Some("127.0.0.1:9000"));
        }
        for bad in ["https://x:1", "x", "x:port", ""] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
