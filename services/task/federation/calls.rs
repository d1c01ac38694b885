//! Calls of our agents about tasks that are in other domains: they are passed on to the home of the task, and answered as it answers.

use crate::TaskService;
use crate::model::error::Error;
use futures_util::StreamExt as _;
use futures_util::stream;
use kernel::{Caller, CallingAgent, RpcError, codes, forward_for_agent};
use proto_schemas::Request;
use proto_schemas::requests::task::TaskId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Homes that are asked at once because of one call.
const HOMES_AT_ONCE: usize = 8;

/// A call that is passed on.
pub(crate) struct HomeCall<'a, P> {
    pub caller: &'a Caller,
    pub method: &'static str,
    pub params: &'a P,
}

impl TaskService {
    /// Passes on a call about a task that is not found here. Whoever has no stub of it is answered the same, whether the task is
    /// hidden here or nowhere at all: both are looked for in the same way.
    pub(crate) async fn at_home<T: DeserializeOwned>(
        &self,
        call: HomeCall<'_, impl Serialize>,
        task_id: &TaskId,
    ) -> Result<T, Error> {
        let not_found = || Error::NotFound(task_id.clone());
        let session = own_agent(call.caller).ok_or_else(not_found)?;
        let homes = self.store.homes(&session.aid, &BTreeSet::from([task_id.clone()])).await?;
        let home = homes.get(task_id).ok_or_else(not_found)?;
        match self.ask_home(session, &call, home).await {
            Err(error) if error.code() == codes::task::TASK_NOT_FOUND.code => {
                self.store.remove_stub(&session.aid, task_id, home).await?;
                Err(not_found())
            }
            answer => Ok(answer?),
        }
    }

    /// The same for a call about several tasks: each home is asked about its own. What a home cannot answer is left out.
    pub(crate) async fn at_homes<R: Request>(
        &self,
        caller: &Caller,
        tasks: &BTreeSet<TaskId>,
        params: impl Fn(Vec<TaskId>) -> R,
    ) -> Result<Vec<(BTreeSet<TaskId>, R::Result)>, Error> {
        let Some(session) = own_agent(caller).filter(|_| !tasks.is_empty()) else { return Ok(Vec::new()) };
        let mut by_home: BTreeMap<String, BTreeSet<TaskId>> = BTreeMap::new();
        for (task, home) in self.store.homes(&session.aid, tasks).await? {
            by_home.entry(home).or_default().insert(task);
        }
        let asked = by_home.into_iter().map(|(home, of_home)| {
            let (method, params) = (R::METHOD, params(of_home.iter().cloned().collect()));
            async move {
                let call = HomeCall { caller, method, params: &params };
                match self.ask_home(session, &call, &home).await {
                    Ok(answer) => Some((of_home, answer)),
                    Err(error) => {
                        tracing::debug!(peer.issuer = home, "{home} does not answer {method}: {error}");
                        None
                    }
                }
            }
        });
        // Collected first: a stream of closures that borrow is not general enough to be sent between threads.
        let asked: Vec<_> = asked.collect();
        let answers: Vec<Option<_>> = stream::iter(asked).buffer_unordered(HOMES_AT_ONCE).collect().await;
        Ok(answers.into_iter().flatten().collect())
    }

    async fn ask_home<T: DeserializeOwned>(
        &self,
        session: &CallingAgent,
        call: &HomeCall<'_, impl Serialize>,
        home: &str,
    ) -> Result<T, RpcError> {
        let forward = forward_for_agent(session, home, call.method, call.params)?;
        let answer = self.mesh.forward("task", call.caller, forward).await?;
        serde_json::from_str(answer.get()).map_err(|error| unreadable(home, &error))
    }
}

/// An agent of ours. What another domain calls is never passed on to a third.
fn own_agent(caller: &Caller) -> Option<&CallingAgent> {
    caller.local_agent().ok()
}

pub(super) fn unreadable(issuer: &str, error: &dyn Display) -> RpcError {
    tracing::debug!(peer.issuer = issuer, "an answer of {issuer} cannot be read: {error}");
    RpcError::new(codes::FEDERATION_REFUSED, format!("the answer of {issuer} cannot be read"))
        .with("reason", "unreadable_answer")
        .with("target_issuer", issuer)
}
