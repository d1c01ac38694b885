//! What is accepted of what another domain tells: tasks that it may tell of, for agents of ours, and events that are as events are.

use crate::model::event::{SYSTEM, TaskEventName, TaskEventParams};
use crate::model::state::TaskState;
use crate::store::{StubKey, StubRow};
use kernel::{Aid, Audience, DeviceId, SlotId, from_iso, iso};
use proto_schemas::requests::task::{
    RelayedAgent, RelayedOrigin, RelayedSummary, RelayedTarget, RelayedTask, RelayedTaskEvent, TaskId,
    TaskRole, TaskTitle, TaskVisibility,
};

const MOST_AGENTS: usize = 50;
const MOST_EVENTS: usize = 64;
const MOST_TARGETS: usize = 1000;
/// The parameters of one event: a message or some short artifacts, and what is around them.
const EVENT_BYTES: usize = 512 << 10;

/// Between which domains something is told.
#[derive(Clone, Copy)]
pub(super) struct ToldBetween<'a> {
    pub home: &'a str,
    pub ours: &'a str,
    pub now: i64,
}

/// A task as another domain tells of it, checked as far as that is possible without the store.
#[derive(Debug)]
pub(super) struct OfferedTask {
    pub task_id: TaskId,
    pub version: i64,
    /// One for each agent of ours.
    pub stubs: Vec<StubRow>,
    pub events: Vec<OfferedEvent>,
}

#[derive(Debug)]
pub(super) struct OfferedEvent {
    pub name: TaskEventName,
    pub params: TaskEventParams,
    pub to: Vec<Audience>,
}

impl OfferedTask {
    /// The sentence says what is wrong.
    pub fn read(item: RelayedTask, between: ToldBetween<'_>) -> Result<OfferedTask, String> {
        let RelayedTask { task, agents, events } = item;
        if agents.is_empty() || agents.len() > MOST_AGENTS {
            return Err(format!("a task must name 1 to {MOST_AGENTS} agents"));
        }
        if events.len() > MOST_EVENTS {
            return Err(format!("a version of a task must have at most {MOST_EVENTS} events"));
        }
        let stub = read_summary(task, between, &agents[0])?;
        let mut stubs = Vec::with_capacity(agents.len());
        for RelayedAgent { aid, role } in &agents {
            let aid = own_aid(aid, between.ours)?;
            let is_role = TaskRole::of(&aid, &stub.owner, &stub.assignee);
            if is_role.as_str() != role {
                return Err(format!("{aid} is not the {role:.20}"));
            }
            let key = StubKey { aid, task_id: stub.key.task_id.clone() };
            stubs.push(StubRow { key, role: is_role, ..stub.clone() });
        }
        let events = events.into_iter().map(|event| read_event(event, &stub, between.ours));
        Ok(OfferedTask {
            task_id: stub.key.task_id.clone(),
            version: stub.version,
            stubs,
            events: events.collect::<Result<_, _>>()?,
        })
    }
}

/// The task, for one of the agents.
fn read_summary(
    task: RelayedSummary,
    between: ToldBetween<'_>,
    agent: &RelayedAgent,
) -> Result<StubRow, String> {
    let task_id = TaskId::try_from(task.task_id)?;
    let root_id = TaskId::try_from(task.root_task_id)?;
    let parent_id = task.parent_task_id.map(TaskId::try_from).transpose()?;
    let (owner, assignee) = (any_aid(&task.owner)?, any_aid(&task.assignee)?);
    if parent_id.is_some() == (root_id == task_id) {
        return Err("a task must either be a root or have a parent".to_owned());
    }
    if parent_id.is_none() && owner.issuer() != between.home {
        return Err(format!("a root task of {owner} cannot live in {}", between.home));
    }
    if !(1..1 << 53).contains(&task.version) {
        return Err("a version must be at least 1".to_owned());
    }
    let time = |text: &str| from_iso(text).filter(|at| *at >= 0).ok_or("a time is malformed");
    let state: TaskState = task.status.parse()?;
    Ok(StubRow {
        key: StubKey { aid: any_aid(&agent.aid)?, task_id },
        home_issuer: between.home.to_owned(),
        role: TaskRole::Participant,
        state,
        version: task.version,
        owner,
        assignee,
        parent_id,
        required: task.required,
        title: TaskTitle::try_from(task.title)?.into_text(),
        visibility: TaskVisibility::parse(&task.visibility).ok_or("the visibility is unknown")?,
        created_at: time(&task.created_at)?.min(between.now),
        updated_at: changed_at(time(&task.updated_at)?, between.now),
    })
}

