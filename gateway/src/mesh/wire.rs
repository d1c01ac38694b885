//! The frames of the mesh: JSON-RPC, with the caller beside the parameters.
//!
//! A session is told once a link and then only numbered: its names are longer than most parameters.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use services::kernel::{Caller, RpcError, Session, Trace};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// How many sessions a link remembers before it forgets all of them and is told again.
const SESSIONS: usize = 65_536;

/// The asking side begins to introduce its sessions anew.
pub(super) const FORGET: &str = r#"{"jsonrpc":"2.0","method":"mesh.forget"}"#;
/// The answering side is about to leave: no more calls, please.
pub(super) const DRAINING: &str = r#"{"jsonrpc":"2.0","method":"mesh.draining"}"#;
/// The asking side's word that none will come.
pub(super) const DRAINED: &str = r#"{"jsonrpc":"2.0","method":"mesh.drained"}"#;

/// What came in, on either side.
#[derive(Deserialize)]
pub(super) struct Frame<'a> {
    pub id: Option<u64>,
    #[serde(borrow)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    pub error: Option<RpcError>,
}

/// The parameters of `mesh.call`.
#[derive(Serialize, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    pub caller: Who,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    pub within_ms: u64,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Who {
    /// The session this link was told of under this connection's number.
    Known(u64),
    #[serde(untagged)]
    New(Caller),
}

/// The asking side's memory of whom it has introduced.
#[derive(Default)]
pub(super) struct Introduced(HashSet<u64>);

impl Introduced {
    /// The caller as it goes over the wire, its trace, and whether the other side must forget everybody first.
    pub fn introduce(&mut self, caller: Caller) -> (Who, Option<Trace>, bool) {
        let Caller::Agent(mut session) = caller else { return (Who::New(caller), None, false) };
        let trace = session.trace.take();
        let forget = self.0.len() >= SESSIONS;
        if forget {
            self.0.clear();
        }
        match self.0.insert(session.connection) {
            true => (Who::New(Caller::Agent(session)), trace, forget),
            false => (Who::Known(session.connection), trace, forget),
        }
    }
}

/// The answering side's memory of whom it was introduced to.
#[derive(Default)]
pub(super) struct Acquainted(HashMap<u64, Session>);

impl Acquainted {
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Who is calling; `None` if the other side says it told us and did not, or tells us of too many.
    pub fn recognise(&mut self, who: Who, trace: Option<Trace>) -> Option<Caller> {
        match who {
            Who::Known(connection) => {
                let session = self.0.get(&connection)?.clone();
                Some(Caller::Agent(Session { trace, ..session }))
            }
            Who::New(Caller::Agent(session)) => {
                if self.0.len() > SESSIONS {
                    return None;
                }
                self.0.insert(session.connection, session.clone());
                Some(Caller::Agent(Session { trace, ..session }))
            }
            Who::New(caller) => Some(caller),
        }
    }
}

pub(super) fn call(id: u64, call: &Call<'_>) -> String {
    let params = serde_json::to_string(call).expect("a call is plain data");
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"mesh.call","params":{params}}}"#)
}

pub(super) fn within_ms(left: Duration) -> u64 {
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use services::kernel::{Aid, DeviceId, Generation, SlotId};

    fn session(connection: u64) -> Caller {
        Caller::Agent(Session {
            aid: Aid::parse("alice.aid.pub").unwrap(),
            device: DeviceId::parse("phone").unwrap(),
            slot: SlotId::default(),
            connection,
            address: [127, 0, 0, 1].into(),
            connected_at_ms: 7,
            generation: Generation::Peer,
            trace: None,
        })
    }

    fn over_the_wire(introduced: &mut Introduced, acquainted: &mut Acquainted, caller: Caller) -> Caller {
        let (caller, trace, forget) = introduced.introduce(caller);
        if forget {
            acquainted.forget();
        }
        let params = RawValue::from_string(r#"{"n":1.0}"#.into()).unwrap();
        let sent = Call { method: "message.send".into(), caller, trace, within_ms: 5, params: Some(&params) };
        let text = call(3, &sent);
        let frame: Frame<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!((frame.id, frame.method.as_deref()), (Some(3), Some("mesh.call")));
        let got: Call<'_> = serde_json::from_str(frame.params.unwrap().get()).unwrap();
        assert_eq!(got.params.unwrap().get(), params.get());
        acquainted.recognise(got.caller, got.trace).unwrap()
    }

    #[test]
    fn a_caller_arrives_as_it_left_the_first_time_and_every_time() {
        let (mut introduced, mut acquainted) = (Introduced::default(), Acquainted::default());
        for caller in [session(9), session(9), Caller::Stranger, Caller::Operator, Caller::room("auth")] {
            let sent = format!("{caller:?}");
            assert_eq!(format!("{:?}", over_the_wire(&mut introduced, &mut acquainted, caller)), sent);
        }
    }

    #[test]
    fn both_sides_forget_together() {
        let (mut introduced, mut acquainted) = (Introduced::default(), Acquainted::default());
        for connection in 0..=SESSIONS as u64 {
            over_the_wire(&mut introduced, &mut acquainted, session(connection));
        }
        assert_eq!((introduced.0.len(), acquainted.0.len()), (1, 1));
        let Caller::Agent(again) = over_the_wire(&mut introduced, &mut acquainted, session(5)) else {
            panic!("another kind of caller");
        };
        assert_eq!(again.connection, 5);
    }
}
