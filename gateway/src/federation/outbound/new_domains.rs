//! Domains that were never reached. Anybody can name one, and each costs a dial and a queue until it is given up; so they have budgets of
//! their own, all together and for each agent, and those that are known keep their dials and queues whatever is named.
//!
//! A domain is known once its gateway has proved which domain it is of, to us or by dialling us, and if the operator named it. That is
//! kept in memory: after a start every other domain is new until it is reached for the first time.

use crate::config::FederationConfig;
use crate::federation::errors::{DialPhase, LinkFailure};
use parking_lot::RwLock;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Domains that may be dialled at the same time: known ones, new ones, and new ones for one asker.
const KNOWN_DIALS: usize = 48;
const NEW_DIALS: usize = 16;
const ASKER_DIALS: usize = 4;
/// New domains have at most one queue in so many.
const NEW_SHARE: usize = 4;
/// How many domains are remembered as reached. Each of them has proved that a trusted root is above it.
const REACHED: usize = 10_000;

/// Who has a domain dialled that was never reached: an agent by its AID, or a service by its name.
pub struct DialAsker {
    name: String,
    dials: Arc<Semaphore>,
}

/// The right to dial one domain.
pub struct DialPermits<'a> {
    _all: SemaphorePermit<'a>,
    _asker: Option<OwnedSemaphorePermit>,
}

pub struct DomainBudgets {
    new_per_asker: usize,
    new_queues: usize,
    /// Those that the operator named.
    named: HashSet<String>,
    reached: RwLock<HashSet<String>>,
    known_dials: Semaphore,
    new_dials: Semaphore,
}

impl DomainBudgets {
    pub fn new(settings: &FederationConfig) -> DomainBudgets {
        let named = settings.allow.iter().chain(settings.resolve.keys());
        DomainBudgets {
            new_per_asker: settings.new_domains_per_agent,
            new_queues: (settings.peers / NEW_SHARE).max(1),
            named: named.map(|domain| domain.to_ascii_lowercase()).collect(),
            reached: RwLock::default(),
            known_dials: Semaphore::new(KNOWN_DIALS),
            new_dials: Semaphore::new(NEW_DIALS),
        }
    }

    pub fn is_known(&self, issuer: &str) -> bool {
        self.named.contains(issuer) || self.reached.read().contains(issuer)
    }

    /// The gateway of the domain has proved which domain it is of.
    pub fn reached(&self, issuer: &str) {
        if self.is_known(issuer) {
            return;
        }
        let mut reached = self.reached.write();
        if reached.len() < REACHED {
            reached.insert(issuer.to_owned());
        }
    }

    /// The one who asks for one more new domain, if it may. `busy` are those for whom new domains are dialled, or wait after a failed
    /// dial, once for each domain.
    pub fn asker(&self, name: &str, busy: &[Arc<DialAsker>]) -> Result<Arc<DialAsker>, LinkFailure> {
        let own: Vec<&Arc<DialAsker>> = busy.iter().filter(|other| other.name == name).collect();
        if own.len() >= self.new_per_asker {
            let sentence =
                format!("too many never-reached domains are being dialled for {name}: {}", own.len());
            return Err(LinkFailure::new(DialPhase::Connect, "new_domains", sentence));
        }
        if busy.len() >= self.new_queues {
            let sentence = "too many never-reached domains are being dialled";
            return Err(LinkFailure::new(DialPhase::Connect, "pool_full", sentence));
        }
        match own.first() {
            Some(&asker) => Ok(asker.clone()),
            None => Ok(Arc::new(DialAsker {
                name: name.to_owned(),
                dials: Arc::new(Semaphore::new(ASKER_DIALS)),
            })),
        }
    }

    /// Waits until one more domain may be dialled: a known one, or a new one for whoever asked for it.
    pub async fn permits(&self, asker: Option<Arc<DialAsker>>) -> Option<DialPermits<'_>> {
        let Some(asker) = asker else {
            return Some(DialPermits { _all: self.known_dials.acquire().await.ok()?, _asker: None });
        };
        // First the own one: whoever has many dials waits for them without taking those of others.
        let own = asker.dials.clone().acquire_owned().await.ok()?;
        Some(DialPermits { _all: self.new_dials.acquire().await.ok()?, _asker: Some(own) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn budgets(peers: usize, new_domains_per_agent: usize) -> DomainBudgets {
        let allow = vec!["Named.example".to_owned()];
        DomainBudgets::new(&FederationConfig { peers, new_domains_per_agent, allow, ..Default::default() })
    }

    #[test]
    fn each_asker_has_a_budget_and_all_of_them_together() {
        let budgets = budgets(20, 3);
        let mut busy = Vec::new();
        for _ in 0..3 {
            busy.push(budgets.asker("alice.ours.example", &busy).unwrap());
        }
        assert!(Arc::ptr_eq(&busy[0], &busy[2]), "they share their dials");
        let reason = |name: &str, busy: &[_]| budgets.asker(name, busy).err().map(|failure| failure.reason);
        assert_eq!(reason("alice.ours.example", &busy), Some("new_domains"));
        for name in ["bobb.ours.example", "carol.ours.example"] {
            busy.push(budgets.asker(name, &busy).unwrap());
        }
        assert_eq!(reason("dave.ours.example", &busy), Some("pool_full"), "a quarter of the queues");
        busy.remove(0);
        assert_eq!(reason("alice.ours.example", &busy), None);
    }

    #[test]
    fn a_domain_is_known_once_it_was_reached_or_named() {
        let budgets = budgets(500, 32);
        assert!(budgets.is_known("named.example") && !budgets.is_known("other.example"));
        budgets.reached("other.example");
        assert!(budgets.is_known("other.example"));
        for n in 0..REACHED + 5 {
            budgets.reached(&format!("x{n}.example"));
        }
        assert!(budgets.reached.read().len() <= REACHED && budgets.is_known("other.example"));
    }

    #[test]
    fn new_domains_take_no_dial_of_known_ones_and_one_asker_none_of_another() {
        let budgets = budgets(500, 32);
        let new = |name: &str| budgets.asker(name, &[]).ok();
        let permits = |asker| budgets.permits(asker).now_or_never().flatten();
        let alice = new("alice.ours.example");
        let own: Vec<_> = (0..ASKER_DIALS).filter_map(|_| permits(alice.clone())).collect();
        assert_eq!(own.len(), ASKER_DIALS);
        assert!(permits(alice).is_none(), "it waits for its own");
        let others: Vec<_> = (0..NEW_DIALS).filter_map(|n| permits(new(&format!("x{n}.example")))).collect();
        assert_eq!(others.len(), NEW_DIALS - ASKER_DIALS);
        let known: Vec<_> = (0..KNOWN_DIALS).filter_map(|_| permits(None)).collect();
        assert_eq!(known.len(), KNOWN_DIALS);
        drop(own);
        assert!(permits(new("carol.ours.example")).is_some());
    }
}
