//! `agent.get`: a registered agent, with its manifest and what people are shown of its scopes.

use super::record::{public_record, record};
use crate::callers::calling_aid;
use crate::{AgentService, Error};
use kernel::agent_md::{AgentMd, Visibility};
use kernel::{Caller, RpcError, codes};
use proto_schemas::requests::agent::{AgentRecord, Get, GotAgentRecord, ScopeText, ScopeTexts};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn get(self: Arc<Self>, caller: Caller, params: Get) -> Result<GotAgentRecord, Error> {
        if matches!(caller, Caller::Unauthenticated(_)) {
            return self.shown_to_everybody(&params.id).await;
        }
        let viewer = calling_aid(&caller)?;
        if let Some(GotAgentRecord { agent }) = self.at_its_domain(&caller, &params.id, &params).await? {
            // Its own words for preset scopes are not what people know these by.
            return Ok(GotAgentRecord { agent: with_scope_texts(agent) });
        }
        let found = self.store.agent(&params.id).await?;
        let row = found.ok_or(Error::NoAgentRecord(params.id))?;
        Ok(GotAgentRecord { agent: with_scope_texts(record(row, viewer)) })
    }

    /// Who has no token reads agents that describe themselves to everybody, and is not told which others there are: every refusal is
    /// the same.
    async fn shown_to_everybody(&self, id: &str) -> Result<GotAgentRecord, Error> {
        let refused = || RpcError::new(codes::UNAUTHENTICATED, "a valid access token is needed");
        let row = self.store.agent(id).await?.ok_or_else(refused)?;
        let described = self.store.get(&row.aid).await?;
        let document = described.as_ref().and_then(|(content, ..)| AgentMd::parse(content).ok());
        if document.is_none_or(|document| document.front.visibility != Visibility::Public) {
            return Err(refused().into());
        }
        Ok(GotAgentRecord { agent: with_scope_texts(public_record(row)) })
    }
}

/// With what people are shown of the scopes of its manifest.
fn with_scope_texts(agent: AgentRecord) -> AgentRecord {
    let texts = agent.capability_manifest.as_ref().map(|manifest| manifest::scope_texts(manifest.get()));
    let scope_texts = texts.map(|texts| {
        let of_scope = texts.into_iter().map(|(scope, texts)| {
            let texts = texts.into_iter().map(|(language, text)| {
                (language.to_owned(), ScopeText { label: text.label, description: text.description })
            });
            (scope, texts.collect())
        });
        of_scope.collect::<ScopeTexts>()
    });
    AgentRecord { scope_texts, ..agent }
}
