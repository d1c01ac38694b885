//! Sends with 256 in flight on PostgreSQL: ours, indexed UNNEST groups, and a commit for each row from 64 clients.

use anyhow::Context as _;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Executor as _, PgPool};

use super::super::Plan;
use super::super::process::{BenchFolder, Build};
use super::super::report::{Goal, Report};
use super::super::schemas;
use super::super::split_setup::SplitSetup;
use super::bare_store::{BareStore, INBOX, InboxSeqs};
use super::group_commit::GroupCommit;
use super::row;
use super::send_load::{OFFLINE_DEPTH as DEPTH, SENDERS, SendLoad};
use super::side::{StoreSide, in_turn};
use super::single_commits::{CLIENTS, SingleCommits};

pub(super) async fn measure(plan: &Plan, url: &str, report: &mut Report) -> anyhow::Result<()> {
    schemas::dropped_after(url, in_schemas(plan, url, report)).await
}

async fn in_schemas(plan: &Plan, url: &str, report: &mut Report) -> anyhow::Result<()> {
    let recipients = plan.recipients;
    let title = format!(
        "message.send on PostgreSQL, {DEPTH} in flight on {SENDERS} connections, {recipients} recipients"
    );
    eprintln!("{title} …");
    let prefix = schemas::fresh_prefix();
    let store = schemas::store_url(url, &prefix);
    let load = SendLoad::offline(&Build::this()?, DEPTH, recipients, Some(&store)).await?;
    let groups =
        BareStore::PostgresInbox(table(url, &prefix, "groups", 1).await?, InboxSeqs::new(recipients));
    let pool = table(url, &prefix, "rows", CLIENTS as u32).await?;
    let clients = SingleCommits::new(pool, recipients);

    let groups = GroupCommit::new(groups, DEPTH)?;
    let mut sides =
        [StoreSide::Ours(Box::new(load)), StoreSide::GroupCommit(groups), StoreSide::SingleCommits(clients)];
    let samples = in_turn(&mut sides, plan.rounds, plan.span).await?;
    let [ours, groups, rows] = &samples[..] else { unreachable!("three sides give three series") };
    let goal = Goal::RatioAtLeast { now: Some(0.5), later: 0.6 };
    report.add(row(format!("{title}; raw: indexed UNNEST groups"), ours, groups, goal));
    let goal = Goal::RatioAtLeast { now: Some(2.0), later: 2.0 };
    report.add(row(format!("{title}; raw: a commit a row, {CLIENTS} clients"), ours, rows, goal));
    Ok(())
}

/// A server of one process and one of several take their rounds in turn.
pub(super) async fn split(plan: &Plan, url: &str, redis: &str, report: &mut Report) -> anyhow::Result<()> {
    schemas::dropped_after(url, both_shapes(plan, url, redis, report)).await
}

async fn both_shapes(plan: &Plan, url: &str, redis: &str, report: &mut Report) -> anyhow::Result<()> {
    let recipients = plan.recipients;
    let title = split_title(plan);
    eprintln!("{title} …");
    let (this, store) = (Build::this()?, || schemas::store_url(url, &schemas::fresh_prefix()));
    let whole = SendLoad::offline(&this, DEPTH, recipients, Some(&store())).await?;
    let split = split_load(&this, redis, &store(), recipients).await?;

    let mut sides = [StoreSide::Ours(Box::new(split)), StoreSide::Ours(Box::new(whole))];
    let samples = in_turn(&mut sides, plan.rounds, plan.span).await?;
    let [split, whole] = &samples[..] else { unreachable!("two sides give two series") };
    let goal = Goal::RatioAtLeast { now: Some(0.6), later: 0.6 };
    report.add(row(format!("{title}; raw: the whole server"), split, whole, goal));
    Ok(())
}

pub(in super::super) fn split_title(plan: &Plan) -> String {
    let recipients = plan.recipients;
    format!(
        "message.send split on PostgreSQL, {DEPTH} in flight on {SENDERS} connections, {recipients} recipients"
    )
}

/// A server of several processes, and agents that send to others who are not online.
pub(in super::super) async fn split_load(
    build: &Build,
    redis: &str,
    store: &str,
    recipients: usize,
) -> anyhow::Result<SendLoad> {
    let folder = BenchFolder::new("split")?;
    let server = SplitSetup::prepare(build, &folder, redis, Some(store)).await?.start().await?;
    SendLoad::to_offline(folder, server, DEPTH, recipients).await
}

/// A table of rows with an inbox index in a schema of its own.
async fn table(url: &str, prefix: &str, name: &str, connections: u32) -> anyhow::Result<PgPool> {
    let enter = format!("SET search_path TO {prefix}{name}");
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .after_connect(move |connection, _| {
            let enter = enter.clone();
            Box::pin(async move { connection.execute(AssertSqlSafe(enter)).await.map(drop) })
        })
        .connect(url)
        .await
        .context("the PostgreSQL server does not answer")?;
    pool.execute(AssertSqlSafe(format!("CREATE SCHEMA {prefix}{name}"))).await?;
    pool.execute(INBOX).await?;
    Ok(pool)
}
