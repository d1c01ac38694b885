//! JetStream with file storage: a nats-server of our own on loopback, and the few lines of its protocol that a publisher
//! needs.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, BufWriter};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::super::process::{BenchFolder, Pid};
use super::super::rounds::{Latencies, Sample};
use super::payload::PAYLOAD;
use super::send_load::SENDERS;

/// What ends each line of the protocol, and each body.
const END: &str = "\r\n";

const BUFFER: usize = 64 * 1024;

/// How long the server may take to listen.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A nats-server with one stream, and the connections that publish to it. It ends when this is dropped.
pub(super) struct JetStream {
    pid: Pid,
    publishers: Vec<Publisher>,
    depth: usize,
    _child: Child,
    _folder: BenchFolder,
}

/// A connection whose acknowledgements arrive on a subject of its own.
struct Publisher {
    inbox: String,
    reader: BufReader<OwnedReadHalf>,
    writer: BufWriter<OwnedWriteHalf>,
    line: String,
    body: Vec<u8>,
}

impl JetStream {
    /// The version of the server, or why there is none.
    pub(super) async fn version(binary: &Path) -> anyhow::Result<String> {
        let output = Command::new(binary).arg("--version").output().await;
        let output = output.with_context(|| format!("{} could not be run", binary.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.split_whitespace().last().context("nats-server did not print its version")?.to_owned())
    }

    /// With `sync` a publish is acknowledged after it was synced; without, the server syncs every two minutes.
    pub(super) async fn start(binary: &Path, sync: bool, depth: usize) -> anyhow::Result<Self> {
        let folder = BenchFolder::new(if sync { "jetstream-always" } else { "jetstream-default" })?;
        let (store, config) = (folder.file("store"), folder.file("nats.conf"));
        let always = if sync { "sync_interval: always" } else { "" };
        let text = format!("host: 127.0.0.1\nport: -1\njetstream {{ store_dir: {store:?}, {always} }}\n");
        std::fs::write(&config, text).context("the config of nats-server could not be written")?;
        let log = std::fs::File::create(folder.file("log")).context("the log could not be made")?;
        let mut command = Command::new(binary);
        command.arg("--config").arg(config).arg("--ports_file_dir").arg(folder.file(""));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let child = command.spawn().context("nats-server could not be run")?;

        let pid = Pid::of(&child)?;
        let ports = folder.file(&format!("nats-server_{}.ports", child.id().unwrap_or_default()));
        let address = address(&ports).await.with_context(|| {
            let log = std::fs::read_to_string(folder.file("log")).unwrap_or_default();
            format!("nats-server did not start; its log is:\n{log}")
        })?;
        let mut publishers = Vec::with_capacity(SENDERS);
        for number in 0..SENDERS {
            publishers.push(Publisher::connect(&address, number).await?);
        }
        publishers[0].make_stream().await?;
        Ok(Self { pid, publishers, depth, _child: child, _folder: folder })
    }

    pub(super) async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let (meter, until) = (self.pid.meter()?, Instant::now() + span);
        let mut tasks = JoinSet::new();
        for publisher in self.publishers.drain(..) {
            tasks.spawn(publish_until(publisher, self.depth / SENDERS, until));
        }
        let mut total = Latencies::new()?;
        while let Some(done) = tasks.join_next().await {
            let (publisher, latencies) = done.context("a publisher panicked")??;
            total.add(&latencies)?;
            self.publishers.push(publisher);
        }
        meter.stop(&total)
    }
}

