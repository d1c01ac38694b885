//! Durable `message.send`: answered after its commit, against bare commits and against JetStream.

use super::super::Plan;
use super::super::process::{BenchFolder, Build};
use super::super::report::{Goal, Measurement, Report};
use super::bare_store::RowLayout;
use super::group_commit::GroupCommit;
use super::jetstream::JetStream;
use super::row_with_cpu;
use super::send_load::{OFFLINE_DEPTH, ONLINE_DEPTH, SendLoad, offline_title, online_title};
use super::side::{StoreSide, in_turn};

/// 64 in flight to agents that are online; against plain rows and against JetStream.
pub(super) async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    const DEPTH: usize = ONLINE_DEPTH;
    let title = online_title();
    eprintln!("{title} …");
    let (load, folder) = (SendLoad::online(&Build::this()?, DEPTH, None).await?, BenchFolder::new("rows")?);
    let rows = GroupCommit::sqlite(&folder, RowLayout::Plain, DEPTH).await?;
    let mut sides = vec![StoreSide::Ours(Box::new(load)), StoreSide::GroupCommit(rows)];
    let mut titles =
        vec![("bare SQLite group commit".to_owned(), Goal::RatioAtLeast { now: Some(0.30), later: 0.40 })];
    match JetStream::version(&plan.nats_server).await {
        Err(error) => report.note("jetstream", format!("left out: {error:#}")),
        Ok(version) => {
            for (sync, goal) in [
                (true, Goal::RatioAtLeast { now: Some(4.0), later: 6.0 }),
                (false, Goal::RatioAtLeast { now: None, later: 1.0 }),
            ] {
                sides.push(StoreSide::JetStream(JetStream::start(&plan.nats_server, sync, DEPTH).await?));
                let kept = if sync { "file, sync_interval: always" } else { "file, default (not synced)" };
                titles.push((format!("JetStream {version}, {kept}"), goal));
            }
        }
    }

    let samples = in_turn(&mut sides, plan.rounds, plan.span).await?;
    for ((other, goal), theirs) in titles.into_iter().zip(&samples[1..]) {
        report.add(row_with_cpu(format!("{title}; raw: {other}"), &samples[0], theirs, goal));
    }
    Ok(())
}

/// 256 in flight to many agents, none of them online; against rows with an inbox index and a time-ordered key.
pub(super) async fn depth(plan: &Plan) -> anyhow::Result<Measurement> {
    const DEPTH: usize = OFFLINE_DEPTH;
    let recipients = plan.recipients;
    let title = offline_title(plan);
    eprintln!("{title} …");
    let (load, folder) =
        (SendLoad::offline(&Build::this()?, DEPTH, recipients, None).await?, BenchFolder::new("rows")?);
    let rows = GroupCommit::sqlite(&folder, RowLayout::Inbox { recipients }, DEPTH).await?;

    let mut sides = [StoreSide::Ours(Box::new(load)), StoreSide::GroupCommit(rows)];
    let samples = in_turn(&mut sides, plan.rounds, plan.span).await?;
    let title = format!("{title}; raw: bare SQLite group commit with inbox index and time-ordered key");
    let goal = Goal::RatioAtLeast { now: Some(1.0), later: 1.2 };
    Ok(row_with_cpu(title, &samples[0], &samples[1], goal))
}
