//! The AIDs in the parameters of a relay: who acts must be the caller, and who is acted on must be one of ours.

use super::named_members::named_members;
use crate::federation::errors::refused;
use kernel::{Aid, RpcError};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The parameters that say who acts, beside `client_signature`.
const ACTORS: [&str; 4] = ["from", "from_aid", "sender_aid", "owner_aid"];

/// The AIDs that a call names.
pub struct NamedAids<'a> {
    /// The parameter that determines the domain of the call, by its name and as it is written.
    target: Option<(&'static str, Option<&'a RawValue>)>,
    actors: [Option<&'a RawValue>; 4],
    signature: Option<&'a RawValue>,
}

impl<'a> NamedAids<'a> {
    /// `by` is the parameter that determines the domain. It says on whom the call acts, also where it is called as one that
    /// says who acts elsewhere.
    pub fn read(params: &'a RawValue, by: Option<&'static str>) -> Result<NamedAids<'a>, RpcError> {
        if !params.get().starts_with('{') {
            return Err(refused("params", "params must be an object"));
        }
        let [from, from_aid, sender_aid, owner_aid] = ACTORS;
        // The first of equal names gets the value.
        let names = [by.unwrap_or_default(), from, from_aid, sender_aid, owner_aid, "client_signature"];
        let [target, from, from_aid, sender_aid, owner_aid, signature] =
            named_members(params, names).map_err(|error| malformed("params", &error))?;
        let actors = [from, from_aid, sender_aid, owner_aid];
        Ok(NamedAids { target: by.map(|by| (by, target)), actors, signature })
    }

    /// Every parameter that says who acts must name the caller, which for a service is the service itself: it cannot act
    /// for an agent.
    pub fn check_actor(&self, caller: &str) -> Result<(), RpcError> {
        for (name, actor) in ACTORS.into_iter().zip(self.actors) {
            let Some(actor) = actor else { continue };
            let AidText(aid) = parse(name, actor)?;
            check_same(name, &aid, caller)?;
        }
        let Some(signature) = self.signature else { return Ok(()) };
        let SignatureMember { aid: AidText(aid) } = parse("client_signature", signature)?;
        check_same("client_signature.aid", &aid, caller)
    }

    /// Every agent that the call acts on must be one of ours: nothing is relayed on to a third domain.
    pub fn check_target(&self, ours: &str) -> Result<(), RpcError> {
        let Some((by, target)) = self.target else { return Ok(()) };
        let local = |AidText(name): &AidText<'_>| Aid::parse(name).is_ok_and(|aid| aid.issuer() == ours);
        let all_local = match target {
            Some(list) if list.get().starts_with('[') => {
                parse::<Vec<AidText<'_>>>(by, list)?.iter().all(local)
            }
            Some(name) => local(&parse(by, name)?),
            None => false,
        };
        match all_local {
            true => Ok(()),
            false => Err(refused("target", format!("{by} must name agents of {ours}"))),
        }
    }
}

/// Borrowed from the parameters; a `Cow` alone would be copied.
#[derive(Deserialize)]
#[serde(transparent)]
struct AidText<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct SignatureMember<'a> {
    #[serde(borrow)]
    aid: AidText<'a>,
}

fn parse<'a, T: Deserialize<'a>>(name: &str, value: &'a RawValue) -> Result<T, RpcError> {
    serde_json::from_str(value.get()).map_err(|error| malformed(&format!("params.{name}"), &error))
}

fn malformed(what: &str, error: &serde_json::Error) -> RpcError {
    refused("params", format!("{what}: {error}"))
}

fn check_same(name: &str, aid: &str, caller: &str) -> Result<(), RpcError> {
    match aid == caller {
        true => Ok(()),
        false => Err(refused("actor", format!("{name} must be the caller, {caller}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(params: &str, by: Option<&'static str>, caller: &str) -> Option<String> {
        let params: Box<RawValue> = serde_json::from_str(params).unwrap();
        let checked = NamedAids::read(&params, by).and_then(|names| {
            names.check_actor(caller)?;
            names.check_target("ours.example")
        });
        let error = checked.err()?;
        assert_eq!(error.code(), -32012);
        error.data("reason").and_then(|reason| reason.as_str()).map(str::to_owned)
    }

    #[test]
    fn the_target_is_the_parameter_that_the_schema_names() {
        for (params, reason) in [
            (r#"{"team":"alice.ours.example"}"#, None),
            (r#"{"team":"ALICE.ours.example","to":"bobb.third.example"}"#, None),
            (r#"{"team":["alice.ours.example","carol.ours.example"]}"#, None),
            (r#"{"team":[]}"#, None),
            (r#"{"team":["alice.ours.example","bobb.third.example"]}"#, Some("target")),
            (r#"{"team":"bobb.theirs.example"}"#, Some("target")),
            (r#"{"team":"alice.ours.example.evil"}"#, Some("target")),
            (r#"{"team":""}"#, Some("target")),
            (r#"{"team":null}"#, Some("target")),
            (r#"{"to":"alice.ours.example"}"#, Some("target")),
            ("{}", Some("target")),
            (r#"{"team":7}"#, Some("params")),
            (r#"{"team":[7]}"#, Some("params")),
            (r#"{"team":{"aid":"alice.ours.example"}}"#, Some("params")),
            (r#"{"team":"alice.ours.example","team":"bobb.third.example"}"#, Some("params")),
            ("[]", Some("params")),
            ("null", Some("params")),
        ] {
            assert_eq!(refusal(params, Some("team"), "bobb.theirs.example").as_deref(), reason, "{params}");
        }
        assert_eq!(refusal(r#"{"to":"bobb.third.example","":1}"#, None, "bobb.theirs.example"), None);
    }

    #[test]
    fn nobody_but_the_caller_acts() {
        let callers = ["bobb.theirs.example", "search.theirs.example"];
        for caller in callers {
            for name in ACTORS {
                for (aid, reason) in [
                    (format!("\"{caller}\""), None),
                    ("null".to_owned(), None),
                    ("\"alice.ours.example\"".to_owned(), Some("actor")),
                    ("\"carl.theirs.example\"".to_owned(), Some("actor")),
                    ("\"\"".to_owned(), Some("actor")),
                    ("[]".to_owned(), Some("params")),
                ] {
                    let params = format!("{{\"{name}\":{aid}}}");
                    assert_eq!(refusal(&params, None, caller).as_deref(), reason, "{caller}: {params}");
                }
            }
            for (signature, reason) in [
                (format!("{{\"aid\":\"{caller}\",\"more\":1}}"), None),
                ("{\"aid\":\"alice.ours.example\"}".to_owned(), Some("actor")),
                ("{}".to_owned(), Some("params")),
                ("7".to_owned(), Some("params")),
            ] {
                let params = format!("{{\"client_signature\":{signature}}}");
                assert_eq!(refusal(&params, None, caller).as_deref(), reason, "{caller}: {params}");
            }
        }
    }

    #[test]
    fn what_determines_the_domain_is_no_actor() {
        let ours = r#"{"owner_aid":"alice.ours.example"}"#;
        assert_eq!(refusal(ours, Some("owner_aid"), "bobb.theirs.example"), None);
        assert_eq!(refusal(ours, None, "bobb.theirs.example").as_deref(), Some("actor"));
    }
}