/// The server writes where it listens into a file.
async fn address(ports: &Path) -> anyhow::Result<String> {
    let written = async {
        loop {
            let text = std::fs::read_to_string(ports).unwrap_or_default();
            if let Ok(ports) = serde_json::from_str::<Value>(&text) {
                return ports;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ports =
        tokio::time::timeout(START_TIMEOUT, written).await.context("it did not write where it listens")?;
    let url = ports["nats"][0].as_str().with_context(|| format!("no address in {ports}"))?;
    Ok(url.trim_start_matches("nats://").to_owned())
}

/// Keeps `depth` publishes in flight until the time is up and all of them are acknowledged.
async fn publish_until(
    mut publisher: Publisher,
    depth: usize,
    until: Instant,
) -> anyhow::Result<(Publisher, Latencies)> {
    let mut latencies = Latencies::new()?;
    for number in 0..depth {
        publisher.publish(number).await?;
    }
    publisher.writer.flush().await?;
    let mut sent = vec![Instant::now(); depth];
    let mut in_flight = depth;
    while in_flight > 0 {
        let number = publisher.answer().await?;
        let (now, since) = (Instant::now(), sent.get_mut(number).context("an answer to no publish")?);
        latencies.record(now - *since);
        if now < until {
            *since = now;
            publisher.publish(number).await?;
        } else {
            in_flight -= 1;
        }
    }
    Ok((publisher, latencies))
}

impl Publisher {
    async fn connect(address: &str, number: usize) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("nats-server refused a connection")?;
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        let inbox = format!("_INBOX.{number}.");
        let hello = format!(
            r#"CONNECT {{"verbose":false,"pedantic":false,"lang":"rust","version":"0","protocol":1}}{END}SUB {inbox}* 1{END}"#
        );
        let (reader, writer) =
            (BufReader::with_capacity(BUFFER, read), BufWriter::with_capacity(BUFFER, write));
        let mut publisher = Self { inbox, reader, writer, line: String::new(), body: Vec::new() };
        publisher.send(&hello).await?;
        publisher.writer.flush().await?;
        Ok(publisher)
    }

    async fn make_stream(&mut self) -> anyhow::Result<()> {
        let stream = json!({ "name": "BENCH", "subjects": ["bench"], "storage": "file", "retention": "limits",
            "discard": "old", "num_replicas": 1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_consumers": -1 });
        let (stream, inbox) = (stream.to_string(), &self.inbox);
        let request = format!("PUB $JS.API.STREAM.CREATE.BENCH {inbox}0 {}{END}{stream}{END}", stream.len());
        self.send(&request).await?;
        self.writer.flush().await?;
        self.answer().await.context("the stream could not be made")?;
        Ok(())
    }

    async fn publish(&mut self, number: usize) -> anyhow::Result<()> {
        let message = format!("PUB bench {}{number} {}{END}{PAYLOAD}{END}", self.inbox, PAYLOAD.len());
        self.send(&message).await
    }

    /// Waits for an answer and gives its number. An error in it ends the bench.
    async fn answer(&mut self) -> anyhow::Result<usize> {
        loop {
            // One flush per batch of what is ready, and always one before waiting: a PING may be all that is left.
            if self.reader.buffer().is_empty() {
                self.writer.flush().await?;
            }
            self.line.clear();
            ensure!(self.reader.read_line(&mut self.line).await? > 0, "nats-server closed the socket");
            let mut words = self.line.split_whitespace();
            match words.next() {
                Some("MSG") => break,
                Some("PING") => self.send("PONG\r\n").await?,
                Some("INFO" | "PONG" | "+OK") => continue,
                _ => bail!("nats-server sent {}", self.line.trim_end()),
            }
        }
        // MSG subject subscription length
        let mut words = self.line.split_whitespace().skip(1);
        let (subject, length) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
        let number = subject.strip_prefix(&self.inbox).and_then(|number| number.parse().ok());
        self.body.resize(length.parse::<usize>().context("an unreadable MSG")? + END.len(), 0);
        self.reader.read_exact(&mut self.body).await?;
        let body = str::from_utf8(&self.body)?;
        ensure!(!body.contains(r#""error""#), "JetStream answered with {body}");
        number.context("a message on an unknown subject")
    }

    async fn send(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.writer.write_all(text.as_bytes()).await?)
    }
}
