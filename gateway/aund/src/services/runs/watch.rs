//! `aund runs watch`: the log of a run, as it grows.
//!
//! The log has no gaps, so the last seq that was printed is enough to go on. The operator has no connection to be told on: the log is
//! read again and again. An agent is told of new events; where one is missing, the log is read.

use super::caller::{RunCaller, RunCallerArgs};
use super::event_text::{ends_run, event_text};
use crate::show::Show;
use clap::Args;
use client::{Client, EventNotice, EventStream};
use gateway::signals::Signals;
use proto_schemas::requests::run::{Events, Get, RunEvent, RunEventPage, Subscribe, Unsubscribe};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Events of one call.
const PAGE: i64 = 100;

/// The pause after nothing new was found, which grows while nothing happens.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a watcher that leaves waits for the answer to that.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(super) struct WatchRunCommand {
    /// The id of the run
    run: String,
    /// Begin after the event with this number
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    after: i64,
    #[command(flatten)]
    caller: RunCallerArgs,
}

impl WatchRunCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let WatchRunCommand { run: run_id, after, caller } = self;
        let caller = caller.caller()?;
        let mut signals = Signals::new()?;
        let client = tokio::select! {
            client = caller.client() => client?,
            () = signals.wait() => return Ok(()),
        };
        let log = WatchedLog { run_id, seen: after, ended: false, show: caller.show };
        let Some(client) = client else {
            return tokio::select! {
                watched = log.poll(&caller) => watched,
                () = signals.wait() => Ok(()),
            };
        };
        let run_id = log.run_id.clone();
        let watched = tokio::select! {
            watched = log.follow(&client) => Some(watched),
            () = signals.wait() => None,
        };
        if !matches!(watched, Some(Ok(()))) {
            let _ = timeout(LEAVE_TIMEOUT, client.request(&Unsubscribe { run_id })).await;
        }
        client.close().await;
        watched.unwrap_or(Ok(()))
    }
}

struct WatchedLog {
    run_id: String,
    /// The seq of the last event that was printed.
    seen: i64,
    ended: bool,
    show: Show,
}

impl WatchedLog {
    fn page(&self) -> Events {
        Events { run_id: self.run_id.clone(), after_seq: Some(self.seen), limit: Some(PAGE) }
    }

    fn get(&self) -> Get {
        Get { run_id: self.run_id.clone() }
    }

    /// As the operator.
    async fn poll(mut self, caller: &RunCaller) -> anyhow::Result<()> {
        let mut pause = FIRST_PAUSE;
        loop {
            // Read before the log: what it says of its end is in the log that is read after it.
            let run = caller.ask(&self.get()).await?.run;
            while self.print(caller.ask(&self.page()).await?)? {
                pause = FIRST_PAUSE;
            }
            if self.ended || run.terminal_status.is_some() {
                return Ok(());
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// As an agent.
    async fn follow(mut self, client: &Client) -> anyhow::Result<()> {
        // Before anything is asked, so that nothing is missed after it is answered.
        let mut events = client.events();
        self.catch_up(client).await?;
        while !self.ended {
            self.next(client, &mut events).await?;
        }
        Ok(())
    }

    /// Prints what the log has, and is told of the rest.
    async fn catch_up(&mut self, client: &Client) -> anyhow::Result<()> {
        let run = client.request(&self.get()).await?.run;
        while self.print(client.request(&self.page()).await?)? {}
        self.ended |= run.terminal_status.is_some();
        if !self.ended {
            let subscribe = Subscribe { run_id: self.run_id.clone(), after_seq: Some(self.seen) };
            client.request(&subscribe).await?;
        }
        Ok(())
    }

    async fn next(&mut self, client: &Client, events: &mut EventStream) -> anyhow::Result<()> {
        match events.next_notice().await? {
            EventNotice::Event(event) if event.method == "event/run.event" => {
                let Ok(event) = serde_json::from_value::<RunEvent>(event.params.clone()) else {
                    return Ok(());
                };
                match event.seq - self.seen {
                    _ if event.run_id != self.run_id => Ok(()),
                    ..=0 => Ok(()),
                    1 => self.print_event(&event),
                    _ => self.catch_up(client).await,
                }
            }
            EventNotice::Event(_) => Ok(()),
            EventNotice::Disconnected { error, retry_in } => {
                let error = anyhow::Error::from(error);
                self.show.note(&format!("{error:#}; trying again in {:.1} s", retry_in.as_secs_f64()));
                Ok(())
            }
            // A subscription ends with its connection.
            EventNotice::Missed | EventNotice::Reconnected => self.catch_up(client).await,
        }
    }

    /// Says whether there is more.
    fn print(&mut self, page: RunEventPage) -> anyhow::Result<bool> {
        page.events.iter().try_for_each(|event| self.print_event(event))?;
        Ok(page.has_more)
    }

    fn print_event(&mut self, event: &RunEvent) -> anyhow::Result<()> {
        match self.show.json {
            true => self.show.line(&serde_json::to_string(event)?)?,
            false => self.show.line(&event_text(&self.show, event))?,
        }
        (self.seen, self.ended) = (event.seq, ends_run(event));
        Ok(())
    }
}
