//! `message.query_online`: who has a long connection right now, here and in other domains.

use super::federation::PeerCall;
use super::{Error, MessageService};
use futures_util::future::join_all;
use kernel::{Aid, Caller};
use proto_schemas::requests::message::{OnlineAgents, QueryOnline};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const MAX_AIDS: usize = 100;
/// How long other domains are waited for.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

impl MessageService {
    pub(super) async fn query_online(
        self: Arc<Self>,
        caller: Caller,
        QueryOnline { aids }: QueryOnline,
    ) -> Result<OnlineAgents, Error> {
        if aids.len() > MAX_AIDS {
            return Err(Error::Param(format!("aids must have at most {MAX_AIDS} entries")));
        }

        // Every text is answered; one that is no AID is not online.
        let (mut online, mut at_peers) = (BTreeMap::new(), BTreeMap::<String, Vec<(String, Aid)>>::new());
        for text in aids {
            let aid = Aid::parse(&text).ok();
            let is_online = aid.as_ref().is_some_and(|aid| self.presence.is_online(aid));
            if let Some(aid) = aid.filter(|aid| !self.is_ours(aid)) {
                at_peers.entry(aid.issuer().to_owned()).or_default().push((text.clone(), aid));
            }
            online.insert(text, is_online);
        }
        if !at_peers.is_empty() && caller.local_agent().is_ok() {
            let asked = at_peers.values().map(|agents| self.online_at_peer(&caller, agents));
            online.extend(join_all(asked).await.into_iter().flatten());
        }
        Ok(OnlineAgents { online })
    }

    /// "A domain whose query fails degrades all its AIDs to false" (message.query_online).
    async fn online_at_peer(&self, caller: &Caller, agents: &[(String, Aid)]) -> Vec<(String, bool)> {
        let found = async {
            let Some((_, first)) = agents.first() else { return Ok(None) };
            let Some(peer_call) = self.peer_call(caller, first)? else { return Ok(None) };
            self.ask_online(&peer_call, agents).await.map(Some)
        };
        let found = match tokio::time::timeout(QUERY_TIMEOUT, found).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::debug!("another domain could not be asked who is online: {error}");
                None
            }
            Err(_) => None,
        };
        let is_online = |aid: &Aid| found.as_ref().and_then(|all| all.online.get(aid.as_str())).copied();
        agents.iter().map(|(text, aid)| (text.clone(), is_online(aid).unwrap_or(false))).collect()
    }

    async fn ask_online(
        &self,
        peer_call: &PeerCall<'_>,
        agents: &[(String, Aid)],
    ) -> Result<OnlineAgents, Error> {
        let aids = agents.iter().map(|(_, aid)| aid.to_string()).collect();
        self.ask_peer(peer_call, &QueryOnline { aids }, Some(QUERY_TIMEOUT)).await
    }
}
