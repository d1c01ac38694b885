//! Whether those who are to take part in a task exist.

use super::TaskService;
use super::model::error::Error;
use kernel::{Aid, Cache};
use parking_lot::Mutex;
use proto_schemas::requests::ca;

/// How many agents are remembered; others are looked up again.
const MAX_AGENTS: usize = 100_000;

/// Agents that were found to be registered. They stay so until their AID ends.
pub(super) struct RegisteredAgents(Mutex<Cache<Aid, ()>>);

impl RegisteredAgents {
    pub fn forget(&self, aid: &Aid) {
        self.0.lock().remove(aid);
    }
}

impl Default for RegisteredAgents {
    fn default() -> RegisteredAgents {
        RegisteredAgents(Mutex::new(Cache::new(MAX_AGENTS)))
    }
}

impl TaskService {
    /// Refuses whoever is not registered. An agent of another domain is not asked for, so that a domain that is away holds nothing up:
    /// whether it exists is learned when its domain is told of the task.
    pub(super) async fn registered(&self, aid: &Aid, role: &'static str) -> Result<(), Error> {
        if aid.issuer() != self.issuer {
            return if self.mesh.knows("gateway") { Ok(()) } else { Err(Error::Foreign(aid.clone())) };
        }
        match self.is_registered(aid).await? {
            true => Ok(()),
            false => Err(Error::conflict(format!("{aid} is not registered"), role)),
        }
    }

    /// Of an agent of this domain.
    pub(super) async fn is_registered(&self, aid: &Aid) -> Result<bool, Error> {
        if self.agents.0.lock().get(aid).is_some() {
            return Ok(true);
        }
        let known = self.mesh.known_cert("task", &ca::GetCert::of_aid(aid.as_str())).await?;
        if known.is_none() {
            return Ok(false);
        }
        self.agents.0.lock().insert(aid.clone(), ());
        Ok(true)
    }
}
