//! The sides of a comparison, and their rounds in turn.

use std::time::Duration;

use anyhow::Context as _;

use super::super::rounds::{RoundLoad as _, Sample};
use super::jetstream::JetStream;
use super::postgres::Clients;
use super::rows::GroupCommit;
use super::send::Post;

/// Before the first round each side runs this long without being measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// How long the last answers of a round may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whoever stores messages.
pub(super) enum Side {
    Ours(Box<Post>),
    GroupCommit(GroupCommit),
    Clients(Clients),
    JetStream(JetStream),
}

impl Side {
    async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        let name = self.name();
        let round = tokio::time::timeout(span + PATIENCE, self.run(span)).await;
        round.with_context(|| format!("{name} did not finish its round within {PATIENCE:?}"))?
    }

    fn name(&self) -> &'static str {
        match self {
            Side::Ours(_) => "aund",
            Side::GroupCommit(_) => "the bare loop",
            Side::Clients(_) => "PostgreSQL",
            Side::JetStream(_) => "JetStream",
        }
    }

    async fn run(&mut self, span: Duration) -> anyhow::Result<Sample> {
        match self {
            Side::Ours(post) => post.round(span).await,
            Side::GroupCommit(rows) => rows.round(span).await,
            Side::Clients(clients) => clients.round(span).await,
            Side::JetStream(jetstream) => jetstream.round(span).await,
        }
    }
}

/// Runs each side `rounds` times and gives the samples of each. Another side begins each time, so that a machine
/// that warms up or tires favours none.
pub(super) async fn in_turn(
    sides: &mut [Side],
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
