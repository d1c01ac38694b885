//! `aund call`: any method, called as an agent.

use crate::agent_args::{AgentArgs, result};
use clap::Args;
use serde_json::Value;

#[derive(Args)]
pub(super) struct CallCommand {
    /// The agent that calls: one of this machine
    name: String,
    /// The method, such as meta.ping; aund schema lists all of them
    method: String,
    /// The parameters, as a JSON object
    #[arg(value_name = "JSON", default_value = "{}", value_parser = params)]
    params: Value,
    #[command(flatten)]
    args: AgentArgs,
}

impl CallCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let (show, home) = (self.args.show(), self.args.home()?);
        let agent = self.args.agent(&home, &self.name)?;
        let (args, method, params) = (&self.args, &self.method, &self.params);
        let answer = match may_repeat(method, params) {
            true => args.call_again_while_full(&home, &agent, method, params).await?,
            false => args.call_once(&home, &agent, method, params).await?,
        };
        let result = result(answer, show)?;
        let text = if show.json { result.to_string() } else { serde_json::to_string_pretty(&result)? };
        show.line(&text)?;
        Ok(())
    }
}

/// Whether the same call twice has the effect of one, as its schema says for calls between domains: it only reads, or it has the
/// parameter that makes it so.
fn may_repeat(method: &str, params: &Value) -> bool {
    let present = |member: &str| params.get(member).is_some_and(|value| !value.is_null());
    let rule = proto_schemas::find(method).and_then(|method| method.federation);
    rule.is_some_and(|rule| rule.reads || rule.again.is_some_and(present))
}

fn params(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(params @ Value::Object(_)) => Ok(params),
        Ok(_) => Err("the parameters must be a JSON object, such as {\"seq\":1}".to_owned()),
        Err(error) => Err(format!("invalid JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_repeated_only_where_that_has_no_other_effect() {
        for (method, params, may) in [
            ("task.get", json!({}), true),
            ("message.send", json!({ "message_id": "m-1" }), true),
            ("message.send", json!({ "message_id": null }), false),
            ("message.send", json!({}), false),
            ("task.create", json!({}), false),
            ("no.method", json!({}), false),
        ] {
            assert_eq!(may_repeat(method, &params), may, "{method} {params}");
        }
    }
}
