//! `aund bench --before BINARY`: this build against an older one, so that a change can show that it made nothing slower.
//!
//! Both are started as servers of their own and take their rounds in turn; the load generator is this process for both.

mod report;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::agent::Transport;
use super::gateway::connect::{self, ConnectLoad};
use super::gateway::http::{self, HttpLoad};
use super::gateway::idle::{self, IdleAgents};
use super::gateway::ping::{self, CallLoad, CallSpec};
use super::load::ConnectKind;
use super::message::delivery::{self, DeliveryLoad};
use super::message::federation;
use super::message::postgres;
use super::message::pull::{self, PullLoad};
use super::message::send_load::{self, OFFLINE_DEPTH, ONLINE_DEPTH, SendLoad};
use super::process::Build;
use super::rounds::{RoundLoad, Sample, alternate};
use super::task::transitions::{self, TransitionLoad};
use super::{Plan, ServerShape, What, schemas, split};
use report::{Better, ComparedFigure, Comparison};

/// Before the first round each build runs this long without being measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// How long the last answers of a round may take.
const ROUND_TIMEOUT: Duration = Duration::from_secs(120);

type Sampled = (&'static str, Better, fn(&Sample) -> f64);

const PER_CPU_SECOND: Sampled = ("per server-CPU-second", Better::More, |sample| sample.per_cpu_second);
const PER_SECOND: Sampled = ("per second", Better::More, |sample| sample.per_second);
const P50: Sampled = ("p50, µs", Better::Less, |sample| sample.p50_us);
const P99: Sampled = ("p99, µs", Better::Less, |sample| sample.p99_us);
const RESIDENT: Sampled = ("resident, KiB", Better::Less, |sample| sample.resident_kib);

/// A closed loop: as many calls as the server answers.
const CALLS: &[Sampled] = &[PER_CPU_SECOND, PER_SECOND, P50, P99];
/// The same where the memory does not depend on how much was done.
const PINGS: &[Sampled] = &[PER_CPU_SECOND, PER_SECOND, P50, P99, RESIDENT];
/// An open loop: how much is done in a second is given.
const DELIVERIES: &[Sampled] = &[PER_CPU_SECOND, P50, P99];

/// The two builds, and what was measured of them so far.
struct Builds<'a> {
    plan: &'a Plan,
    this: Build,
    before: Build,
    comparison: Comparison,
}

pub(super) async fn measure(plan: &Plan, before: &Path) -> anyhow::Result<Comparison> {
    let (this, before) = (Build::this()?, Build::at(before)?);
    let mut builds = Builds { plan, this, before, comparison: Comparison::new(plan) };
    if plan.shape == ServerShape::Split {
        builds.split().await?;
    } else if plan.federation {
        builds.federation().await?;
    } else {
        builds.gateway().await?;
        builds.messages().await?;
        builds.tasks().await?;
    }
    Ok(builds.comparison)
}

