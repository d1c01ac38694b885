//! The sides of a comparison, and their rounds in turn.

use std::time::Duration;

use anyhow::Context as _;

use super::super::rounds::{RoundLoad as _, Sample};
use super::group_commit::GroupCommit;
use super::jetstream::JetStream;
use super::send_load::SendLoad;
use super::single_commits::SingleCommits;

/// Before the first round each side runs this long without being measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// How long the last answers of a round may take.
const ROUND_TIMEOUT: Duration = Duration::from_secs(60);

/// One side of a comparison: something that stores messages.
pub(super) enum StoreSide {
    Ours(Box<SendLoad>),
    GroupCommit(GroupCommit),
    SingleCommits(SingleCommits),
    JetStream(JetStream),
}

impl StoreSide {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let name = self.name();
        let round = tokio::time::timeout(span + ROUND_TIMEOUT, self.run(span)).await;
        round.with_context(|| format!("{name} did not finish its round within {ROUND_TIMEOUT:?}"))?
    }

    fn name(&self) -> &'static str {
        match self {
            StoreSide::Ours(_) => "aund",
            StoreSide::GroupCommit(_) => "the bare loop",
            StoreSide::SingleCommits(_) => "PostgreSQL",
            StoreSide::JetStream(_) => "JetStream",
        }
    }

    async fn run(&mut self, span: Duration) -> anyhow::Result<Sample> {
        match self {
            StoreSide::Ours(load) => load.round(span).await,
            StoreSide::GroupCommit(rows) => rows.round(span).await,
            StoreSide::SingleCommits(clients) => clients.round(span).await,
            StoreSide::JetStream(jetstream) => jetstream.round(span).await,
        }
    }
}

/// Runs each side `rounds` times and gives the samples of each. Another side begins each time, so that a machine
/// that changes its speed favours none.
pub(super) async fn in_turn(
    sides: &mut [StoreSide],
    rounds: usize,
    span: Duration,
) -> anyhow::Result<Vec<Vec<Sample>>> {
    for side in &mut *sides {
        side.round(WARM_UP).await?;
    }
    let count = sides.len();
    let mut samples: Vec<Vec<Sample>> = (0..count).map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..rounds {
        for turn in 0..count {
            let number = (round + turn) % count;
            samples[number].push(sides[number].round(span).await?);
        }
    }
    Ok(samples)
}
