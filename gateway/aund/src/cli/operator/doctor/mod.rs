//! `aund doctor`: checks everything a server needs, and says what to do about what is missing.

mod addresses;
mod free_space;
mod known_keys;

use crate::output;
use certs::Certificate;
use gateway::config::{Config, ListenAddress};
use gateway::{admin, run};
use kernel::{Clock, StoreUrl};
use proto_schemas::Request as _;
use proto_schemas::requests::ca;
use serde_json::json;
use std::fs;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::slice;

/// The outcome of one check: good, worth knowing, or bad; each with what was found and what to do.
enum CheckOutcome {
    Good(String),
    Note(String, String),
    Bad(String, String),
}
use CheckOutcome::{Bad, Good, Note};

pub(in crate::cli) async fn run(config: Config) -> anyhow::Result<()> {
    let running = admin::ask(&config.data, ca::Status::METHOD, &json!({})).await.ok().flatten().is_some();
    let mut outcomes = vec![("config", Good(format!("issuer {}", config.issuer)))];
    outcomes.extend([
        (
            "server",
            if running {
                Good("running".into())
            } else {
                Note("not running".into(), "start it with: aund".into())
            },
        ),
        ("names", names(&config)),
        ("clock", clock(&config.data)),
        ("files", files(&config.data)),
        ("chain", chain(&config.data)),
        ("store", store(&config).await),
        ("space", free_space::check(&config).await),
        ("keys", known_keys::check(&config, running).await),
        ("trust", trust(&config.data, running).await),
    ]);
    outcomes.extend(addresses::check(&config).await.map(|outcome| ("clients", outcome)));
    for at in &config.listen {
        outcomes.push(("port", port(*at, running)));
    }

    let mut broken = 0;
    for (what, outcome) in outcomes {
        match outcome {
            Good(seen) => output::line(&format!("ok    {what:<8} {seen}"))?,
            Note(seen, todo) => output::line(&format!("note  {what:<8} {seen}\n               {todo}"))?,
            Bad(seen, todo) => {
                broken += 1;
                output::line(&format!("BAD   {what:<8} {seen}\n               {todo}"))?;
            }
        }
    }
    anyhow::ensure!(broken == 0, "{broken} checks failed");
    Ok(())
}

/// Clients look up the gateway's name, the apex and every AID.
fn names(config: &Config) -> CheckOutcome {
    let issuer = &config.issuer;
    let hosts = [issuer.clone(), format!("gateway.{issuer}"), format!("some-agent.{issuer}")];
    let missing: Vec<&str> = hosts
        .iter()
        .filter(|host| (host.as_str(), 443).to_socket_addrs().is_err())
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Good(format!("{issuer}, gateway.{issuer} and *.{issuer} resolve"));
    }
    Note(
        format!("DNS does not resolve {}", missing.join(", ")),
        format!("point {issuer} and *.{issuer} to this machine, or add the names you use to /etc/hosts"),
    )
}

/// There is no second clock to compare with, but time must not be before what was written.
fn clock(data: &Path) -> CheckOutcome {
    let now = Clock::System.now_seconds();
    let Some(root) = certificate(&data.join("pki/root.crt")) else {
        return Good(format!("{now} seconds since 1970"));
    };
    if now < root.not_before() {
        return Bad(
            "the clock is earlier than the root certificate".into(),
            "set the clock; clients tolerate no difference when they verify certificates".into(),
        );
    }
    Good("later than the root certificate".into())
}

fn files(data: &Path) -> CheckOutcome {
    if !run::is_initialised(data) {
        return Note(
            format!("{} is new", data.display()),
            "the first start creates its certificate authority".into(),
        );
    }
    for key in [
        "root/root.key",
        "registry/registry.key",
        "ca/issuer.key",
        "authority/authority.key",
        "auth/login.key",
        "auth/token.key",
    ] {
        let file = data.join("pki").join(key);
        match fs::metadata(&file) {
            // Root and registry keys may be kept elsewhere: the server does not need them.
            Err(_) if key.starts_with("root/") || key.starts_with("registry/") => {}
            Err(error) => {
                return Bad(format!("{}: {error}", file.display()), "restore it from your backup".into());
            }
            Ok(meta) if meta.permissions().mode() & 0o077 != 0 => {
                return Bad(
                    format!("{} is readable by other users", file.display()),
                    format!("chmod 600 {}", file.display()),
                );
            }
            Ok(_) => {}
        }
    }
    Good(format!("{} has its keys, readable only by their owner", data.display()))
}

