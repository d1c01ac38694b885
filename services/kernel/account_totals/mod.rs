//! What is kept for an agent in all services: it spans databases, which no transaction does, so services tell each other.

mod settings;

pub use settings::AccountSettings;

use crate::{Aid, Bus};
use parking_lot::RwLock;
use proto_schemas::requests::meta::AccountsTold;
use std::collections::HashMap;
use std::sync::Arc;

/// Who has less than this part of the total anywhere is not told of: all services together cannot pass the total by much with that.
const LITTLE: u64 = 64;

type BytesByAgent = HashMap<Aid, i64>;

/// What the services of a server keep for agents, as far as this process was told.
#[derive(Clone)]
pub struct Accounts {
    settings: AccountSettings,
    bus: Bus,
    told: Arc<RwLock<HashMap<String, BytesByAgent>>>,
}

impl Accounts {
    pub fn new(settings: AccountSettings, bus: &Bus) -> Accounts {
        let accounts = Accounts { settings, bus: bus.clone(), told: Arc::default() };
        let told = accounts.told.clone();
        bus.listen(move |event| {
            if let Some(AccountsTold { service, agents }) = event.as_signal::<AccountsTold>() {
                told.write().insert(service, agents.into_iter().collect());
            }
        });
        accounts
    }

    pub fn settings(&self) -> AccountSettings {
        self.settings
    }

    /// What services other than this one keep for an agent.
    pub fn elsewhere(&self, service: &str, aid: &Aid) -> i64 {
        let told = self.told.read();
        let others = told.iter().filter(|(other, _)| other.as_str() != service);
        others.filter_map(|(_, agents)| agents.get(aid)).fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// From how many bytes on the others are told of an agent.
    pub fn much(&self) -> i64 {
        i64::try_from(self.settings.total_bytes / LITTLE).unwrap_or(i64::MAX)
    }

    /// Tells every service what this one keeps for the agents that have much.
    pub fn tell(&self, service: &str, agents: Vec<(Aid, i64)>) {
        let before = self.told.read().get(service).is_some_and(|before| !before.is_empty());
        if before || !agents.is_empty() {
            self.bus.signal(&AccountsTold { service: service.to_owned(), agents });
        }
    }
}