/// When a task changed, for lists, which have what changed last first. A time in whole seconds leaves open when in that second it was:
/// at its end, or now, if that is earlier, because nothing is told before it happens. Another clock may be ahead.
fn changed_at(told: i64, now: i64) -> i64 {
    let latest = if told % 1000 == 0 { told + 999 } else { told };
    latest.min(now)
}

fn read_event(event: RelayedTaskEvent, stub: &StubRow, ours: &str) -> Result<OfferedEvent, String> {
    let name = TaskEventName::from_short(&event.event).ok_or("an event has an unknown name")?;
    if event.params.get().len() > EVENT_BYTES {
        return Err(format!("the params of an event must have at most {EVENT_BYTES} bytes"));
    }
    if event.to.len() > MOST_TARGETS {
        return Err(format!("an event must have at most {MOST_TARGETS} recipients"));
    }
    let mut params: TaskEventParams = serde_json::from_str(event.params.get())
        .map_err(|error| format!("the params of an event: {error}"))?;
    if params.task_id != stub.key.task_id || params.version != stub.version || params.status != stub.state {
        return Err("an event is about another task or version".to_owned());
    }
    let updated_at = from_iso(&params.updated_at);
    let (Some(updated_at), true) = (updated_at, params.actor == SYSTEM || Aid::parse(&params.actor).is_ok())
    else {
        return Err("an event does not say when it happened and who did it".to_owned());
    };
    // Passed on in the one form that our agents know.
    params.updated_at = iso(updated_at);
    for artifact in params.artifact.iter_mut().chain(params.artifacts.iter_mut().flatten()) {
        artifact.created_at = iso(from_iso(&artifact.created_at).ok_or("an artifact has no time")?);
    }
    let except = event.except.map(|caller| read_caller(caller, ours)).transpose()?;
    let to = event.to.into_iter().map(|target| read_target(target, except.as_ref(), ours));
    Ok(OfferedEvent { name, params, to: to.collect::<Result<_, _>>()? })
}

fn read_caller(caller: RelayedOrigin, ours: &str) -> Result<(Aid, DeviceId, SlotId), String> {
    Ok((own_aid(&caller.aid, ours)?, device(&caller.device_id)?, slot(&caller.slot_id)?))
}

fn read_target(
    target: RelayedTarget,
    except: Option<&(Aid, DeviceId, SlotId)>,
    ours: &str,
) -> Result<Audience, String> {
    let aid = own_aid(&target.aid, ours)?;
    let device = target.device_id.as_deref().map(device).transpose()?;
    let slot = target.slot_id.as_deref().map(slot).transpose()?;
    Ok(match (device, slot, except) {
        (None, None, Some((caller, device, slot))) if *caller == aid => {
            Audience::OtherInstances { aid, device: device.clone(), slot: slot.clone() }
        }
        (None, None, _) => Audience::Agent(aid),
        (device, slot, _) => Audience::Instance { aid, device, slot },
    })
}

fn own_aid(text: &str, ours: &str) -> Result<Aid, String> {
    let aid = any_aid(text)?;
    if aid.issuer() == ours { Ok(aid) } else { Err(format!("{aid} is not an agent of {ours}")) }
}

fn any_aid(text: &str) -> Result<Aid, String> {
    Aid::parse(text).map_err(|error| error.to_string())
}

fn device(text: &str) -> Result<DeviceId, String> {
    DeviceId::parse(text).map_err(|error| error.to_string())
}

fn slot(text: &str) -> Result<SlotId, String> {
    SlotId::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::changed_at;

    #[test]
    fn a_whole_second_ends_when_it_is_over_or_now() {
        for (told, now, expected) in [
            (5000, 5030, 5030),
            (5000, 5999, 5999),
            (5000, 9000, 5999),
            (5000, 4000, 4000),
            (5250, 9000, 5250),
            (5250, 5100, 5100),
        ] {
            assert_eq!(changed_at(told, now), expected, "{told} {now}");
        }
    }
}
