//! Asks for commands, all the time.

use crate::manager::{CallRetry, ManagerApi, RunNews, RunnerLease, WorkSignal};
use proto_schemas::requests::runner::PollCommands;
use tokio::sync::{mpsc, watch};

/// How long the manager may wait for something new, in milliseconds: the most that it takes.
const WAIT_MS: i64 = 25_000;

/// No command has such a seq: who polls behind it hears of cancellations and answers only.
const BEHIND_ALL: i64 = (1 << 53) - 1;

/// The one that polls.
pub(super) struct CommandPoller {
    pub api: ManagerApi,
    pub lease: RunnerLease,
    pub signals: mpsc::Sender<WorkSignal>,
    pub retry: CallRetry,
    /// Whether there is space for more commands.
    pub wants_commands: watch::Receiver<bool>,
}

impl CommandPoller {
    /// Until nobody listens any more, or the lease is over. Each command is given once: what comes behind the last one is asked for.
    pub async fn run(mut self) {
        let mut after = 0;
        // What waits already is told at once, also that it is nothing.
        let mut wait = 0;
        loop {
            let wants = *self.wants_commands.borrow_and_update();
            let poll = PollCommands {
                run_id: self.lease.run_id.clone(),
                runner_id: self.lease.runner_id.clone(),
                epoch: self.lease.epoch,
                after_seq: Some(if wants { after } else { BEHIND_ALL }),
                limit: None,
                wait_ms: Some(wait),
            };
            let api = &mut self.api;
            let polled = tokio::select! {
                polled = self.retry.call(async || api.poll(&poll).await) => polled,
                // Who waits for news alone, and has space again, asks for commands now.
                Ok(()) = self.wants_commands.changed(), if !wants => continue,
            };
            let signal = match polled {
                Ok(polled) => {
                    wait = WAIT_MS;
                    if wants {
                        after = polled.next_after_seq.max(after);
                    }
                    let news = RunNews { cancel: polled.command_ids, answers: polled.approvals };
                    WorkSignal::Polled { commands: polled.commands, news }
                }
                Err(error) => WorkSignal::of_error(error),
            };
            let is_over = !matches!(signal, WorkSignal::Polled { .. });
            if self.signals.send(signal).await.is_err() || is_over {
                return;
            }
        }
    }
}
