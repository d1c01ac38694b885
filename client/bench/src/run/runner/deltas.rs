//! From the text of a back end to the event stream of one who watches: each part of a message says when it was written.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::time::timeout;

use crate::Plan;
use crate::report::Measurement;
use crate::rounds::Latencies;

use super::launched::LaunchedRun;
use super::load::RunnerLoad;
use super::{TURN_TIMEOUT, of_rounds};

const PROFILE: &str = "ticker";

/// Parts of a turn.
const DELTAS: usize = 500;

/// A part is due after this time: 50 a second, for 10 seconds.
const GAP_MS: u64 = 20;

/// `INTERVAL` in client/runner/src/log/partial.rs.
const JOINED_FOR_MS: u64 = 200;

/// How long the runner stays without work.
const IDLE_TIMEOUT_MS: u64 = 60_000;

/// A back end of the kind `process-jsonl`. Each part is the time in milliseconds and a space; it takes the start of `date` to write it.
const SCRIPT: &str = r#"
while read -r turn; do
  begun=$(date +%s%3N)
  number=0
  while [ "$number" -lt "$deltas" ]; do
    number=$((number + 1))
    now=$(date +%s%3N)
    printf '{"type":"text","itemId":"m","delta":"%s "}\n' "$now"
    left=$((begun + gap * number - now))
    if [ "$left" -ge 10 ]; then sleep "0.0$left"; elif [ "$left" -gt 0 ]; then sleep "0.00$left"; fi
  done
  printf '{"type":"message","itemId":"m","text":"done"}\n{"type":"done","status":"completed"}\n'
done
"#;

/// The parts of a round.
struct DeltaRound {
    latencies: Latencies,
    /// Parts that came joined are one event.
    events: usize,
}

/// Reads times from the parts of a message, which may be cut anywhere.
#[derive(Default)]
struct StampReader {
    unread: String,
}

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Measurement> {
    let title = format!(
        "text of a back end, {} deltas a second, {DELTAS} a round: from its line to a watcher's frame; the runner joins text \
         for {JOINED_FOR_MS} ms (INTERVAL in client/runner/src/log/partial.rs)",
        1_000 / GAP_MS
    );
    eprintln!("{title} …");
    let load = RunnerLoad::start("deltas", &settings()).await?;
    let mut run = LaunchedRun::new(&load, PROFILE).await?;
    // A whole turn, which is not measured.
    run.start_runner(&load, IDLE_TIMEOUT_MS).await?;
    let mut rounds = Vec::with_capacity(plan.rounds);
    for _ in 0..plan.rounds {
        run.watch_again(&load).await?;
        run.submit(&load).await?;
        let round = timeout(TURN_TIMEOUT, DeltaRound::read(&mut run)).await;
        rounds.push(round.with_context(|| format!("a turn did not end within {TURN_TIMEOUT:?}"))??);
    }
    let lines = vec![
        of_rounds("p50, ms", &rounds, |round| round.latencies.quantile_ms(0.50)),
        of_rounds("p99, ms", &rounds, |round| round.latencies.quantile_ms(0.99)),
        of_rounds("deltas in an event", &rounds, |round| DELTAS as f64 / round.events as f64),
        load.end().await?,
    ];
    Ok(Measurement { title: load.titled(&title), lines })
}

/// The profile of the script. What JSON quotes is quoted for TOML, too.
fn settings() -> String {
    let script = Value::from(format!("deltas={DELTAS}\ngap={GAP_MS}\n{SCRIPT}"));
    format!(
        "\n[run.profiles.{PROFILE}]\nkind = \"process-jsonl\"\nprogram = [\"/bin/sh\", \"-c\", {script}]\n"
    )
}

impl DeltaRound {
    /// Reads until the end of the turn. Every part must come, and only once.
    async fn read(run: &mut LaunchedRun) -> anyhow::Result<Self> {
        let mut round = Self { latencies: Latencies::new()?, events: 0 };
        let mut stamps = StampReader::default();
        loop {
            let (events, is_end) = run.next_events().await?;
            let now = since_the_epoch();
            for part in events.iter().filter_map(|event| event.part()) {
                round.events += 1;
                for stamp in stamps.read(part)? {
                    round.latencies.record(now.saturating_sub(stamp));
                }
            }
            if is_end {
                let count = round.latencies.count();
                ensure!(count == DELTAS as u64, "{count} of {DELTAS} parts of a message have come");
                return Ok(round);
            }
        }
    }
}

impl StampReader {
    /// The times that are whole with this part.
    fn read(&mut self, part: &str) -> anyhow::Result<Vec<Duration>> {
        self.unread.push_str(part);
        let end = self.unread.rfind(' ').map_or(0, |space| space + 1);
        let whole: String = self.unread.drain(..end).collect();
        let mut stamps = Vec::new();
        for stamp in whole.split_whitespace() {
            let ms =
                stamp.parse::<u64>().with_context(|| format!("a part of a message is no time: {stamp}"))?;
            stamps.push(Duration::from_millis(ms));
        }
        Ok(stamps)
    }
}

#[expect(clippy::disallowed_methods, reason = "the back end tells the time of this machine, too")]
fn since_the_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_when_it_is_whole() {
        let mut reader = StampReader::default();
        let mut read = |part: &str| -> Vec<u128> {
            reader.read(part).unwrap().iter().map(Duration::as_millis).collect()
        };
        assert_eq!(read("1700000000001 17000000"), [1_700_000_000_001]);
        assert!(read("00002").is_empty());
        assert_eq!(read(" 1700000000003 "), [1_700_000_000_002, 1_700_000_000_003]);
        assert!(reader.read("soon ").is_err());
    }

    #[test]
    fn the_script_fits_into_the_settings() {
        let settings = settings();
        assert_eq!(settings.lines().count(), 4, "a text of TOML has no line feeds: {settings}");
        assert!(settings.contains(r#"\"delta\":\"%s \"}\\n'"#), "{settings}");
    }
}
