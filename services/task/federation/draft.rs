//! What other domains are told of a commit: for each domain an item for each version of a task.

use crate::model::event::{SYSTEM, TaskEvent, TaskEventName, TaskEventParams};
use crate::model::operation::CallOrigin;
use crate::model::state::TaskState;
use crate::model::task::TaskRow;
use crate::store::Subscriber;
use kernel::{Aid, Audience, RpcError, iso};
use proto_schemas::requests::task::{
    RelayedAgent, RelayedOrigin, RelayedSummary, RelayedTarget, RelayedTask, RelayedTaskEvent, TaskId,
    TaskRole,
};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;

/// What one item may weigh: less than a call may.
const ITEM_BYTES: usize = 384 << 10;
/// Who is told of one event in one domain; more than this would be many devices of many participants.
const MOST_TARGETS: usize = 256;

/// An item for one domain, written.
#[derive(Debug)]
pub(crate) struct TaskRelay {
    pub task_id: TaskId,
    pub version: i64,
    /// The assignee, where the task waits for it.
    pub waits_for: Option<Aid>,
    pub text: Box<RawValue>,
}

/// What the events of one commit have for other domains.
#[derive(Default)]
pub(crate) struct RelayDrafts<'a>(Vec<RelayDraft<'a>>);

struct RelayDraft<'a> {
    issuer: &'a str,
    task: &'a TaskRow,
    events: Vec<DraftEvent<'a>>,
}

struct DraftEvent<'a> {
    name: TaskEventName,
    params: Cow<'a, TaskEventParams>,
    to: Vec<RelayedTarget>,
    except: Option<RelayedOrigin>,
}

impl<'a> RelayDrafts<'a> {
    /// An event, and those of other domains who get it. The domains of all who take part learn of the change, also where nobody gets
    /// the event.
    pub fn add(&mut self, home: &str, event: &'a TaskEvent, origin: Option<&CallOrigin>, to: &[Audience]) {
        let Some(task) = event.relayed.as_deref() else { return };
        for issuer in task.other_domains(home) {
            let is_same = |draft: &RelayDraft<'_>| draft.issuer == issuer && is_version(draft.task, task);
            let position = self.0.iter().rposition(is_same).unwrap_or_else(|| {
                self.0.push(RelayDraft { issuer, task, events: Vec::new() });
                self.0.len() - 1
            });
            let to = targets(to, task, issuer);
            if !to.is_empty() {
                let caller = origin.filter(|origin| origin.aid.issuer() == issuer);
                self.0[position].events.push(DraftEvent {
                    name: event.name,
                    params: Cow::Borrowed(&event.params),
                    to,
                    except: caller.map(written_caller),
                });
            }
        }
    }

    /// Each with its domain, in order.
    pub fn written(self) -> impl Iterator<Item = (String, Result<TaskRelay, RpcError>)> {
        self.0.into_iter().map(|draft| (draft.issuer.to_owned(), draft.written()))
    }
}

fn is_version(one: &TaskRow, other: &TaskRow) -> bool {
    one.id == other.id && one.version == other.version
}

fn targets(to: &[Audience], task: &TaskRow, issuer: &str) -> Vec<RelayedTarget> {
    let target = |audience: &Audience| {
        let (aid, device_id, slot_id) = match audience {
            Audience::Agent(aid) | Audience::Others { aid, .. } | Audience::OtherInstances { aid, .. } => {
                (aid, None, None)
            }
            Audience::Instance { aid, device, slot } => (aid, device.as_ref(), slot.as_ref()),
            Audience::Connection { .. } | Audience::Gateways => return None,
        };
        // Whoever only reads has no stub there, by which its domain knows that it may be told.
        (aid.issuer() == issuer && task.participants.contains(aid)).then(|| RelayedTarget {
            aid: aid.to_string(),
            device_id: device_id.map(|device| device.as_str().to_owned()),
            slot_id: slot_id.map(|slot| slot.as_str().to_owned()),
        })
    };
    to.iter().filter_map(target).take(MOST_TARGETS).collect()
}

fn written_caller(origin: &CallOrigin) -> RelayedOrigin {
    RelayedOrigin {
        aid: origin.aid.to_string(),
        device_id: origin.device.as_str().to_owned(),
        slot_id: origin.slot.as_str().to_owned(),
    }
}

