//! On whose account a relay to another domain is started: the service that asks for it, and the relays that led to it.

use super::errors::refused;
use super::rules::serves;
use super::wire::relay::{RelayCaller, check_depth};
use kernel::{Caller, DeviceId, Relayed, RpcError, SlotId, codes};
use proto_schemas::requests::gateway::ForwardFederation;

pub struct RelayOrigin<'a> {
    pub service: &'a str,
    /// The relay that the service is answering, if any.
    relayed: Option<&'a Relayed>,
}

impl<'a> RelayOrigin<'a> {
    /// Only a service may call another domain.
    pub fn of(caller: &'a Caller) -> Result<RelayOrigin<'a>, RpcError> {
        let denied = || RpcError::new(codes::PERMISSION_DENIED, "only a service may call another domain");
        Ok(RelayOrigin { service: caller.service_name().ok_or_else(denied)?, relayed: caller.relayed() })
    }

    /// A service may call what it serves itself.
    pub fn check_namespace(&self, namespace: &str) -> Result<(), RpcError> {
        match serves(self.service, namespace) {
            true => Ok(()),
            false => {
                let sentence = format!(
                    "{} does not serve {namespace}, and may not call it in other domains",
                    self.service
                );
                Err(RpcError::new(codes::PERMISSION_DENIED, sentence))
            }
        }
    }

    /// How many relays led to one that is started now: none for a client of ours, one more for each relay before.
    pub fn depth(&self) -> Result<u64, RpcError> {
        let depth = self.relayed.map_or(0, |relayed| u64::from(relayed.depth) + 1);
        check_depth(depth).map(|()| depth)
    }

    /// In whose name the relay is: an agent of ours, or the service itself.
    pub fn caller<'f>(
        &self,
        forward: &'f ForwardFederation,
        ours: &str,
    ) -> Result<RelayCaller<'f>, RpcError> {
        let aid = match (&forward.caller_aid, forward.as_service.unwrap_or_default()) {
            (None, true) => return Ok(RelayCaller::service(self.service, ours)),
            (Some(aid), false) => aid,
            _ => {
                let sentence = "exactly one of caller_aid and as_service must be given";
                return Err(RpcError::new(codes::INVALID_PARAMS, sentence));
            }
        };
        if self.relayed.is_some() {
            let sentence =
                "a service that answers another domain may call other domains only in its own name";
            return Err(refused("as_service", sentence));
        }
        if aid.issuer() != ours {
            return Err(refused("caller_not_local", format!("{aid} is not an agent of this domain")));
        }
        Ok(RelayCaller {
            kind: "aid".into(),
            aid: aid.as_str().into(),
            device_id: forward.device_id.as_ref().map_or("", DeviceId::as_str).into(),
            slot_id: forward.slot_id.as_ref().map_or("", SlotId::as_str).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(depth: u8) -> Caller {
        let relayed = Relayed { from_issuer: "aid.net".to_owned(), relay_id: "r-1".to_owned(), depth };
        let foreign = Caller::ForeignService { service: "search".to_owned(), relayed };
        Caller::service_in_call("message", &foreign)
    }

    #[test]
    fn each_relay_is_one_deeper_than_the_one_that_led_to_it() {
        let depth = |caller: &Caller| RelayOrigin::of(caller).and_then(|origin| origin.depth());
        assert_eq!(depth(&Caller::service("message")).unwrap(), 0);
        assert_eq!(depth(&caller(0)).unwrap(), 1);
        assert_eq!(depth(&caller(1)).unwrap(), 2);
        for received in [2, 3, u8::MAX] {
            let error = depth(&caller(received)).unwrap_err();
            assert_eq!((error.code(), error.data("reason").unwrap().as_str()), (-32012, Some("depth")));
        }
    }

    #[test]
    fn a_service_may_relay_what_it_serves() {
        for (service, namespace, may) in [
            ("message", "message", true),
            ("message", "auth", false),
            ("message", "gateway", false),
            ("message", "nothing", false),
            ("gateway", "meta", true),
            ("gateway", "message", false),
            ("nothing", "nothing", false),
        ] {
            let caller = Caller::service(service);
            let checked = RelayOrigin::of(&caller).unwrap().check_namespace(namespace);
            assert_eq!(
                checked.err().map(|error| error.code()),
                (!may).then_some(-32004),
                "{service} {namespace}"
            );
        }
    }
}