fn chain(data: &Path) -> CheckOutcome {
    let find = |name: &str| certificate(&data.join("pki").join(name));
    let (Some(root), Some(registry), Some(issuer)) =
        (find("root.crt"), find("registry/registry.crt"), find("ca/issuer.crt"))
    else {
        return Note("no certificate authority yet".into(), "the first start creates it".into());
    };
    let Some(login) = find("auth/login.crt") else {
        return Good("the authority exists; no service certificates yet".into());
    };
    match certs::verify_chain(
        &login,
        &[issuer, registry],
        slice::from_ref(&root),
        Clock::System.now_seconds(),
    ) {
        Ok(()) => Good("service, issuer, registry and root form a valid chain".into()),
        Err(error) => Bad(error.to_string(), "restore pki from your backup, or set the clock".into()),
    }
}

/// Roots of other operators that are trusted for every domain: whoever holds one can speak for all of them.
async fn trust(data: &Path, running: bool) -> CheckOutcome {
    if !running {
        return Good("trusted roots are checked while the server is running".into());
    }
    let asked = admin::ask(data, ca::GetTrustRoots::METHOD, &json!({})).await.ok().flatten();
    let Some(list) = asked.and_then(|list| serde_json::from_value::<ca::TrustList>(list).ok()) else {
        return Note("the trusted roots cannot be read".into(), "see aund certs trust list".into());
    };
    let is_any = |root: &ca::ListedRoot| {
        root.domains.as_ref().is_none_or(|domains| domains.iter().any(|domain| domain == "*"))
    };
    let active = list.root_cas.iter().filter(|root| root.status == "active");
    let wide: Vec<&str> =
        active.filter(|root| is_any(root)).map(|root| root.fingerprint_sha256.as_str()).collect();
    if wide.is_empty() {
        return Good("every trusted root is trusted for named domains".into());
    }
    Note(
        format!("trusted for any domain: {}", wide.join(", ")),
        "limit it: aund certs trust add PEM --domain DOMAIN".into(),
    )
}

fn certificate(file: &Path) -> Option<Certificate> {
    Certificate::from_pem(&fs::read_to_string(file).ok()?).ok()
}

async fn store(config: &Config) -> CheckOutcome {
    let url = match config.store_url() {
        Ok(url) => url,
        Err(error) => return Bad(error.to_string(), "set store.url".into()),
    };
    match &url {
        StoreUrl::Sqlite(_) => {
            let folder = url.folder(&config.data).unwrap_or(&config.data);
            let probe = folder.join(".aund-doctor");
            match fs::write(&probe, "x").and_then(|()| fs::remove_file(&probe)) {
                Ok(()) => Good(format!("{} can be written", folder.display())),
                Err(_) if !folder.exists() => {
                    Note(format!("{} is not there yet", folder.display()), "the first start makes it".into())
                }
                Err(error) => {
                    Bad(format!("{}: {error}", folder.display()), "let the server's user write there".into())
                }
            }
        }
        StoreUrl::Postgres { .. } => match kernel::Db::probe(&url).await {
            Ok(version) => Good(version),
            Err(error) => Bad(format!("{error:#}"), "start PostgreSQL, or correct store.url".into()),
        },
    }
}

fn port(at: ListenAddress, running: bool) -> CheckOutcome {
    match TcpListener::bind(at.address) {
        Ok(_) => Good(format!("{at} is free")),
        Err(_) if running => Good(format!("{at} is the running server's")),
        Err(error) => {
            Bad(format!("{at}: {error}"), "stop what uses it, or listen elsewhere with --listen".into())
        }
    }
}
