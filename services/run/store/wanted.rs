//! What a batch of calls is about.

use crate::model::call::{EventFacts, RunCall, RunOperation};
use kernel::Payer;
use std::collections::BTreeSet;

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
    pub events: BTreeSet<(String, String)>,
    pub approvals: BTreeSet<(String, String)>,
    pub tenants_of: BTreeSet<String>,
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
            return;
        }
        self.runs.insert(run.clone());
        match &call.operation {
            RunOperation::Create(_) => {}
            RunOperation::AddCommand(new) => {
                self.command_keys.extend(new.key.as_deref().map(of_run));
                self.whole.insert(run.clone());
                self.tenants_of.insert(run.clone());
            }
            RunOperation::CancelCommand { command_id, .. }
            | RunOperation::ReportCommand { command_id, .. } => {
                self.commands.insert(command_id.clone());
                self.whole.insert(run.clone());
            }
            RunOperation::CancelRun { .. }
            | RunOperation::Register { .. }
            | RunOperation::Release { .. }
            | RunOperation::ReportRun { .. }
            | RunOperation::Sweep => {
                self.whole.insert(run.clone());
            }
            RunOperation::AddJob(new) => {
                self.commands.insert(new.command_id.clone());
                self.job_keys.extend(new.key.as_deref().map(of_run));
                self.whole.insert(run.clone());
                self.tenants_of.insert(run.clone());
            }
            RunOperation::Approve { approval_id, .. } => {
                self.approvals.insert(of_run(approval_id));
                self.tenants_of.insert(run.clone());
            }
            RunOperation::Claim { .. } | RunOperation::Renew { .. } => {}
            RunOperation::Acknowledge { command_id, .. } => {
                self.commands.insert(command_id.clone());
            }
            RunOperation::Append { events, .. } => {
                self.tenants_of.insert(run.clone());
                for event in events {
                    self.events.insert(of_run(&event.client_event_id));
                    self.commands.extend(event.command_id.clone());
                    match &event.facts {
                        EventFacts::Nothing => {}
                        EventFacts::ApprovalRequest { approval_id }
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
