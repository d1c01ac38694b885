//! Tells the manager what waits in the outbox, one call after the other.

use super::{EntryBatch, RunnerOutbox};
use crate::manager::{CallRetry, ErrorVerdict, ManagerApi, ManagerError, RunnerLease, WorkSignal};
use proto_schemas::requests::runner::{Acknowledge, AppendEvents, Heartbeat, NewRunEvent, SetCommandStatus};
use tokio::sync::mpsc;

/// The one that writes to the log of the run.
pub(crate) struct RunLogWriter {
    pub api: ManagerApi,
    pub lease: RunnerLease,
    pub outbox: RunnerOutbox,
    pub signals: mpsc::Sender<WorkSignal>,
    pub retry: CallRetry,
}

impl RunLogWriter {
    /// Until nobody listens any more. Each call is repeated until it is answered: a call of which the answer was lost is made again, and the
    /// manager knows events by their ids, and what was taken or has ended already.
    pub async fn run(mut self) {
        loop {
            let batch = self.outbox.next().await;
            let signal = self.tell(batch).await;
            self.outbox.told();
            let Some(signal) = signal else { continue };
            if self.signals.send(signal).await.is_err() {
                return;
            }
        }
    }

    async fn tell(&mut self, batch: EntryBatch) -> Option<WorkSignal> {
        match batch {
            EntryBatch::Acknowledge { command_id } => Some(self.acknowledge(command_id).await),
            EntryBatch::Events { command_id, events } => self.append(command_id, events).await,
            EntryBatch::Report(report) => {
                let command_id = report.command_id.clone();
                let report = SetCommandStatus {
                    command_id: report.command_id,
                    runner_id: self.lease.runner_id.clone(),
                    epoch: self.lease.epoch,
                    status: report.status,
                    failure_kind: report.failure_kind,
                    failure_message: report.failure_message,
                    session_ref: report.session_state,
                };
                let api = &mut self.api;
                match self.retry.call(async || api.report(&report).await).await {
                    Ok(_) => Some(WorkSignal::Reported),
                    Err(error) => Some(of_command(error, command_id)),
                }
            }
            EntryBatch::Release => Some(self.release().await),
        }
    }

    async fn acknowledge(&mut self, command_id: String) -> WorkSignal {
        let acknowledge = Acknowledge {
            command_id: command_id.clone(),
            runner_id: self.lease.runner_id.clone(),
            epoch: self.lease.epoch,
        };
        let api = &mut self.api;
        match self.retry.call(async || api.acknowledge(&acknowledge).await).await {
            Ok(command) => WorkSignal::Acknowledged { command: Box::new(command) },
            Err(error) => of_command(error, command_id),
        }
    }

    async fn release(&mut self) -> WorkSignal {
        let release = Heartbeat { release: Some(true), ..self.lease.heartbeat() };
        let api = &mut self.api;
        match self.retry.call(async || api.heartbeat(&release).await).await {
            Ok(answer) => WorkSignal::Released { is_released: answer.released == Some(true) },
            // Of a lease that was given back and of which the answer was lost: nobody has it.
            Err(error) if error.verdict() == ErrorVerdict::LeaseLost => {
                WorkSignal::Released { is_released: true }
            }
            Err(error) => WorkSignal::of_error(error),
        }
    }

    /// All of them, or, where the manager refuses them together, one after the other: then only those are lost that it refuses.
    async fn append(&mut self, command_id: Option<String>, events: Vec<NewRunEvent>) -> Option<WorkSignal> {
        let Err(error) = self.append_together(events.clone()).await else { return None };
        if error.verdict() != ErrorVerdict::Refused {
            return Some(of_command_or_run(error, command_id));
        }
        let mut refused = None;
        for event in events {
            match self.append_together(vec![event]).await {
                Ok(()) => {}
                Err(error) if error.verdict() == ErrorVerdict::Refused => refused = Some(error),
                Err(error) => return Some(of_command_or_run(error, command_id)),
            }
        }
        refused.map(|error| WorkSignal::EventRefused { command_id, why: error.to_string() })
    }

    async fn append_together(&mut self, events: Vec<NewRunEvent>) -> Result<(), ManagerError> {
        let append = AppendEvents {
            run_id: self.lease.run_id.clone(),
            runner_id: self.lease.runner_id.clone(),
            epoch: self.lease.epoch,
            events: Some(events),
            ..AppendEvents::default()
        };
        let api = &mut self.api;
        self.retry.call(async || api.append(&append).await.map(drop)).await
    }
}

fn of_command_or_run(error: ManagerError, command_id: Option<String>) -> WorkSignal {
    match command_id {
        Some(command_id) => of_command(error, command_id),
        None => WorkSignal::of_error(error),
    }
}

/// A refusal of what was said about a command: it may have ended without us, and the run with it. The next heartbeat tells which.
fn of_command(error: ManagerError, command_id: String) -> WorkSignal {
    match error.verdict() {
        ErrorVerdict::Ended | ErrorVerdict::Refused => WorkSignal::CommandOver { command_id },
        ErrorVerdict::Transient | ErrorVerdict::LeaseLost | ErrorVerdict::Denied => {
            WorkSignal::of_error(error)
        }
    }
}
