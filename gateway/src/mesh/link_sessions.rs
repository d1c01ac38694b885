//! The sessions that were sent over a mesh link in full. Later calls name them by their connection id only.

use super::wire::{CallerForm, CallerRef, WireCaller};
use kernel::{Caller, CallingAgent, TracedCall};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// How many sessions a link remembers. At this many both sides forget all of them, and they are sent in full again.
pub(super) const SESSIONS: usize = 65_536;

type ByConnectionId = BuildHasherDefault<ConnectionIdHasher>;

/// Hashes connection ids. Only the gateways of this server assign them, so nothing stronger is needed.
#[derive(Default)]
pub(super) struct ConnectionIdHasher(u64);

impl Hasher for ConnectionIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    /// The hash table uses the highest and the lowest bits, so both have to depend on all bits of the id.
    fn write_u64(&mut self, id: u64) {
        let product = u128::from(self.0 ^ id) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// The calling side: the connection ids of the sessions it has sent in full.
#[derive(Default)]
pub(super) struct SentSessions(pub(super) HashSet<u64, ByConnectionId>);

impl SentSessions {
    /// How this caller has to be written, so that the other side knows it.
    pub fn form_of(&mut self, caller: CallerRef<'_>) -> CallerForm {
        let CallerRef::Agent(CallingAgent { connection, .. }) = caller else { return CallerForm::Full };
        if self.0.contains(connection) {
            return CallerForm::ConnectionId(*connection);
        }
        let forget = self.0.len() >= SESSIONS;
        if forget {
            self.0.clear();
        }
        self.0.insert(*connection);
        if forget { CallerForm::FullAfterForget } else { CallerForm::Full }
    }
}

/// The answering side: the sessions it has received in full.
#[derive(Default)]
pub(super) struct ReceivedSessions(pub(super) HashMap<u64, CallingAgent, ByConnectionId>);

impl ReceivedSessions {
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Who is calling. `None` if the other side names a session that it did not send, or sends too many.
    pub fn resolve(&mut self, caller: WireCaller, trace: Option<Arc<TracedCall>>) -> Option<Caller> {
        match caller {
            WireCaller::ConnectionId(connection) => {
                let session = self.0.get(&connection)?.clone();
                Some(Caller::Agent(CallingAgent { trace, ..session }))
            }
            WireCaller::Full(caller) => match *caller {
                Caller::Agent(session) => {
                    if self.0.len() > SESSIONS {
                        return None;
                    }
                    self.0.insert(session.connection, session.clone());
                    Some(Caller::Agent(CallingAgent { trace, ..session }))
                }
                Caller::Token(mut token) => {
                    if let Some(agent) = &mut token.agent {
                        agent.trace = trace;
                    }
                    Some(Caller::Token(token))
                }
                Caller::Foreign(session, relayed) => {
                    Some(Caller::Foreign(CallingAgent { trace, ..session }, relayed))
                }
                other => Some(other),
            },
        }
    }
}
