//! The agent of the page, and its access tokens. The page has a token only; the key stays with this program.

use crate::agent_args::AgentArgs;
use client::{Aid, Error, GatewayDialer, Home, LocalAgent, renew_tokens};
use kernel::Ids;
use tokio::sync::Mutex;

/// What the names of these agents begin with. What follows is random, so that no two people have the same.
const NAME: &str = "demo-web-";

/// How many tokens are remembered as given to the page: those of two days.
const GIVEN: usize = 48;

pub(super) struct PageTokens {
    dialer: GatewayDialer,
    agent: LocalAgent,
    given: Mutex<Vec<String>>,
}

/// The agent of the page at a server: the one that this folder has already, so that the page finds its conversations again.
pub(super) async fn register_agent(
    args: &AgentArgs,
    home: &Home,
    dialer: &GatewayDialer,
    issuer: &str,
) -> anyhow::Result<LocalAgent> {
    let is_ours = |aid: &&Aid| aid.issuer() == issuer && aid.name().starts_with(NAME);
    let agent = match home.agents()?.iter().find(is_ours) {
        Some(aid) => args.agent(home, aid.as_str())?,
        None => home
            .create(&Aid::parse(&format!("{NAME}{}.{issuer}", hex::encode(Ids::default().bytes::<6>())))?)?,
    };
    // A server that was set up again does not know the agent of before.
    client::register(dialer, &agent).await.map_err(|error| args.explained(home, error.into()))?;
    Ok(agent)
}

impl PageTokens {
    pub fn new(dialer: GatewayDialer, agent: LocalAgent) -> PageTokens {
        PageTokens { dialer, agent, given: Mutex::default() }
    }

    /// A new token.
    pub async fn give(&self) -> Result<String, Error> {
        self.give_next(&mut *self.given.lock().await).await
    }

    /// A newer token in exchange for one that was given, even if that has expired; nothing for another.
    pub async fn exchange(&self, old: &str) -> Option<Result<String, Error>> {
        // Two tabs may ask at the same moment: the second one gets what the first one was given.
        let mut given = self.given.lock().await;
        let at = given.iter().position(|token| token == old)?;
        match given.last() {
            Some(newest) if at + 1 < given.len() => Some(Ok(newest.clone())),
            _ => Some(self.give_next(&mut given).await),
        }
    }

    async fn give_next(&self, given: &mut Vec<String>) -> Result<String, Error> {
        let token = renew_tokens(&self.dialer, &self.agent).await?.access_token;
        if given.len() == GIVEN {
            given.remove(0);
        }
        given.push(token.clone());
        Ok(token)
    }
}
