//! In whose name another gateway calls: an agent of its own domain, or one of its services.

use crate::federation::errors::{quoted, refused};
use crate::federation::wire::relay::Relay;
use kernel::{
    Aid, AidError, Caller, CallerKind, CallingAgent, DeviceId, Generation, Relayed, RpcError, SlotId,
};
use std::net::{IpAddr, Ipv4Addr};

pub enum ForeignCaller {
    Agent(CallingAgent),
    Service {
        name: &'static str,
        /// With its domain: `search.aid.net`.
        aid: String,
    },
}

impl ForeignCaller {
    /// The caller of a relay, who must be of the domain that the link proved.
    pub fn read(relay: &Relay<'_>, from_issuer: &str) -> Result<ForeignCaller, RpcError> {
        let Some(caller) = &relay.caller else { return Err(refused("caller", "caller is missing")) };
        match &*caller.kind {
            "aid" => {
                let aid = Aid::parse(&caller.aid).map_err(wrong)?;
                check_issuer(aid.as_str(), aid.issuer(), from_issuer)?;
                Ok(ForeignCaller::Agent(CallingAgent {
                    aid,
                    device: DeviceId::parse(&caller.device_id).map_err(wrong)?,
                    slot: SlotId::parse(&caller.slot_id).map_err(wrong)?,
                    connection: 0,
                    address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                    connected_at_ms: 0,
                    network: None,
                    generation: Generation::default(),
                    trace: None,
                }))
            }
            "service" => ForeignCaller::read_service(&caller.aid, from_issuer),
            other => {
                let sentence = format!("caller.type must be \"aid\" or \"service\", not {:?}", quoted(other));
                Err(refused("caller_type", sentence))
            }
        }
    }

    /// The names of some services are shorter than those of agents may be, so it is not read as an AID.
    fn read_service(text: &str, from_issuer: &str) -> Result<ForeignCaller, RpcError> {
        let aid = text.to_ascii_lowercase();
        let (name, issuer) = aid.split_once('.').unwrap_or((&aid, ""));
        check_issuer(&aid, issuer, from_issuer)?;
        match proto_schemas::find_service(name) {
            Some(name) => Ok(ForeignCaller::Service { name, aid }),
            None => {
                Err(refused("caller", format!("caller: {:?} is not the name of a service", quoted(name))))
            }
        }
    }

    pub fn kind(&self) -> CallerKind<'static> {
        match self {
            ForeignCaller::Agent(_) => CallerKind::ForeignAgent,
            ForeignCaller::Service { .. } => CallerKind::ForeignService,
        }
    }

    /// Who it is, with its domain.
    pub fn aid(&self) -> &str {
        match self {
            ForeignCaller::Agent(session) => session.aid.as_str(),
            ForeignCaller::Service { aid, .. } => aid,
        }
    }

    pub fn into_caller(self, relayed: Relayed) -> Caller {
        match self {
            ForeignCaller::Agent(session) => Caller::Foreign(session, relayed),
            ForeignCaller::Service { name, .. } => {
                Caller::ForeignService { service: name.to_owned(), relayed }
            }
        }
    }
}

fn check_issuer(aid: &str, issuer: &str, from_issuer: &str) -> Result<(), RpcError> {
    match issuer == from_issuer {
        true => Ok(()),
        false => {
            let aid = quoted(aid);
            let sentence = format!(
                "{from_issuer} may relay only for its own agents and services, and {aid} is none of them"
            );
            Err(refused("caller_issuer", sentence))
        }
    }
}

fn wrong(error: AidError) -> RpcError {
    refused("caller", format!("caller: {error}"))
}
