//! `meta.account`: what every namespace keeps for an agent, asked of the services.

use crate::gateway::GatewayState;
use futures_util::future::join_all;
use kernel::{Aid, Caller, RpcError};
use proto_schemas::requests::meta::{AgentAccount, KeptAccount, NamespaceAccount};
use proto_schemas::{Method, account_methods};
use serde::{Deserialize, Serialize};

/// What is asked of each, and what is read of its answer: all of them have these members.
#[derive(Serialize)]
struct AskedAccount<'a> {
    aid: &'a Aid,
}

#[derive(Deserialize)]
struct FoundAccounts {
    accounts: Vec<KeptAccount>,
}

impl GatewayState {
    /// A namespace whose service does not answer is left out; if none does, that is said.
    pub async fn agent_account(&self, aid: &Aid) -> Result<AgentAccount, RpcError> {
        let asked = join_all(account_methods().map(|method| self.namespace_account(method, aid))).await;
        let mut failed = None;
        let mut namespaces = Vec::new();
        for answer in asked {
            match answer {
                Ok(found) => namespaces.extend(found),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed.filter(|_| namespaces.is_empty()) {
            return Err(error);
        }
        let bytes = namespaces.iter().map(|namespace| namespace.bytes).sum();
        let bytes_limit = i64::try_from(self.config.accounts.total_bytes).unwrap_or(i64::MAX);
        Ok(AgentAccount { aid: aid.clone(), bytes, bytes_limit, namespaces })
    }

    async fn namespace_account(
        &self,
        method: &'static Method,
        aid: &Aid,
    ) -> Result<Option<NamespaceAccount>, RpcError> {
        let asked = AskedAccount { aid };
        let found = self.mesh.ask_named(Caller::service("gateway"), method.name, &asked).await;
        let FoundAccounts { accounts } = found?;
        let found = accounts.into_iter().next();
        Ok(found.map(|KeptAccount { bytes, rows, bytes_limit, rows_limit, .. }| {
            let namespace = method.namespace.name.to_owned();
            NamespaceAccount { namespace, bytes, rows, bytes_limit, rows_limit }
        }))
    }
}
