//! The names of keys and channels in Redis.

use crate::{Aid, Audience, Ids};

/// The channels and keys of one domain.
pub(crate) struct RedisKeys {
    /// This process: it skips what it published itself.
    pub process: String,
    /// The channel of what gateways announce.
    pub presence: String,
    /// The channel of events for the gateways themselves.
    pub gateway_events: String,
    /// The set of the gateways that are there.
    pub gateways: String,
    issuer: String,
}

impl RedisKeys {
    pub fn new(issuer: &str) -> RedisKeys {
        RedisKeys {
            process: hex::encode(Ids::default().bytes::<8>()),
            presence: format!("aund:{{{issuer}}}:presence"),
            gateway_events: format!("aund:{{{issuer}}}:gateway_events"),
            gateways: format!("aund:{{{issuer}}}:gateways"),
            issuer: issuer.to_owned(),
        }
    }

    /// The text in braces chooses the shard: agents spread over all of them.
    pub fn agent(&self, aid: &Aid) -> String {
        format!("aund:{}:aid:{{{aid}}}", self.issuer)
    }

    pub fn audience(&self, to: &Audience) -> String {
        match to {
            Audience::Agent(aid)
            | Audience::Instance { aid, .. }
            | Audience::Connection { aid, .. }
            | Audience::Others { aid, .. }
            | Audience::OtherInstances { aid, .. } => self.agent(aid),
            Audience::Gateways => self.gateway_events.clone(),
        }
    }

    /// Who is connected to a gateway: a hash, by connection.
    pub fn sessions(&self, gateway: &str) -> String {
        format!("aund:{{{}}}:sessions:{gateway}", self.issuer)
    }

    /// Exists while the gateway does.
    pub fn lease(&self, gateway: &str) -> String {
        format!("aund:{{{}}}:gateway:{gateway}", self.issuer)
    }

    pub fn rate(&self, what: &str) -> String {
        format!("aund:{}:rate:{{{what}}}", self.issuer)
    }
}
