//! Carries out what the state decides, and gives it what happens. It waits for no network: others speak to it, at their own pace.

use super::attachments::{AttachmentFetch, AttachmentFetcher, TurnFiles};
use super::state::{WorkAction, WorkEnd, WorkState};
use super::turn_end::TurnReport;
use crate::back_end::{BackEnd, BackEndEvent, TurnEnd, TurnStatus};
use crate::log::{EventPayloads, LogEntry, LogReport, RunnerOutbox};
use crate::manager::WorkSignal;
use proto_schemas::requests::runner::{NewRunEvent, ReportedStatus};
use serde_json::Value;
use serde_json::value::to_raw_value;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The one that knows the back end.
pub(super) struct WorkDriver<B> {
    pub state: WorkState,
    pub back_end: B,
    pub fetcher: AttachmentFetcher,
    /// The images of the turn under way, before it begins.
    pub fetching: Option<AttachmentFetch>,
    /// The images of the turn under way. The back end ends before they are removed.
    pub files: Option<TurnFiles>,
    pub payloads: EventPayloads,
    pub outbox: RunnerOutbox,
    pub signals: mpsc::Receiver<WorkSignal>,
    pub check: Arc<Notify>,
    pub wants_commands: watch::Sender<bool>,
    pub stop: CancellationToken,
    pub is_stopping: bool,
}

impl<B: BackEnd> WorkDriver<B> {
    /// Until the work has ended. The back end has ended then, too.
    pub async fn run(mut self) -> WorkEnd {
        let end = loop {
            let now = Instant::now();
            let due = self.payloads.due(now, false);
            self.tell(due);
            self.state.tick(now, self.outbox.is_empty());
            if let Some(end) = self.act().await {
                break end;
            }
            let wants = self.state.wants_commands();
            self.wants_commands.send_if_modified(|wanted| std::mem::replace(wanted, wants) != wants);
            self.wait().await;
        };
        if matches!(end, WorkEnd::Over(_)) {
            self.outbox.clear();
        }
        self.back_end.stop().await;
        end
    }

    /// Waits for the next thing that happens. While the outbox is full nothing is read from the back end.
    async fn wait(&mut self) {
        let due_at = [self.state.due_at(), self.payloads.due_at()].into_iter().flatten().min();
        let due = async {
            match due_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let fetching = &mut self.fetching;
        let fetched = async {
            match fetching {
                Some(fetching) => fetching.await,
                None => std::future::pending().await,
            }
        };
        let has_space = self.outbox.has_space();
        tokio::select! {
            Some(signal) = self.signals.recv() => self.state.hear(signal, Instant::now()),
            event = self.back_end.next(), if has_space => self.happened(event),
            fetched = fetched => self.fetched(fetched),
            () = self.outbox.emptied() => {}
            () = due => {}
            () = self.stop.cancelled(), if !self.is_stopping => {
                self.is_stopping = true;
                self.state.stop(Instant::now());
            }
        }
    }

    fn happened(&mut self, event: BackEndEvent) {
        let now = Instant::now();
        let events = self.payloads.of(event.clone(), now);
        self.tell(events);
        self.state.happened(&event, now);
    }

    /// The images of the turn under way have come, or do not come.
    fn fetched(&mut self, fetched: Result<TurnFiles, String>) {
        self.fetching = None;
        let images = fetched.map(|files| self.files.insert(files).images().to_vec());
        self.state.fetched(images, Instant::now());
    }

    fn tell(&self, events: Vec<NewRunEvent>) {
        events.into_iter().for_each(|event| self.outbox.push(LogEntry::Event(event)));
    }

    /// Carries out all actions; what they lead to may be further ones.
    async fn act(&mut self) -> Option<WorkEnd> {
        while let Some(action) = self.state.next_action() {
            match action {
                WorkAction::End(end) => return Some(end),
                WorkAction::Acknowledge { command_id } => {
                    self.outbox.push(LogEntry::Acknowledge { command_id });
                }
                WorkAction::Append { command_id, kind, payload } => {
                    let events = self.payloads.say_of(command_id, kind, payload, Instant::now());
                    self.tell(events);
                }
                WorkAction::Fetch { command_id, attachments } => {
                    self.fetching = Some(self.fetcher.fetch(command_id, attachments));
                }
                WorkAction::Finish { command_id, report, ui_hints } => {
                    self.finish(command_id, report, ui_hints);
                }
                WorkAction::Report { command_id, report } => self.report(command_id, report, None),
                WorkAction::Forget { command_id } => self.outbox.forget(&command_id),
                WorkAction::Check => self.check.notify_one(),
                WorkAction::Release => self.outbox.push(LogEntry::Release),
                of_back_end => self.ask_back_end(of_back_end).await,
            }
        }
        None
    }

    /// What the back end does not take ends its turn, but for guidance, which is reported.
    async fn ask_back_end(&mut self, action: WorkAction) {
        let asked = match action {
            WorkAction::Begin(turn) => {
                self.payloads.begin(&turn.command_id);
                self.back_end.begin(turn).await
            }
            WorkAction::Interrupt => self.back_end.interrupt().await,
            WorkAction::Answer(answer) => self.back_end.answer(answer).await,
            WorkAction::StopBackEnd => {
                self.back_end.stop().await;
                let end = TurnEnd { status: TurnStatus::Interrupted, ..TurnEnd::completed() };
                return self.happened(BackEndEvent::Ended(end));
            }
            WorkAction::Steer { command_id, target, text } => {
                let taken = self.back_end.steer(text).await;
                return self.state.steered(command_id, &target, taken);
            }
            WorkAction::AskPast { command_id } => {
                let past = self.back_end.past_turn(&command_id).await;
                return self.state.past_turn(command_id, past);
            }
            _ => return,
        };
        if let Err(error) = asked {
            self.happened(BackEndEvent::Ended(TurnEnd::failed(error.failure_kind, error.message)));
        }
    }

    /// The last words of a turn, and its end. Its images are removed, also those that are on their way.
    fn finish(&mut self, command_id: String, report: Option<TurnReport>, ui_hints: Option<Value>) {
        (self.fetching, self.files) = (None, None);
        let has_reply = report.as_ref().is_some_and(|report| report.status == ReportedStatus::Completed);
        let events = self.payloads.finish(ui_hints, has_reply);
        let Some(report) = report else { return };
        self.tell(events);
        self.report(command_id, report, self.back_end.session_state());
    }

    fn report(&self, command_id: String, report: TurnReport, session_state: Option<Value>) {
        let session_state = session_state.map(|state| self.payloads.said_json(state));
        self.outbox.push(LogEntry::Report(LogReport {
            command_id,
            status: report.status,
            failure_kind: report.failure_kind,
            failure_message: report.message.map(|message| self.payloads.said(&message)),
            session_state: session_state.and_then(|state| to_raw_value(&state).ok()),
        }));
    }
}
