//! The deep rounds on PostgreSQL: ours, indexed UNNEST groups, and a commit for each row from 64 clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Executor as _, PgPool};
use tokio::task::JoinSet;

use super::super::Plan;
use super::super::process::{Build, Pid, Scratch};
use super::super::report::{Goal, Report};
use super::super::rounds::{Latencies, Sample};
use super::super::schemas;
use super::super::shape::Ground;
use super::payload::{Chance, PAYLOAD};
use super::row;
use super::rows::GroupCommit;
use super::send::{OFFLINE_DEPTH as DEPTH, Post, SENDERS};
use super::side::{Side, in_turn};
use super::store::{Heads, INBOX, Store, key, name};

const CLIENTS: usize = 64;

/// Clients that each commit one row at a time, on a connection each.
pub(super) struct Clients {
    pool: PgPool,
    next: Arc<AtomicI64>,
    recipients: usize,
    rounds: u64,
}

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
    let post = Post::offline(&Build::this()?, DEPTH, recipients, Some(&store)).await?;
    let groups = Store::PostgresInbox(table(url, &prefix, "groups", 1).await?, Heads::new(recipients));
    let pool = table(url, &prefix, "rows", CLIENTS as u32).await?;
    let clients = Clients { pool, next: Arc::default(), recipients, rounds: 0 };

    let groups = GroupCommit::new(groups, DEPTH)?;
    let mut sides = [Side::Ours(Box::new(post)), Side::GroupCommit(groups), Side::Clients(clients)];
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
    let whole = Post::offline(&this, DEPTH, recipients, Some(&store())).await?;
    let split = split_load(&this, redis, &store(), recipients).await?;

    let mut sides = [Side::Ours(Box::new(split)), Side::Ours(Box::new(whole))];
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
) -> anyhow::Result<Post> {
    let scratch = Scratch::new("split")?;
    let server = Ground::prepare(build, &scratch, redis, Some(store)).await?.start().await?;
    Post::to_absent(scratch, server, DEPTH, recipients).await
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

impl Clients {
    pub(super) async fn round(&mut self, span: Duration) -> anyhow::Result<Sample> {
        self.rounds += 1;
        let (meter, until) = (Pid::own().meter()?, Instant::now() + span);
        let mut tasks = JoinSet::new();
        for number in 0..CLIENTS {
            let chance = Chance::new(self.rounds * CLIENTS as u64 + number as u64);
            let (pool, next) = (self.pool.clone(), self.next.clone());
            tasks.spawn(commit_until(pool, next, self.recipients, chance, until));
        }
        let mut total = Latencies::new()?;
        while let Some(done) = tasks.join_next().await {
            total.add(&done.context("a client of PostgreSQL panicked")??)?;
        }
        meter.stop(&total)
    }
}

async fn commit_until(
    pool: PgPool,
    next: Arc<AtomicI64>,
    recipients: usize,
    mut chance: Chance,
    until: Instant,
) -> anyhow::Result<Latencies> {
    let (mut latencies, mut connection) = (Latencies::new()?, pool.acquire().await?);
    let insert = "INSERT INTO letter (id, recipient, seq, payload) VALUES ($1, $2, $3, $4)";
    loop {
        let since = Instant::now();
        if since >= until {
            return Ok(latencies);
        }
        // One counter for all inboxes is as good for the index, and costs the clients nothing.
        let seq = next.fetch_add(1, Ordering::Relaxed);
        let query = sqlx::query(insert).bind(key(seq as u64)).bind(name(chance.below(recipients))).bind(seq);
        query.bind(PAYLOAD).execute(&mut *connection).await?;
        latencies.record(since.elapsed());
    }
}
