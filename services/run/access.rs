//! Who calls, in the words of runs: a tenant, an administrator, or the runner of one run.

use crate::error::Error;
use crate::settings::Settings;
use kernel::{Caller, CallingAgent};
use std::collections::BTreeSet;

/// The kinds of tokens that this service gives.
pub(crate) const TENANT: &str = "tenant";
pub(crate) const ADMIN: &str = "admin";
pub(crate) const RUNNER: &str = "runner";

/// What a caller may see and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunAccess {
    /// These tenants; an agent may act for several.
    Tenants(BTreeSet<String>),
    /// Every tenant.
    Admin,
    /// One run, as one attempt.
    Runner { run: String, attempt: String },
}

impl RunAccess {
    /// Of a caller of a method for tenants.
    pub fn of(caller: &Caller, settings: &Settings) -> Result<RunAccess, Error> {
        match caller {
            Caller::Operator => Ok(RunAccess::Admin),
            Caller::Token(token) if token.kind == ADMIN => Ok(RunAccess::Admin),
            Caller::Token(token) if token.kind == TENANT => {
                Ok(RunAccess::Tenants(BTreeSet::from([token.subject.clone()])))
            }
            Caller::Token(token) if token.kind == RUNNER => {
                let (run, attempt) = token.subject.split_once(' ').unwrap_or_default();
                Ok(RunAccess::Runner { run: run.to_owned(), attempt: attempt.to_owned() })
            }
            _ => of_agent(caller.local_agent()?, settings),
        }
    }

    /// Whether what belongs to this tenant exists for the caller.
    pub fn sees(&self, tenant: &str, run: &str) -> bool {
        match self {
            RunAccess::Tenants(tenants) => tenants.contains(tenant),
            RunAccess::Admin => true,
            RunAccess::Runner { run: own, .. } => own == run,
        }
    }

    /// Whether the caller may create something for this tenant. The sentence of the refusal tells nothing of other tenants.
    pub fn may_create_for(&self, tenant: &str, settings: &Settings) -> Result<(), Error> {
        let listed = settings.tenants.contains_key(tenant);
        match self {
            RunAccess::Admin if listed => Ok(()),
            RunAccess::Tenants(own) if listed && own.contains(tenant) => Ok(()),
            _ => Err(Error::Denied(format!("tenantId {tenant} is not a tenant of this caller"))),
        }
    }
}

/// An agent acts for the tenants that list it.
fn of_agent(agent: &CallingAgent, settings: &Settings) -> Result<RunAccess, Error> {
    let lists = |aids: &[String]| aids.iter().any(|aid| aid == "*" || aid == agent.aid.as_str());
    let tenants = settings.tenants.iter().filter(|(_, tenant)| lists(&tenant.aids));
    let tenants: BTreeSet<String> = tenants.map(|(name, _)| name.clone()).collect();
    match tenants.is_empty() {
        true => Err(Error::Forbidden(format!("{} acts for no tenant of this server", agent.aid))),
        false => Ok(RunAccess::Tenants(tenants)),
    }
}

/// Who pays for what the tokens of a tenant and of its runners hold and compute. The tokens of a tenant are the same by themselves.
pub(crate) fn payer_of(tenant: &str) -> String {
    format!("{TENANT}:{tenant}")
}

/// Who answered a question, or did something else that is shown with its name.
pub(crate) fn name_of(caller: &Caller) -> String {
    match caller {
        Caller::Token(token) if token.agent.is_none() => match &*token.kind {
            TENANT => format!("tenant {}", token.subject),
            kind => kind.to_owned(),
        },
        Caller::Operator => "operator".to_owned(),
        _ => caller.local_agent().map_or_else(|_| String::new(), |agent| agent.aid.to_string()),
    }
}
