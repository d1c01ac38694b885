//! Sessions that a link was told of, and from then on calls by their number.

use super::wire::{Asker, Who};
use services::kernel::{Caller, Session, Trace};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// How many sessions a link remembers before it forgets all of them and is told again.
pub(super) const SESSIONS: usize = 65_536;

/// Finds connections by their numbers. The gateways give these, nobody else, so nothing cleverer is needed.
type Spread = BuildHasherDefault<Spreading>;

#[derive(Default)]
pub(super) struct Spreading(u64);

impl Hasher for Spreading {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    /// The table looks at the highest bits and at the lowest, so both have to depend on all of them.
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// The asking side's memory of whom it has introduced.
#[derive(Default)]
pub(super) struct Introduced(pub(super) HashSet<u64, Spread>);

/// How a caller goes over the wire.
pub(super) enum Introduction {
    Known(u64),
    New,
    /// The other side forgets everybody first.
    NewAfterForgetting,
}

impl Introduced {
    pub fn introduce(&mut self, asker: Asker<'_>) -> Introduction {
        let Asker::Agent(Session { connection, .. }) = asker else { return Introduction::New };
        if self.0.contains(connection) {
            return Introduction::Known(*connection);
        }
        let forget = self.0.len() >= SESSIONS;
        if forget {
            self.0.clear();
        }
        self.0.insert(*connection);
        if forget { Introduction::NewAfterForgetting } else { Introduction::New }
    }
}

/// The answering side's memory of whom it was introduced to.
#[derive(Default)]
pub(super) struct Acquainted(pub(super) HashMap<u64, Session, Spread>);

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
            Who::New(caller) => match *caller {
                Caller::Agent(session) => {
                    if self.0.len() > SESSIONS {
                        return None;
                    }
                    self.0.insert(session.connection, session.clone());
                    Some(Caller::Agent(Session { trace, ..session }))
                }
                other => Some(other),
            },
        }
    }
}
