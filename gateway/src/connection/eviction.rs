//! The quotas of sessions, and who is evicted for whom, over all gateways of a domain.

use super::{CloseReason, ConnectionKind, OpenSession};
use kernel::{AnnouncedSession, Delivery, DeviceId, RpcError, SlotId, codes};
use serde_json::json;
use serde_json::value::RawValue;

/// Long connections of an agent on one device, its devices with long connections, and its short connections on one slot.
const MAX_SLOTS: usize = 10;
const MAX_DEVICES: usize = 10;
const MAX_SHORT: usize = 10;

/// A session of this gateway or of another one, as the quotas see it.
#[derive(Clone, Copy)]
pub(super) struct SessionView<'a> {
    pub id: u64,
    pub since_ms: i64,
    device: &'a DeviceId,
    slot: &'a SlotId,
    long: bool,
    delivery: &'a Delivery,
    extra_info: Option<&'a RawValue>,
    instead_of: &'a [u64],
}

impl<'a> SessionView<'a> {
    pub fn of(id: u64, open: &'a OpenSession) -> SessionView<'a> {
        SessionView {
            id,
            since_ms: open.since_ms,
            device: &open.session.device,
            slot: &open.session.slot,
            long: open.kind == ConnectionKind::Long,
            delivery: &open.delivery,
            extra_info: open.extra_info.as_deref(),
            instead_of: &open.instead_of,
        }
    }

    fn same_slot(&self, other: &SessionView<'_>) -> bool {
        self.device == other.device && self.slot.key() == other.slot.key()
    }
}

impl<'a> From<&'a AnnouncedSession> for SessionView<'a> {
    fn from(announced: &'a AnnouncedSession) -> SessionView<'a> {
        SessionView {
            id: announced.session.connection,
            since_ms: announced.since_ms,
            device: &announced.session.device,
            slot: &announced.session.slot,
            long: announced.long,
            delivery: &announced.session.delivery,
            extra_info: announced.extra_info.as_deref(),
            instead_of: &announced.instead_of,
        }
    }
}

/// A connection that is closed for the newcomer, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Eviction {
    pub connection: u64,
    code: u16,
    reason: &'static str,
    quota: Option<(&'static str, usize)>,
}

impl Eviction {
    pub fn close_reason(&self, evicted: Option<&OpenSession>, newcomer: &SessionView<'_>) -> CloseReason {
        let mut detail = json!({
            "evicted_by": {
                "device_id": newcomer.device,
                "slot_id": newcomer.slot,
                "extra_info": newcomer.extra_info.map_or(json!({}), |info| json!(info)),
            },
        });
        if let Some(open) = evicted {
            detail["aid"] = json!(open.session.aid);
            detail["device_id"] = json!(open.session.device);
            detail["slot_id"] = json!(open.session.slot);
            if let Some(info) = &open.extra_info {
                detail["self_extra_info"] = json!(info);
            }
        }
        // The same as in `evicted_by`, under the name that SDKs read. Where a side gave none, its member is left out.
        if let Some(info) = newcomer.extra_info {
            detail["new_extra_info"] = json!(info);
        }
        if let Some((quota_kind, limit)) = self.quota {
            detail["quota_kind"] = json!(quota_kind);
            detail["limit"] = json!(limit);
        }
        CloseReason::disconnect(self.code, self.reason, &detail)
    }
}

/// Whether a session may be opened, and who is evicted for it. `present` is oldest first.
pub(super) fn admit(
    present: &[SessionView<'_>],
    newcomer: &SessionView<'_>,
) -> Result<Vec<Eviction>, RpcError> {
    if !newcomer.long {
        let short = present.iter().filter(|view| !view.long && view.same_slot(newcomer)).count();
        if short >= MAX_SHORT {
            return Err(RpcError::new(codes::SHORT_CAPACITY, "short_connection_capacity_exceeded")
                .with("limit", MAX_SHORT));
        }
        return Ok(Vec::new());
    }

    let long: Vec<&SessionView<'_>> = present.iter().filter(|view| view.long).collect();
    let mut evictions = Vec::new();
    for view in long.iter().filter(|view| view.same_slot(newcomer)) {
        evictions.push(eviction(view, newcomer));
    }
    let gone = |evictions: &[Eviction], id: u64| evictions.iter().any(|eviction| eviction.connection == id);
    let on_device: Vec<_> =
        long.iter().filter(|view| view.device == newcomer.device && !gone(&evictions, view.id)).collect();
    if on_device.len() >= MAX_SLOTS {
        evictions.push(eviction(on_device[0], newcomer));
    }
    let mut devices: Vec<&DeviceId> = Vec::new();
    for view in &long {
        if !devices.contains(&view.device) {
            devices.push(view.device);
        }
    }
    if !devices.contains(&newcomer.device) && devices.len() >= MAX_DEVICES {
        for view in long.iter().filter(|view| view.device == devices[0]) {
            evictions.push(eviction(view, newcomer));
        }
    }
    same_delivery(long.into_iter().filter(|view| !gone(&evictions, view.id)), newcomer)?;
    Ok(evictions)
}

/// Why this one is evicted for the newcomer: what the two have in common says it.
fn eviction(view: &SessionView<'_>, newcomer: &SessionView<'_>) -> Eviction {
    let connection = view.id;
    if view.same_slot(newcomer) {
        return Eviction { connection, code: 4009, reason: "replaced_by_new_connection", quota: None };
    }
    let quota = match view.device == newcomer.device {
        true => ("aid_device_slot_quota_exceeded", MAX_SLOTS),
        false => ("aid_devices_quota_exceeded", MAX_DEVICES),
    };
    Eviction { connection, code: 4015, reason: "long_connection_quota_exceeded", quota: Some(quota) }
}

/// No message is delivered to a short connection, so only long ones have to agree on how that is done.
fn same_delivery<'v, 'a: 'v>(
    mut staying: impl Iterator<Item = &'v SessionView<'a>>,
    newcomer: &SessionView<'_>,
) -> Result<(), RpcError> {
    match staying.find(|view| view.delivery != newcomer.delivery) {
        None => Ok(()),
        Some(_) => Err(RpcError::new(
            codes::IDENTITY_CONFLICT,
            "delivery_mode_conflict: another long connection of this agent uses a different delivery_mode",
        )),
    }
}

/// A session that has to end although it was opened, because another one was opened on another gateway.
pub(super) struct LeavingSession<'a> {
    pub session: SessionView<'a>,
    pub why: LeaveReason<'a>,
}

