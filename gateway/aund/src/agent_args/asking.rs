//! Which agent of this machine calls, where a command need not name it.

use super::AgentArgs;
use anyhow::{anyhow, bail};
use clap::Args;
use client::{Aid, Error, Home, LocalAgent};
use serde_json::Value;

/// So many agents are named where one has to be chosen.
const NAMED: usize = 5;
/// So many agents are tried where any will do.
const MOST_TRIED: usize = 5;

#[derive(Args, Clone, Default)]
pub(crate) struct AskingArgs {
    /// The agent that calls [default: the only one in the folder]
    #[arg(long = "as", value_name = "NAME")]
    asking: Option<String>,
    #[command(flatten)]
    pub args: AgentArgs,
}

impl AskingArgs {
    pub fn agent(&self, home: &Home) -> anyhow::Result<LocalAgent> {
        chosen(&self.args, home, self.asking.as_deref(), "--as ")
    }
}

/// For a question to which every agent gets the same answer.
#[derive(Args, Clone, Default)]
pub(crate) struct ReadingArgs {
    /// Call as this agent of yours [default: any in the folder]
    #[arg(long = "as", value_name = "NAME")]
    asking: Option<String>,
    #[command(flatten)]
    pub args: AgentArgs,
}

impl ReadingArgs {
    /// The agents that may ask: the one that is named, or all there are, in the order of their names.
    pub fn agents(&self, home: &Home) -> anyhow::Result<Vec<LocalAgent>> {
        if let Some(name) = &self.asking {
            return Ok(vec![self.args.agent(home, name)?]);
        }
        let known = known(&self.args, home)?;
        if known.is_empty() {
            bail!(no_agent(home));
        }
        known.iter().map(|aid| self.args.agent(home, aid.as_str())).collect()
    }

    /// Calls a method that only reads as the first of these agents that can connect. The server of another may be gone.
    pub async fn call(
        &self,
        home: &Home,
        agents: &[LocalAgent],
        method: &str,
        params: &Value,
    ) -> anyhow::Result<Result<Value, Error>> {
        let mut first_error = None;
        for agent in agents.iter().take(MOST_TRIED) {
            match self.args.call_again_while_full(home, agent, method, params).await {
                Ok(answer) => return Ok(answer),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| anyhow!(no_agent(home))))
    }
}

/// The agent of this name, or the only one there is. `how` is what is written before the name of one, where there are several.
pub(crate) fn chosen(
    args: &AgentArgs,
    home: &Home,
    name: Option<&str>,
    how: &str,
) -> anyhow::Result<LocalAgent> {
    if let Some(name) = name {
        return args.agent(home, name);
    }
    match &known(args, home)?[..] {
        [] => bail!(no_agent(home)),
        [aid] => args.agent(home, aid.as_str()),
        several => bail!("there are several agents: choose one with {}", choices(several, how)),
    }
}

fn known(args: &AgentArgs, home: &Home) -> anyhow::Result<Vec<Aid>> {
    let mut known = home.agents()?;
    known.retain(|aid| args.issuer.as_deref().is_none_or(|issuer| aid.issuer() == issuer));
    Ok(known)
}

fn no_agent(home: &Home) -> String {
    format!("no agent in {}: create one with aund register NAME", home.path().display())
}

fn choices(aids: &[Aid], how: &str) -> String {
    let named: Vec<String> = aids.iter().take(NAMED).map(|aid| format!("{how}{aid}")).collect();
    let more = if aids.len() > NAMED { " or another one" } else { "" };
    named.join(" or ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_agent_is_meant_and_among_several_one_has_to_be_named() {
        let folder = tempfile::tempdir().unwrap();
        let (home, mut args) = (Home::new(folder.path()), AgentArgs::default());
        let found = |args: &AgentArgs, name| {
            let agent = chosen(args, &home, name, "--as ");
            agent.map(|agent| agent.aid.to_string()).map_err(|error| error.to_string())
        };
        assert!(found(&args, None).unwrap_err().contains("aund register"));
        home.create(&Aid::parse("alice.a.example").unwrap()).unwrap();
        assert_eq!(found(&args, None).unwrap(), "alice.a.example");
        home.create(&Aid::parse("bobb.b.example").unwrap()).unwrap();
        let doubt = found(&args, None).unwrap_err();
        assert!(doubt.ends_with("--as alice.a.example or --as bobb.b.example"), "{doubt}");
        assert_eq!(found(&args, Some("bobb")).unwrap(), "bobb.b.example");
        assert!(found(&args, Some("carol")).unwrap_err().contains("aund register carol"));
        args.issuer = Some("b.example".to_owned());
        assert_eq!(found(&args, None).unwrap(), "bobb.b.example");
    }

    #[test]
    fn any_agent_may_read_unless_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let mut reading = ReadingArgs::default();
        let found = |reading: &ReadingArgs| {
            let agents = reading.agents(&home).map_err(|error| error.to_string())?;
            Ok(agents.iter().map(|agent| agent.aid.to_string()).collect::<Vec<_>>())
        };
        let none: Result<_, String> = found(&reading);
        assert!(none.unwrap_err().contains("aund register"));
        for aid in ["carol.a.example", "alice.b.example"] {
            home.create(&Aid::parse(aid).unwrap()).unwrap();
        }
        assert_eq!(found(&reading).unwrap(), ["alice.b.example", "carol.a.example"]);
        reading.args.issuer = Some("a.example".to_owned());
        assert_eq!(found(&reading).unwrap(), ["carol.a.example"]);
        reading = ReadingArgs { asking: Some("alice".to_owned()), ..ReadingArgs::default() };
        assert_eq!(found(&reading).unwrap(), ["alice.b.example"]);
    }
}
