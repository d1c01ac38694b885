//! `aund accounts`: what the services keep for agents, and what single agents may keep.

use super::top::cells;
use crate::output;
use ::gateway::admin;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use proto_schemas::requests::meta::{KeptAccount, ServiceAccounts};
use proto_schemas::{Aid, Method, account_methods};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct AccountsCommand {
    #[command(subcommand)]
    command: Option<AccountsSubcommand>,
    /// The agent's AID [default: the agents that use the most]
    #[arg(value_name = "AID", value_parser = Aid::parse)]
    aid: Option<Aid>,
    /// Recount all accounts from the stored rows; writes wait until it is done
    #[arg(long)]
    recount: bool,
    #[command(flatten)]
    args: AccountsArgs,
}

#[derive(Subcommand)]
enum AccountsSubcommand {
    /// Set the limit of one agent; 0 restores the limit of the settings
    Set {
        #[arg(value_name = "AID", value_parser = Aid::parse)]
        aid: Aid,
        /// The namespace: message, task or agent
        #[arg(long, value_name = "NAMESPACE")]
        namespace: String,
        /// The limit in bytes, such as 1073741824 or 1GiB
        #[arg(long, value_name = "BYTES", value_parser = byte_count)]
        bytes: Option<i64>,
        /// The limit in rows
        #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(i64).range(0..))]
        rows: Option<i64>,
        #[command(flatten)]
        args: AccountsArgs,
    },
}

#[derive(Args)]
struct AccountsArgs {
    /// The data folder of the server, or of its gateway process [default: ./data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// An account, and whose namespace it is of.
#[derive(Serialize)]
struct ListedAccount {
    namespace: &'static str,
    #[serde(flatten)]
    account: KeptAccount,
}

impl AccountsCommand {
    pub(in crate::cli) async fn run(self) -> anyhow::Result<()> {
        let AccountsCommand { command, aid, recount, args } = self;
        match command {
            None => list(&args, aid, recount).await,
            Some(AccountsSubcommand::Set { aid, namespace, bytes, rows, args }) => {
                set(&args, &aid, &namespace, bytes, rows).await
            }
        }
    }
}

impl AccountsArgs {
    async fn ask(&self, method: &Method, params: &Value) -> anyhow::Result<ServiceAccounts> {
        let data = self.data.as_deref().unwrap_or(Path::new("./data"));
        let answer = admin::ask(data, method.name, params).await?;
        let answer = answer.with_context(|| format!("no server runs on {}", data.display()))?;
        serde_json::from_value(answer).context("the server's answer has an unexpected form")
    }
}

async fn list(args: &AccountsArgs, aid: Option<Aid>, recount: bool) -> anyhow::Result<()> {
    let mut listed = Vec::new();
    for method in account_methods() {
        let mut params = Map::new();
        params.extend(aid.as_ref().map(|aid| ("aid".to_owned(), json!(aid))));
        if recount && recounts(method) {
            params.insert("recount".to_owned(), json!(true));
        }
        let answer = args.ask(method, &Value::Object(params)).await?;
        let namespace = method.namespace.name;
        if let Some(corrected) = answer.corrected {
            output::note(&format!("{namespace}: corrected {corrected} accounts"));
        }
        listed.extend(answer.accounts.into_iter().map(|account| ListedAccount { namespace, account }));
    }
    show(args, &listed)
}

async fn set(
    args: &AccountsArgs,
    aid: &Aid,
    namespace: &str,
    bytes: Option<i64>,
    rows: Option<i64>,
) -> anyhow::Result<()> {
    let Some(method) = account_methods().find(|method| method.namespace.name == namespace) else {
        let names: Vec<&str> = account_methods().map(|method| method.namespace.name).collect();
        bail!("unknown namespace {namespace:?}: expected one of {}", names.join(", "));
    };
    if bytes.is_none() && rows.is_none() {
        bail!("use --bytes, --rows or both to set the limit of {aid}");
    }
    let mut params = json!({ "aid": aid });
    for (name, value) in [("bytes", bytes), ("rows", rows)] {
        if let Some(value) = value {
            params[name] = json!(value);
        }
    }
    let namespace = method.namespace.name;
    let accounts = args.ask(method, &params).await?.accounts;
    let listed: Vec<_> = accounts.into_iter().map(|account| ListedAccount { namespace, account }).collect();
    show(args, &listed)
}

/// Accounts of messages are counts by the hour, which are right by themselves after a day.
fn recounts(method: &Method) -> bool {
    method.doc()["params"]["properties"].get("recount").is_some()
}

fn show(args: &AccountsArgs, listed: &[ListedAccount]) -> anyhow::Result<()> {
    if args.json {
        return Ok(output::line(&json!({ "accounts": listed }).to_string())?);
    }
    Ok(output::print(&table(listed))?)
}

fn table(listed: &[ListedAccount]) -> String {
    if listed.is_empty() {
        return "no storage is used\n".to_owned();
    }
    let wide = listed.iter().map(|listed| listed.account.payer.len()).max().unwrap_or(0).max(5);
    let mut text = format!(
        "{:<9} {:<wide$} {:>10} {:>10} {:>10} {:>10}\n",
        "NAMESPACE", "WHO", "BYTES", "OF", "ROWS", "OF"
    );
    for ListedAccount { namespace, account } in listed {
        text += &format!(
            "{namespace:<9} {:<wide$} {:>10} {:>10} {:>10} {:>10}\n",
            account.payer,
            cells::bytes(account.bytes as f64),
            cells::bytes(account.bytes_limit as f64),
            account.rows,
            account.rows_limit,
        );
    }
    text
}

/// A number of bytes, with a unit or without.
fn byte_count(text: &str) -> Result<i64, String> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("", 1_i64)];
    let read = |(unit, times): &(&str, i64)| {
        text.strip_suffix(unit)?.trim().parse::<i64>().ok()?.checked_mul(*times)
    };
    let bytes = units.iter().find_map(read).filter(|bytes| *bytes >= 0);
    bytes.ok_or_else(|| "must be a number of bytes, such as 1073741824 or 1GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, bytes) in [("0", 0), ("1024", 1024), ("3KiB", 3072), ("2 MiB", 2 << 20), ("1GiB", 1 << 30)]
        {
            assert_eq!(byte_count(text), Ok(bytes), "{text}");
        }
        for text in ["", "x", "-1", "1GB", "9999999999999TiB"] {
            assert!(byte_count(text).is_err(), "{text}");
        }
    }
}