/// A task as it is now, for a domain that was not told of its last changes: with one event that says so, for owner, assignee and those
/// who have subscribed.
pub(super) fn relay_now(
    task: &TaskRow,
    issuer: &str,
    subscribers: &[Subscriber],
) -> Result<TaskRelay, RpcError> {
    let mut whole: Vec<&Aid> = vec![&task.owner, &task.assignee];
    whole.dedup();
    let of_task = subscribers.iter().filter(|one| one.task_id == task.id && !whole.contains(&&one.key.aid));
    let parts = of_task.filter(|one| one.events & TaskEventName::Updated.bit() != 0);
    let parts = parts.map(|Subscriber { key, .. }| Audience::Instance {
        aid: key.aid.clone(),
        device: Some(key.device.clone()),
        slot: Some(key.slot.clone()),
    });
    let to: Vec<Audience> = whole.iter().map(|aid| Audience::Agent((*aid).clone())).chain(parts).collect();
    let to = targets(&to, task, issuer);
    let mut draft = RelayDraft { issuer, task, events: Vec::new() };
    if !to.is_empty() {
        let params = Cow::Owned(params_now(task));
        draft.events.push(DraftEvent { name: TaskEventName::Updated, params, to, except: None });
    }
    draft.written()
}

fn params_now(task: &TaskRow) -> TaskEventParams {
    TaskEventParams {
        task_id: task.id.clone(),
        status: task.state,
        version: task.version,
        updated_at: iso(task.updated_at),
        actor: SYSTEM.to_owned(),
        message: None,
        reason: task.reason.clone(),
        artifact: None,
        artifacts: None,
        unsuccessful_children: None,
        child_task_id: None,
        assignee: None,
        required: None,
    }
}

impl RelayDraft<'_> {
    /// An item that is too large leaves out the contents of artifacts, and then all events but the last one: `task.get` has it all.
    fn written(mut self) -> Result<TaskRelay, RpcError> {
        let mut text = self.text()?;
        if text.get().len() > ITEM_BYTES {
            self.events.iter_mut().for_each(|event| without_contents(event.params.to_mut()));
            text = self.text()?;
        }
        if text.get().len() > ITEM_BYTES {
            self.events.drain(..self.events.len().saturating_sub(1));
            text = self.text()?;
        }
        if text.get().len() > ITEM_BYTES {
            self.events.clear();
            text = self.text()?;
        }
        let task = self.task;
        let waits_for = (task.state == TaskState::Submitted).then(|| task.assignee.clone());
        Ok(TaskRelay { task_id: task.id.clone(), version: task.version, waits_for, text })
    }

    fn text(&self) -> Result<Box<RawValue>, RpcError> {
        let mut events = Vec::with_capacity(self.events.len());
        for event in &self.events {
            events.push(RelayedTaskEvent {
                event: event.name.short().to_owned(),
                params: to_raw_value(&event.params).map_err(RpcError::internal)?,
                to: event.to.clone(),
                except: event.except.clone(),
            });
        }
        let item = RelayedTask { task: summary(self.task), agents: agents(self.task, self.issuer), events };
        to_raw_value(&item).map_err(RpcError::internal)
    }
}

fn without_contents(params: &mut TaskEventParams) {
    let all = params.artifact.iter_mut().chain(params.artifacts.iter_mut().flatten());
    all.for_each(|artifact| (artifact.content, artifact.reference) = (None, None));
}

fn agents(task: &TaskRow, issuer: &str) -> Vec<RelayedAgent> {
    let of_domain = task.participants.iter().filter(|aid| aid.issuer() == issuer);
    let agent = |aid: &Aid| RelayedAgent {
        aid: aid.to_string(),
        role: TaskRole::of(aid, &task.owner, &task.assignee).as_str().to_owned(),
    };
    of_domain.map(agent).collect()
}

fn summary(task: &TaskRow) -> RelayedSummary {
    RelayedSummary {
        task_id: task.id.to_string(),
        root_task_id: task.root_id.to_string(),
        parent_task_id: task.parent_id.as_ref().map(TaskId::to_string),
        status: task.state.to_string(),
        version: task.version,
        owner: task.owner.to_string(),
        assignee: task.assignee.to_string(),
        required: task.required,
        title: task.title.clone(),
        visibility: task.visibility.as_str().to_owned(),
        created_at: iso(task.created_at),
        updated_at: iso(task.updated_at),
    }
}
