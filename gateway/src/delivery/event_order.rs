//! The order of events where several processes publish them, as the schema of each event declares it.
//!
//! The events of one series are ordered by a number. In a dense series no number is left out, so an event that arrives too
//! early is known by its number, and is held for a moment until those before it have come. One that arrives after a later
//! one was delivered is dropped: the client saw that a number is missing, and asks. In a series that is not dense only the
//! newest number counts.

mod members;
#[cfg(test)]
mod tests;

use kernel::{Aid, Audience, DeviceId, Event};
use members::OrderMembers;
use parking_lot::Mutex;
use proto_schemas::EventOrderRule;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// How long an event is held for those before it, and how many are held in one series.
pub(super) const GAP_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_HELD: usize = 256;
/// How long a series that is not dense is kept, and how many series are kept for one agent. Events of different processes
/// overtake each other by less.
const NEWEST_TTL: Duration = Duration::from_secs(5);
const MAX_SERIES: usize = 64;

#[derive(Default)]
pub struct EventOrder {
    agents: Mutex<HashMap<Aid, AgentSeries>>,
}

type AgentSeries = HashMap<SeriesKey, Series>;

/// What an agent's events have in common that are ordered among each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    series: &'static str,
    /// The values of the members of the key, in its order.
    values: Vec<String>,
}

impl SeriesKey {
    /// The device of the series, where the key has one.
    fn device(&self, rule: EventOrderRule) -> Option<&str> {
        let at = rule.key.iter().position(|member| *member == "device_id")?;
        self.values.get(at).map(String::as_str)
    }
}

/// A series of an agent in which an event is held.
#[derive(Clone, Debug)]
pub(super) struct HeldSeries {
    aid: Aid,
    key: SeriesKey,
}

struct Series {
    rule: EventOrderRule,
    /// The number of the event that was delivered last, if one was.
    last: Option<i64>,
    held: BTreeMap<i64, Vec<Event>>,
    since: Instant,
}

impl EventOrder {
    /// Drops what is known of agents that are not here any more, and of series whose time is over.
    pub fn keep(&self, is_here: impl Fn(&Aid) -> bool) {
        self.agents.lock().retain(|aid, series| {
            forget_old(series);
            is_here(aid) && !series.is_empty()
        });
    }

    /// Delivers the event, holds it or drops it. Everything is delivered under the lock, so that no event overtakes another;
    /// that is short, because an outbox never blocks. Gives the series if this is the first event that is held in it: the
    /// caller has to [`give_up`](Self::give_up) after [`GAP_TIMEOUT`].
    pub fn add(&self, event: &Event, deliver: impl FnMut(&Event)) -> Option<HeldSeries> {
        let rule = proto_schemas::find_event(&event.method).and_then(|schema| schema.order);
        self.add_by(rule, event, deliver)
    }

    fn add_by(
        &self,
        rule: Option<EventOrderRule>,
        event: &Event,
        mut deliver: impl FnMut(&Event),
    ) -> Option<HeldSeries> {
        let ordered =
            rule.and_then(|rule| Some((rule, agent(event, rule)?, OrderMembers::read(&event.params, rule)?)));
        let Some((rule, aid, OrderMembers { number, values })) = ordered else {
            deliver(event);
            return None;
        };
        let mut agents = self.agents.lock();
        let of_agent = agents.entry(aid.clone()).or_default();
        make_space(of_agent);
        let key = SeriesKey { series: rule.series, values };
        let series = of_agent.entry(key.clone()).or_insert_with(|| Series::new(rule));
        let held = if rule.dense {
            series.hold(number, event, deliver)
        } else {
            series.newest(number, event, deliver)
        };
        held.then(|| HeldSeries { aid: aid.clone(), key })
    }

    /// Delivers all that is held in a series: what is missing before it has not come in time.
    pub fn give_up(&self, held: &HeldSeries, deliver: impl FnMut(&Event)) {
        let mut agents = self.agents.lock();
        if let Some(series) = agents.get_mut(&held.aid).and_then(|series| series.get_mut(&held.key)) {
            series.deliver_all(deliver);
        }
    }

