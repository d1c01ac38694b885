//! `runner.append_events`: append events to the log of a run.

use crate::RunService;
use crate::error::Error;
use crate::model::call::{EventFacts, NewEvent, RunAnswer, RunOperation};
use crate::redact::event_payload;
use crate::runner::holder;
use crate::runs::{printable, unexpected};
use kernel::{Caller, CpuOwner, from_iso};
use proto_schemas::requests::run::RunEventType;
use proto_schemas::requests::runner::{AppendEvents, AppendedRunEvents, NewRunEvent};
use serde::Deserialize;
use std::sync::Arc;

/// Payloads up to this size are redacted where they are: reading their request was more work.
const SMALL: usize = 16 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApprovalNamed {
    approval_id: String,
    expires_at: Option<String>,
}

impl RunService {
    pub(crate) async fn append_events(
        self: Arc<Self>,
        caller: Caller,
        params: AppendEvents,
    ) -> Result<AppendedRunEvents, Error> {
        let access = self.runner_of(&caller, &params.run_id)?;
        let AppendEvents { run_id, runner_id, epoch, .. } = &params;
        let (run_id, holder) = (run_id.clone(), holder(&access, runner_id.clone(), *epoch));
        let given = events_of(params)?;
        let bytes: usize = given.iter().map(|event| event.payload.get().len()).sum();
        let events = match bytes <= SMALL {
            true => given.into_iter().map(checked).collect::<Result<Vec<_>, _>>()?,
            false => {
                let work = move || given.into_iter().map(checked).collect::<Result<Vec<_>, _>>();
                self.cpu.run(CpuOwner::of(&caller), work).await??
            }
        };
        let answer = self.change(&access, &run_id, RunOperation::Append { holder, events }).await?;
        let RunAnswer::Appended(appended) = answer else { return Err(unexpected()) };
        Ok(appended)
    }
}

/// A list, or one event in the place of the list.
fn events_of(params: AppendEvents) -> Result<Vec<NewRunEvent>, Error> {
    let AppendEvents { events, client_event_id, kind, command_id, payload, occurred_at, .. } = params;
    if let Some(events) = events {
        return Ok(events);
    }
    let missing = |member: &str| Error::Invalid(format!("{member} is required (or events)"));
    Ok(vec![NewRunEvent {
        client_event_id: client_event_id.ok_or_else(|| missing("clientEventId"))?,
        kind: kind.ok_or_else(|| missing("type"))?,
        command_id,
        payload: payload.ok_or_else(|| missing("payload"))?,
        occurred_at,
    }])
}

/// An event as it is stored: redacted, cut, and of the form of its type.
fn checked(event: NewRunEvent) -> Result<NewEvent, Error> {
    let NewRunEvent { client_event_id, kind, command_id, payload, .. } = event;
    printable("clientEventId", &client_event_id)?;
    if kind == RunEventType::TerminalStatus {
        return Err(Error::Invalid("terminal_status comes from the status of a command or a run".to_owned()));
    }
    let payload = event_payload(kind, &payload)?;
    let facts = match kind {
        RunEventType::ApprovalRequest => {
            let ApprovalNamed { approval_id, expires_at } = approval(&payload)?;
            // What is no time is as good as absent: the question ends with its command at the latest.
            EventFacts::ApprovalRequest { approval_id, expires_at: expires_at.as_deref().and_then(from_iso) }
        }
        RunEventType::ApprovalResolved => {
            EventFacts::ApprovalResolved { approval_id: approval(&payload)?.approval_id }
        }
        _ => EventFacts::Nothing,
    };
    Ok(NewEvent { client_event_id, kind, command_id, payload, facts })
}

fn approval(payload: &serde_json::value::RawValue) -> Result<ApprovalNamed, Error> {
    let named: ApprovalNamed = serde_json::from_str(payload.get())
        .map_err(|_| Error::Invalid("payload.approvalId must be a string".to_owned()))?;
    printable("payload.approvalId", &named.approval_id)?;
    Ok(named)
}