pub(super) enum LeaveReason<'a> {
    Evicted(Eviction, SessionView<'a>),
    Refused(CloseReason),
}

/// Opens all sessions again, oldest first, and gives those that would not be there now. What the gateway of a newcomer
/// decided when it opened that session comes first: it may have counted connections that are gone by now.
pub(super) fn settle<'a>(views: &[SessionView<'a>]) -> Vec<LeavingSession<'a>> {
    let mut leaving = Vec::new();
    let newcomer_of = |view: &SessionView<'a>| views.iter().find(|other| other.instead_of.contains(&view.id));
    let mut staying: Vec<SessionView<'a>> = Vec::new();
    for view in views.iter().filter(|view| view.long) {
        if let Some(newcomer) = newcomer_of(view) {
            let why = LeaveReason::Evicted(eviction(view, newcomer), *newcomer);
            leaving.push(LeavingSession { session: *view, why });
            continue;
        }
        match admit(&staying, view) {
            Ok(evictions) => {
                for eviction in evictions {
                    let Some(at) = staying.iter().position(|view| view.id == eviction.connection) else {
                        continue;
                    };
                    leaving.push(LeavingSession {
                        session: staying.remove(at),
                        why: LeaveReason::Evicted(eviction, *view),
                    });
                }
                staying.push(*view);
            }
            // The client reconnects by itself and reads the reason in the answer to its `auth.connect`.
            Err(_) => {
                let close_reason = CloseReason::plain(1012, "another connection was accepted first");
                leaving.push(LeavingSession { session: *view, why: LeaveReason::Refused(close_reason) });
            }
        }
    }
    let short: Vec<&SessionView<'a>> = views.iter().filter(|view| !view.long).collect();
    for (at, view) in short.iter().enumerate() {
        if short[..at].iter().filter(|older| older.same_slot(view)).count() >= MAX_SHORT {
            let close_reason = CloseReason::plain(4013, "short_connection_capacity_exceeded");
            leaving.push(LeavingSession { session: **view, why: LeaveReason::Refused(close_reason) });
        }
    }
    leaving
}