    /// Forgets the last numbers of the series of a device, so that their next event is delivered whatever its number is. What
    /// is held is delivered first: it may be for other connections of the device.
    pub fn begin(&self, aid: &Aid, device: &DeviceId, mut deliver: impl FnMut(&Event)) {
        let mut agents = self.agents.lock();
        let Some(of_agent) = agents.get_mut(aid) else { return };
        of_agent.retain(|key, series| {
            let about_device = series.rule.dense && key.device(series.rule) == Some(device.as_str());
            if about_device {
                series.deliver_all(&mut deliver);
            }
            !about_device
        });
    }
}

impl Series {
    fn new(rule: EventOrderRule) -> Series {
        Series { rule, last: None, held: BTreeMap::new(), since: Instant::now() }
    }

    /// Delivers the event in its turn. Gives whether it is the first one that is held.
    fn hold(&mut self, number: i64, event: &Event, mut deliver: impl FnMut(&Event)) -> bool {
        self.since = Instant::now();
        match self.last {
            // Another one of this number may still come, so what is held after it stays held until its time is over.
            Some(last)
                if self.rule.shared
                    && (number == last || number == last + 1 && !self.held.contains_key(&number)) =>
            {
                self.last = Some(number);
                deliver(event);
                return false;
            }
            Some(last) if number <= last => return false,
            _ => {}
        }
        let first = self.held.is_empty();
        let of_number = self.held.entry(number).or_default();
        // One that comes twice is dropped, unless several events of a series may have the same number.
        if of_number.is_empty() || self.rule.shared {
            of_number.push(event.clone());
        }
        if self.last.is_none() || self.held.len() > MAX_HELD {
            self.deliver_all(deliver);
            return false;
        }
        if !self.rule.shared {
            self.deliver_next(deliver);
        }
        first && !self.held.is_empty()
    }

    /// Delivers the event unless a newer one was delivered lately. Nothing is held.
    fn newest(&mut self, number: i64, event: &Event, mut deliver: impl FnMut(&Event)) -> bool {
        let last = self.last.filter(|_| self.since.elapsed() < NEWEST_TTL);
        if last.is_none_or(|last| number > last || (number == last && self.rule.shared)) {
            (self.last, self.since) = (Some(number), Instant::now());
            deliver(event);
        }
        false
    }

    fn deliver_next(&mut self, mut deliver: impl FnMut(&Event)) {
        while let Some(next) = self.last.map(|last| last + 1) {
            let Some(events) = self.held.remove(&next) else { return };
            self.last = Some(next);
            events.iter().for_each(&mut deliver);
        }
    }

    fn deliver_all(&mut self, mut deliver: impl FnMut(&Event)) {
        for (number, events) in std::mem::take(&mut self.held) {
            self.last = Some(number);
            events.iter().for_each(&mut deliver);
        }
    }

    fn is_old(&self) -> bool {
        !self.rule.dense && self.since.elapsed() >= NEWEST_TTL
    }
}

fn forget_old(of_agent: &mut AgentSeries) {
    of_agent.retain(|_, series| !series.is_old());
}

/// Bounds what is kept for one agent. A series that is forgotten costs no event, only the knowledge of what came before.
fn make_space(of_agent: &mut AgentSeries) {
    if of_agent.len() >= MAX_SERIES {
        forget_old(of_agent);
    }
    // Many cursors that are reported at once must not cost an inbox its order.
    if of_agent.len() >= MAX_SERIES {
        of_agent.retain(|_, series| series.rule.dense);
    }
    if of_agent.len() >= MAX_SERIES {
        of_agent.retain(|_, series| !series.held.is_empty());
    }
}

/// The number that orders an event, if it has one.
pub(super) fn number(params: &RawValue, rule: EventOrderRule) -> Option<i64> {
    OrderMembers::read(params, rule).map(|members| members.number)
}

/// The agent in whose order an event is, if it is in one.
fn agent(event: &Event, rule: EventOrderRule) -> Option<&Aid> {
    match &event.to {
        // Published again because the client forgot the first one, so it must not be dropped.
        Audience::Connection { .. } if rule.repeatable => None,
        Audience::Agent(aid)
        | Audience::Instance { aid, .. }
        | Audience::Connection { aid, .. }
        | Audience::Others { aid, .. }
        | Audience::OtherInstances { aid, .. } => Some(aid),
        Audience::Gateways => None,
    }
}
