//! `aund runs token`: the tokens with which back ends call.

use super::caller::OperatorArgs;
use super::text::word;
use crate::output;
use crate::show::{printable_line, time};
use anyhow::ensure;
use clap::Args;
use proto_schemas::requests::run::{RunToken, TokenCreate, TokenRevoke, Tokens};

/// Characters of a token that are stored and shown.
const SHOWN: usize = 12;

#[derive(Args)]
pub(super) struct TokenCommand {
    /// Create a token for this tenant: a NAME of [run.tenants.NAME]
    #[arg(required_unless_present_any = ["admin", "revoke", "list"])]
    tenant: Option<String>,
    /// Create an administrator's token: for all tenants, and for the credentials of profiles
    #[arg(long, conflicts_with = "tenant")]
    admin: bool,
    /// Revoke the tokens that begin with PREFIX
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["tenant", "admin"])]
    revoke: Option<String>,
    /// List the tokens of tenants and administrators: what they begin with, and when they were created
    #[arg(long, conflicts_with_all = ["tenant", "admin", "revoke"])]
    list: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

impl TokenCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let TokenCommand { tenant, admin, revoke, list, operator } = self;
        match revoke {
            _ if list => print_list(&operator).await,
            Some(prefix) => revoke_all(&operator, prefix).await,
            None => create(&operator, TokenCreate { tenant_id: tenant, admin: admin.then_some(true) }).await,
        }
    }
}

async fn create(operator: &OperatorArgs, request: TokenCreate) -> anyhow::Result<()> {
    let (created, answer) = operator.ask(&request).await?;
    let line = if operator.json { answer.to_string() } else { created.token };
    Ok(output::line(&line)?)
}

async fn revoke_all(operator: &OperatorArgs, prefix: String) -> anyhow::Result<()> {
    let (revoked, answer) = operator.ask(&TokenRevoke { prefix: prefix.clone() }).await?;
    ensure!(
        revoked.revoked > 0,
        "no valid token begins with {}: see aund runs token --list",
        beginning(&prefix)
    );
    let line = match revoked.revoked {
        _ if operator.json => answer.to_string(),
        1 => "revoked 1 token".to_owned(),
        many => format!("revoked {many} tokens"),
    };
    Ok(output::line(&line)?)
}

/// What is shown of a token that somebody has typed: it may be a whole one, which is valid somewhere else.
fn beginning(token: &str) -> String {
    let shown: String = token.chars().take(SHOWN).collect();
    let more = if shown == token { "" } else { "…" };
    format!("{}{more}", printable_line(&shown))
}

async fn print_list(operator: &OperatorArgs) -> anyhow::Result<()> {
    let (listed, answer) = operator.ask(&Tokens {}).await?;
    if operator.json {
        return Ok(output::line(&answer.to_string())?);
    }
    if listed.tokens.is_empty() {
        output::note("no tokens");
    }
    Ok(listed.tokens.iter().try_for_each(|token| output::line(&line(token)))?)
}

fn line(token: &RunToken) -> String {
    let whose = token.tenant_id.as_deref().map_or_else(|| word(&token.kind), printable_line);
    let revoked = token.revoked_at.as_deref().map(time);
    let revoked = revoked.map_or_else(String::new, |at| format!("  revoked {at}"));
    format!("{}…  {}  {whose}{revoked}", printable_line(&token.prefix), time(&token.created_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_by_its_beginning() {
        assert_eq!(beginning("art_0aZ9bY8cQWERTY0123456789"), "art_0aZ9bY8c…");
        assert_eq!(beginning("art_0aZ9"), "art_0aZ9");
        let mut token = RunToken {
            prefix: "art_0aZ9bY8c".to_owned(),
            kind: "tenant".to_owned(),
            tenant_id: Some("unidesk".to_owned()),
            created_at: "2026-03-21T13:00:00.000Z".to_owned(),
            revoked_at: None,
        };
        assert_eq!(line(&token), "art_0aZ9bY8c…  2026-03-21T13:00:00Z  unidesk");
        (token.tenant_id, token.kind) = (None, "admin".to_owned());
        token.revoked_at = Some("2026-03-22T13:00:00.000Z".to_owned());
        let expected = "art_0aZ9bY8c…  2026-03-21T13:00:00Z  admin  revoked 2026-03-22T13:00:00Z";
        assert_eq!(line(&token), expected);
    }
}
