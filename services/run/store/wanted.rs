//! What a batch of calls is about.

use crate::model::call::{EventFacts, RunCall, RunOperation};
use kernel::Payer;
use std::collections::{BTreeSet, HashMap};

/// What has to be read before the calls can be decided on.
#[derive(Debug, Default)]
pub(crate) struct RunsWanted {
    pub runs: BTreeSet<String>,
    /// Runs whose end changes what belongs to them: questions, jobs and the session.
    pub whole: BTreeSet<String>,
    pub commands: BTreeSet<String>,
    pub command_keys: BTreeSet<(String, String)>,
    pub run_keys: BTreeSet<(String, String)>,
    pub job_keys: BTreeSet<(String, String)>,
    pub sessions: BTreeSet<String>,
    /// By run, the ids that runners gave their events.
    pub events: HashMap<String, Vec<String>>,
    pub approvals: BTreeSet<(String, String)>,
    /// Runs that get a command: it is asked how many active runs their tenants have.
    pub starting: BTreeSet<String>,
    /// Runs for which something may be stored, be it an event of the server itself. It changes the accounts of their tenants.
    pub storing: BTreeSet<String>,
    /// Those who pay for runs that are not there yet.
    pub payers: BTreeSet<Payer>,
}

impl RunsWanted {
    pub fn add(&mut self, call: &RunCall) {
        let run = &call.run_id;
        let of_run = |name: &str| (run.clone(), name.to_owned());
        if let RunOperation::Create(new) = &call.operation {
            self.sessions.extend(new.session.clone());
            self.run_keys.extend(new.key.clone().map(|key| (new.tenant.clone(), key)));
            self.payers.insert(new.payer.clone());
            if let Some(thread) = &new.thread {
                self.payers.extend(thread.command.turn.as_ref().map(|turn| turn.part.payer.clone()));
            }
            return;
        }
        self.runs.insert(run.clone());
        if may_store(&call.operation) {
            self.storing.insert(run.clone());
        }
        match &call.operation {
            RunOperation::Create(_) => {}
            RunOperation::AddCommand(new) => {
                self.command_keys.extend(new.key.as_deref().map(of_run));
                self.payers.extend(new.turn.as_ref().map(|turn| turn.part.payer.clone()));
                self.whole.insert(run.clone());
                self.starting.insert(run.clone());
            }
            RunOperation::Resume { part, .. } => {
                self.payers.insert(part.payer.clone());
                self.whole.insert(run.clone());
            }
            RunOperation::FailCommand { command_id, .. }
            | RunOperation::CancelCommand { command_id, .. }
            | RunOperation::ReportCommand { command_id, .. } => {
                self.commands.insert(command_id.clone());
                self.whole.insert(run.clone());
            }
            RunOperation::CancelRun { .. }
            | RunOperation::Register(_)
            | RunOperation::Claim { .. }
            | RunOperation::Release { .. }
            | RunOperation::ReportRun { .. }
            | RunOperation::Started { .. }
            | RunOperation::ProcessEnded { .. }
            | RunOperation::End { .. }
            | RunOperation::Sweep => {
                self.whole.insert(run.clone());
            }
            RunOperation::AddJob(new) => {
                self.commands.insert(new.command_id.clone());
                self.job_keys.extend(new.key.as_deref().map(of_run));
                self.whole.insert(run.clone());
            }
            RunOperation::Approve { approval_id, .. } => {
                self.approvals.insert(of_run(approval_id));
            }
            RunOperation::Renew { .. } => {}
            RunOperation::Acknowledge { command_id, .. } => {
                self.commands.insert(command_id.clone());
            }
            RunOperation::Append { events, .. } => {
                let ids = events.iter().map(|event| event.client_event_id.clone());
                self.events.entry(run.clone()).or_default().extend(ids);
                for event in events {
                    if let Some(command) = &event.command_id
                        && !self.commands.contains(command)
                    {
                        self.commands.insert(command.clone());
                    }
                    match &event.facts {
                        EventFacts::Nothing => {}
                        EventFacts::ApprovalRequest { approval_id, .. }
                        | EventFacts::ApprovalResolved { approval_id } => {
                            self.approvals.insert(of_run(approval_id));
                            self.whole.insert(run.clone());
                        }
                    }
                }
            }
        }
    }
}

/// Whether what a call does may be in the log, or in another row that counts for a tenant.
fn may_store(operation: &RunOperation) -> bool {
    match operation {
        RunOperation::Renew { .. }
        | RunOperation::Release { .. }
        | RunOperation::Acknowledge { .. }
        | RunOperation::Started { .. } => false,
        RunOperation::Create(_)
        | RunOperation::AddCommand(_)
        | RunOperation::CancelRun { .. }
        | RunOperation::CancelCommand { .. }
        | RunOperation::AddJob(_)
        | RunOperation::FailCommand { .. }
        | RunOperation::Approve { .. }
        | RunOperation::Resume { .. }
        | RunOperation::Register(_)
        | RunOperation::Claim { .. }
        | RunOperation::Append { .. }
        | RunOperation::ReportCommand { .. }
        | RunOperation::ReportRun { .. }
        | RunOperation::ProcessEnded { .. }
        | RunOperation::End { .. }
        | RunOperation::Sweep => true,
    }
}
