//! From where new agents were registered. Their access tokens say it, so that no connection has to look it up.

use super::{AuthService, Store};
use kernel::{Aid, Network, is_private_address};
use std::net::IpAddr;

const DAY_MS: i64 = 86_400_000;

impl AuthService {
    /// Notes the network of an agent that has just been registered. Private addresses do not say who has them.
    pub(super) async fn note_new_agent(&self, aid: &Aid, address: Option<IpAddr>) -> sqlx::Result<()> {
        let days = i64::from(self.new_agent_days);
        match address.filter(|address| !is_private_address(*address) && days > 0) {
            Some(address) => {
                let until = self.clock.now_ms() + days * DAY_MS;
                self.store.put_new_agent(aid.as_str(), Network::of_customer(address), until).await
            }
            None => Ok(()),
        }
    }

    /// The network that an agent was registered from, if it is new.
    pub(super) async fn network_of(&self, aid: &str) -> sqlx::Result<Option<Network>> {
        let network = self.store.network_of(aid, self.clock.now_ms()).await?;
        Ok(network.and_then(|network| network.parse().ok()))
    }
}

impl Store {
    async fn put_new_agent(&self, aid: &str, network: Network, until: i64) -> sqlx::Result<()> {
        let query = sqlx::query(
            "INSERT INTO new_agents (aid, network, until) VALUES ($1, $2, $3) ON CONFLICT (aid) DO NOTHING",
        );
        let query = query.bind(aid).bind(network.to_string()).bind(until);
        self.db.counted(query.execute(self.db.write_alone())).await.map(drop)
    }

    async fn network_of(&self, aid: &str, now: i64) -> sqlx::Result<Option<String>> {
        sqlx::query_scalar("SELECT network FROM new_agents WHERE aid = $1 AND until > $2")
            .bind(aid)
            .bind(now)
            .fetch_optional(self.db.read())
            .await
    }
}
