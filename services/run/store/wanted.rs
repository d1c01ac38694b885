//! What a batch of calls is about.

use crate::model::call::{EventFacts, Operation, RunCall};
use kernel::Payer;
use std::collections::BTreeSet;

/// What has to be read before the calls can be decided on.
#[derive(Debug, Default)]
pub(crate) struct LoadWanted {
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

impl LoadWanted {
    pub fn add(&mut self, call: &RunCall) {
        let run = &call.run_id;
        let of_run = |name: &str| (run.clone(), name.to_owned());
        if let Operation::Create(new) = &call.operation {
            self.sessions.extend(new.session.clone());
            self.run_keys.extend(new.key.clone().map(|key| (new.tenant.clone(), key)));
            self.payers.insert(new.payer.clone());
            return;
        }
        self.runs.insert(run.clone());
        match &call.operation {
            Operation::Create(_) => {}
            Operation::AddCommand(new) => {
                self.command_keys.extend(new.key.as_deref().map(of_run));
                self.whole.insert(run.clone());
                self.tenants_of.insert(run.clone());
            }
            Operation::CancelCommand { command_id, .. } | Operation::ReportCommand { command_id, .. } => {
                self.commands.insert(command_id.clone());
                self.whole.insert(run.clone());
            }
            Operation::CancelRun { .. }
            | Operation::Register { .. }
            | Operation::Release { .. }
            | Operation::ReportRun { .. }
            | Operation::Sweep => {
                self.whole.insert(run.clone());
            }
            Operation::AddJob(new) => {
                self.commands.insert(new.command_id.clone());
                self.job_keys.extend(new.key.as_deref().map(of_run));
                self.whole.insert(run.clone());
                self.tenants_of.insert(run.clone());
            }
            Operation::Approve { approval_id, .. } => {
                self.approvals.insert(of_run(approval_id));
                self.tenants_of.insert(run.clone());
            }
            Operation::Claim { .. } | Operation::Renew { .. } => {}
            Operation::Acknowledge { command_id, .. } => {
                self.commands.insert(command_id.clone());
            }
            Operation::Append { events, .. } => {
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