impl Builds<'_> {
    async fn gateway(&mut self) -> anyhow::Result<()> {
        let plan = self.plan;
        if plan.wants(What::Ping) {
            for (transport, depth) in ping::LOADS {
                let load = CallSpec::ping(plan, transport, depth);
                let start = async |build: &Build| CallLoad::aund(build, load).await;
                self.compare(ping::title(plan, transport, depth), PINGS, start).await?;
            }
        }
        if plan.wants(What::Http) {
            for what in http::LOADS {
                let start = async |build: &Build| HttpLoad::aund(plan, build, what).await;
                self.compare(http::title(plan, what), CALLS, start).await?;
            }
        }
        if plan.wants(What::Idle) {
            self.idle(Transport::Plain).await?;
            self.idle(Transport::Tls).await?;
        }
        if plan.wants(What::Connect) {
            self.on_each_store(connect::token_title(plan), CALLS, async |build, store| {
                ConnectLoad::aund(plan, build, store, ConnectKind::Token).await
            })
            .await?;
            self.on_each_store(connect::login_title(plan), CALLS, async |build, store| {
                ConnectLoad::aund(plan, build, store, ConnectKind::Login).await
            })
            .await?;
        }
        Ok(())
    }

    async fn messages(&mut self) -> anyhow::Result<()> {
        let plan = self.plan;
        if plan.wants(What::Send) {
            self.on_each_store(send_load::online_title(), CALLS, async |build, store| {
                SendLoad::online(build, ONLINE_DEPTH, store).await
            })
            .await?;
        }
        let offline = async |build: &Build, store: Option<&str>| {
            SendLoad::offline(build, OFFLINE_DEPTH, plan.recipients, store).await
        };
        if plan.wants(What::Depth) {
            self.on_sqlite(send_load::offline_title(plan), CALLS, offline).await?;
        }
        if plan.wants(What::Postgres) {
            if plan.postgres.is_none() && plan.only.contains(&What::Postgres) {
                bail!("--only postgres needs --postgres URL");
            }
            self.on_postgres(send_load::offline_title(plan), CALLS, offline).await?;
        }
        if plan.wants(What::Delivery) {
            self.on_each_store(delivery::title(), DELIVERIES, DeliveryLoad::aund).await?;
        }
        if plan.wants(What::Pull) {
            self.on_each_store(pull::title(), CALLS, PullLoad::new).await?;
        }
        Ok(())
    }

    async fn tasks(&mut self) -> anyhow::Result<()> {
        let plan = self.plan;
        if plan.only.contains(&What::TaskList) {
            bail!("--only task-list is not compared with another build");
        }
        if plan.wants(What::Transitions) {
            for depth in transitions::IN_FLIGHT {
                self.on_each_store(transitions::title(plan, depth), CALLS, async |build, store| {
                    TransitionLoad::start(plan, build, store, depth).await
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn split(&mut self) -> anyhow::Result<()> {
        let plan = self.plan;
        let redis = plan.redis.as_deref().context("--shape split needs --redis URL")?;
        for (connections, depth) in split::loads(plan) {
            let load = split::routed_load(connections, depth);
            let start = async |build: &Build| split::start(build, redis, load).await;
            self.compare(split::title(connections, depth), CALLS, start).await?;
        }
        let Some(url) = &plan.postgres else { return Ok(()) };
        let start = async |build: &Build| {
            let store = schemas::store_url(url, &schemas::fresh_prefix());
            postgres::split_load(build, redis, &store, plan.recipients).await
        };
        schemas::dropped_after(url, self.compare(postgres::split_title(plan), CALLS, start)).await
    }

    /// Both domains are of the same build.
    async fn federation(&mut self) -> anyhow::Result<()> {
        let start = async |build: &Build| federation::send_load(build, ONLINE_DEPTH).await;
        self.compare(federation::title(ONLINE_DEPTH), CALLS, start).await
    }

    async fn idle(&mut self, transport: Transport) -> anyhow::Result<()> {
        let title = idle::title(self.plan, transport);
        eprintln!("{title} …");
        let this = IdleAgents::register(self.plan, &self.this).await?;
        let before = IdleAgents::register(self.plan, &self.before).await?;
        let pairs = alternate(
            idle::rounds(self.plan),
            async || this.kib_each(transport).await,
            async || before.kib_each(transport).await,
        )
        .await?;
        let (this, before) = pairs.into_iter().unzip();
        self.comparison
            .add(title, vec![ComparedFigure { unit: "KiB each", better: Better::Less, this, before }]);
        Ok(())
    }

    async fn on_each_store<L: RoundLoad>(
        &mut self,
        title: String,
        figures: &[Sampled],
        start: impl AsyncFn(&Build, Option<&str>) -> anyhow::Result<L>,
    ) -> anyhow::Result<()> {
        self.on_sqlite(title.clone(), figures, &start).await?;
        self.on_postgres(title, figures, &start).await
    }

    async fn on_sqlite<L: RoundLoad>(
        &mut self,
        title: String,
        figures: &[Sampled],
        start: impl AsyncFn(&Build, Option<&str>) -> anyhow::Result<L>,
    ) -> anyhow::Result<()> {
        self.compare(format!("{title}, SQLite"), figures, async |build| start(build, None).await).await
    }

    /// Nothing if no PostgreSQL was given.
    async fn on_postgres<L: RoundLoad>(
        &mut self,
        title: String,
        figures: &[Sampled],
        start: impl AsyncFn(&Build, Option<&str>) -> anyhow::Result<L>,
    ) -> anyhow::Result<()> {
        let Some(url) = &self.plan.postgres else { return Ok(()) };
        let start = async |build: &Build| {
            let store = schemas::store_url(url, &schemas::fresh_prefix());
            start(build, Some(&store)).await
        };
        // Dropped after each comparison, so that the database does not clean up after one during the next.
        schemas::dropped_after(url, self.compare(format!("{title}, PostgreSQL"), figures, start)).await
    }

    /// Starts a server of each build and gives both the same rounds in turn.
    async fn compare<L: RoundLoad>(
        &mut self,
        title: String,
        figures: &[Sampled],
        start: impl AsyncFn(&Build) -> anyhow::Result<L>,
    ) -> anyhow::Result<()> {
        eprintln!("{title} …");
        let mut this = start(&self.this).await.context("this build")?;
        let mut before = start(&self.before).await.context("the build before")?;
        round(&mut this, WARM_UP).await.context("this build")?;
        round(&mut before, WARM_UP).await.context("the build before")?;
        let span = self.plan.span;
        let pairs = alternate(
            self.plan.rounds,
            async || round(&mut this, span).await.context("this build"),
            async || round(&mut before, span).await.context("the build before"),
        )
        .await?;
        let figure = |(unit, better, figure): &Sampled| ComparedFigure {
            unit,
            better: *better,
            this: pairs.iter().map(|(this, _)| figure(this)).collect(),
            before: pairs.iter().map(|(_, before)| figure(before)).collect(),
        };
        self.comparison.add(title, figures.iter().map(figure).collect());
        Ok(())
    }
}

async fn round(load: &mut impl RoundLoad, span: Duration) -> anyhow::Result<Sample> {
    let round = tokio::time::timeout(span + ROUND_TIMEOUT, load.round(span)).await;
    round.with_context(|| format!("a round did not end within {ROUND_TIMEOUT:?}"))?
}
