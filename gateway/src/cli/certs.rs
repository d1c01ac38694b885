//! `aund certs`: on a running server through its socket, on a stopped one through its store.

use super::Settings;
use crate::{admin, run};
use anyhow::Context as _;
use certs::Certificate;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use services::kernel::{Caller, World};
use std::fs;
use std::path::PathBuf;
use time::OffsetDateTime;

#[derive(Args)]
pub(super) struct Certs {
    #[command(subcommand)]
    command: CertsCommand,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Subcommand)]
enum CertsCommand {
    /// Print the certificates of this domain, or those of one agent
    Show {
        /// An AID, or the serial of a certificate
        #[arg(value_name = "AID|SERIAL")]
        which: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Revoke every certificate of an agent, or one by its serial; its connections and tokens end at once
    Revoke {
        #[arg(value_name = "AID|SERIAL")]
        which: String,
        /// An RFC 5280 reason, such as keyCompromise
        #[arg(long, default_value = "unspecified")]
        reason: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Add, list and remove the roots of other operators, whose domains this one deals with
    Trust(super::trust::Trust),
    /// Make certificates for processes that are one server together; run it again to renew them
    Mesh(super::mesh::Mesh),
    /// Print the root certificate, or write it to a file
    ExportRoot {
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        settings: Settings,
    },
}

impl Certs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let outer = self.settings;
        match self.command {
            CertsCommand::Show { which, settings } => show(&over(settings, outer), which.as_deref()).await,
            CertsCommand::Revoke { which, reason, settings } => {
                revoke(&over(settings, outer), &which, &reason).await
            }
            CertsCommand::Trust(command) => command.run(outer).await,
            CertsCommand::Mesh(command) => command.run(),
            CertsCommand::ExportRoot { file, settings } => export_root(&over(settings, outer), file),
        }
    }
}

/// The same flags may stand before or after the subcommand.
pub(super) fn over(inner: Settings, outer: Settings) -> Settings {
    Settings {
        config: inner.config.or(outer.config),
        issuer: inner.issuer.or(outer.issuer),
        listen: if inner.listen.is_empty() { outer.listen } else { inner.listen },
        data: inner.data.or(outer.data),
        store: inner.store.or(outer.store),
        bus: inner.bus.or(outer.bus),
        only: if inner.only.is_empty() { outer.only } else { inner.only },
        resolve: if inner.resolve.is_empty() { outer.resolve } else { inner.resolve },
    }
}

/// Asks the server that runs on the data folder, or opens the services here if none does.
pub(super) async fn ask(settings: &Settings, method: &str, params: &Value) -> anyhow::Result<Value> {
    let mut config = settings.config()?;
    let keys = config.keys.clone().unwrap_or_else(|| config.data.clone());
    if let Some(answer) = admin::ask(&config.data, method, params).await? {
        return Ok(answer);
    }
    anyhow::ensure!(
        run::is_initialised(&keys),
        "{} holds no certificate authority yet: start the server once, or say --data DIR",
        keys.display()
    );
    if settings.issuer.is_none() && settings.config.is_none() {
        // The folder knows whose it is.
        let issuer = fs::read_to_string(keys.join("pki/ca/issuer.crt"))?;
        config.issuer = Certificate::from_pem(&issuer)?.common_name().to_owned();
    }
    let _lock = run::lock_data(&config.data)?;
    let mut world = World::local(&config.issuer, &config.data, config.store_url()?);
    world.keys = keys;
    run::open_services(&world, |_| true).await?;
    Ok(world.mesh.ask(Caller::Operator, method, params).await?)
}

async fn show(settings: &Settings, which: Option<&str>) -> anyhow::Result<()> {
    let Some(which) = which else {
        let chain = ask(settings, "ca.get_cert_chain", &json!({})).await?;
        for pem in chain["certs"].as_array().into_iter().flatten().filter_map(Value::as_str).rev() {
            describe(pem, "authority")?;
        }
        let status = ask(settings, "ca.status", &json!({})).await?;
        for (state, count) in status["certificates"].as_object().into_iter().flatten() {
            println!("{count:>8} {state}");
        }
        return Ok(());
    };
    let question = if which.contains('.') { json!({ "aid": which }) } else { json!({ "serial": which }) };
    let got = ask(settings, "ca.get_cert", &question).await?;
    let pem = got["cert"].as_str().with_context(|| format!("there is no certificate of {which}"))?;
    describe(pem, got["lifecycle_state"].as_str().unwrap_or("unknown"))?;
    print!("{pem}");
    Ok(())
}

fn describe(pem: &str, state: &str) -> anyhow::Result<()> {
    let certificate = Certificate::from_pem(pem)?;
    let day = |seconds: i64| OffsetDateTime::from_unix_timestamp(seconds).map(|time| time.date().to_string());
    println!("{}", certificate.common_name());
    println!("    state        {state}");
    println!("    serial       {}", certificate.serial());
    println!("    fingerprint  {}", certificate.fingerprint());
    println!("    key          {}", certificate.public_key().curve());
    println!("    valid        {} to {}", day(certificate.not_before())?, day(certificate.not_after())?);
    Ok(())
}

async fn revoke(settings: &Settings, which: &str, reason: &str) -> anyhow::Result<()> {
    let question = if which.contains('.') {
        json!({ "aid": which, "reason": reason })
    } else {
        json!({ "serial": which, "reason": reason })
    };
    let revoked = ask(settings, "ca.revoke_cert", &question).await?;
    for serial in revoked["serials"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        println!("revoked {serial} of {}", revoked["aid"].as_str().unwrap_or("?"));
    }
    Ok(())
}

fn export_root(settings: &Settings, file: Option<PathBuf>) -> anyhow::Result<()> {
    let root = settings.config()?.data.join("pki/root.crt");
    let pem = fs::read_to_string(&root).with_context(|| format!("{} cannot be read", root.display()))?;
    match file {
        Some(file) => fs::write(&file, pem).with_context(|| format!("{} cannot be written", file.display())),
        None => {
            print!("{pem}");
            Ok(())
        }
    }
}
