//! Which agent of this machine calls, where a command need not name it.

use super::AgentArgs;
use anyhow::bail;
use clap::Args;
use client::{Aid, Home, LocalAgent};

/// So many agents are named where one has to be chosen.
const NAMED: usize = 5;

#[derive(Args, Clone, Default)]
pub(crate) struct AskingArgs {
    /// Call as this agent of yours [default: the only one in the folder]
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
    let mut known = home.agents()?;
    known.retain(|aid| args.issuer.as_deref().is_none_or(|issuer| aid.issuer() == issuer));
    match &known[..] {
        [] => bail!("there is no agent in {}: make one with aund register NAME", home.path().display()),
        [aid] => args.agent(home, aid.as_str()),
        several => bail!("there is more than one agent, say which: {}", choices(several, how)),
    }
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
}
