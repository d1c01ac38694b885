//! `aund certs trust`: the trusted roots of other operators.

use crate::cli::ConfigArgs;
use crate::cli::operator::ask::{ask, ask_unparsed};
use crate::output;
use crate::show::printable;
use anyhow::{Context as _, bail, ensure};
use certs::{Certificate, RootDomains};
use clap::{Args, Subcommand};
use gateway::{admin, run};
use kernel::files;
use proto_schemas::requests::ca;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The folder of roots that were added before the first start, which adds them to the signed list.
const PENDING: &str = "trust";
/// Beside each of them: what it is trusted for, a domain a line.
const DOMAINS_FILE: &str = "domains";
/// No certificate is longer.
const FILE_BYTES: u64 = 64 << 10;

#[derive(Args)]
pub(super) struct TrustCommand {
    #[command(subcommand)]
    command: TrustSubcommand,
    #[command(flatten)]
    settings: ConfigArgs,
}

#[derive(Subcommand)]
enum TrustSubcommand {
    /// Trust another operator's root for its domains; takes effect without a restart
    Add {
        /// The root certificate (PEM); - reads standard input
        #[arg(value_name = "PEM")]
        file: PathBuf,
        /// A domain that the root is trusted for, or a pattern such as *.east.example; repeatable; replaces earlier domains
        #[arg(
            long = "domain",
            value_name = "DOMAIN",
            value_delimiter = ',',
            required_unless_present = "any_domain",
            conflicts_with = "any_domain"
        )]
        domains: Vec<String>,
        /// Trust the root for every domain: its holder can then impersonate any domain
        #[arg(long)]
        any_domain: bool,
        #[command(flatten)]
        settings: ConfigArgs,
    },
    /// Print the trusted roots
    List {
        /// Print the signed list that the server publishes
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        settings: ConfigArgs,
    },
    /// Stop trusting a root
    Remove {
        /// The root's fingerprint, as list prints it, or its id
        #[arg(value_name = "FINGERPRINT")]
        which: String,
        #[command(flatten)]
        settings: ConfigArgs,
    },
    /// Accept a new key of another domain's authority: the next one seen is pinned
    Unpin {
        /// The domain, as list prints it
        #[arg(value_name = "DOMAIN")]
        domain: String,
        #[command(flatten)]
        settings: ConfigArgs,
    },
}

impl TrustCommand {
    pub(super) async fn run(self, outer: ConfigArgs) -> anyhow::Result<()> {
        let outer = self.settings.or(outer);
        match self.command {
            TrustSubcommand::Add { file, domains, any_domain, settings } => {
                let named = RootDomains::parse(&domains)?;
                ensure!(!named.is_any(), "use --any-domain to trust a root for every domain");
                let domains = if any_domain { RootDomains::any() } else { named };
                add(&settings.or(outer), &file, &domains).await
            }
            TrustSubcommand::List { json, settings } => list(&settings.or(outer), json).await,
            TrustSubcommand::Remove { which, settings } => remove(&settings.or(outer), &which).await,
            TrustSubcommand::Unpin { domain, settings } => unpin(&settings.or(outer), &domain).await,
        }
    }
}

async fn add(settings: &ConfigArgs, file: &Path, domains: &RootDomains) -> anyhow::Result<()> {
    let pem = read(file)?;
    let certificate = Certificate::from_pem(pem.trim_start())
        .with_context(|| format!("{} is not a certificate", file.display()))?;
    if let Some(folder) = pending_folder(settings).await? {
        let file = folder.join(format!("{}.crt", digits(&certificate)));
        ensure!(certificate.is_ca(), "the certificate of {} is not a root", certificate.common_name());
        // What it is for is written first: without that it would be trusted for what its organization says.
        let beside = file.with_extension(DOMAINS_FILE);
        let _ = fs::remove_file(&beside);
        write(&beside, &(domains.patterns().join("\n") + "\n"))?;
        if !file.exists() {
            write(&file, certificate.pem())?;
        }
        let (name, folder) = (name(&certificate), folder.display());
        return Ok(output::line(&format!("{name} is in {folder}; the first start will trust it"))?);
    }
    let any_domain = domains.is_any().then_some(true);
    let named = (!domains.is_any()).then(|| domains.patterns().to_vec());
    let added = ask(settings, &ca::AddTrustRoot { certificate: pem, domains: named, any_domain }).await?;
    let already = if added.added { "" } else { "already " };
    output::line(&format!("{already}trusted: {}", name(&certificate)))?;
    output::line(&format!("    fingerprint  {}", added.fingerprint_sha256))?;
    Ok(output::line(&format!("    for          {}", trusted_for(Some(&added.domains))))?)
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    files::write_new(file, text).with_context(|| format!("{} cannot be written", file.display()))
}

async fn list(settings: &ConfigArgs, json: bool) -> anyhow::Result<()> {
    if let Some(folder) = pending_folder(settings).await? {
        let roots = pending_roots(&folder);
        if json {
            let roots = roots.iter().map(|(_, root)| {
                json!({ "name": root.common_name(), "fingerprint_sha256": digits(root), "status": "waiting" })
            });
            return Ok(output::line(&json!({ "root_cas": roots.collect::<Vec<Value>>() }).to_string())?);
        }
        for (file, root) in &roots {
            let text = fs::read_to_string(file.with_extension(DOMAINS_FILE)).unwrap_or_default();
            let domains: Vec<String> = text.lines().map(str::to_owned).collect();
            print_row("waiting", digits(root), &name(root), &trusted_for(Some(&domains)))?;
        }
        return Ok(());
    }
    if json {
        let roots = ask_unparsed(settings, &ca::GetTrustRoots {}).await?;
        return Ok(output::line(&roots.to_string())?);
    }
    for root in ask(settings, &ca::GetTrustRoots {}).await?.root_cas {
        let text = |member: Option<String>| printable(member.as_deref().unwrap_or("?"));
        let name = named(&text(root.name), &text(root.organization));
        let domains = trusted_for(root.domains.as_deref());
        print_row(&printable(&root.status), &printable(&root.fingerprint_sha256), &name, &domains)?;
    }
    for pin in ask(settings, &ca::GetIssuerPins {}).await?.pins {
        let key = pin.spki_fingerprint.trim_start_matches("sha256:");
        let (key, domain) = (printable(key), printable(&pin.domain));
        output::line(&format!("{:<8} {key}  the key of the authority of {domain}", "pinned"))?;
    }
    Ok(())
}

async fn remove(settings: &ConfigArgs, which: &str) -> anyhow::Result<()> {
    if let Some(folder) = pending_folder(settings).await? {
        let plain = which.to_ascii_lowercase().replace("sha256:", "").replace(':', "");
        let Some((file, root)) = pending_roots(&folder).into_iter().find(|(_, root)| digits(root) == plain)
        else {
            bail!("the trusted root {which} was not found");
        };
        fs::remove_file(&file).with_context(|| format!("{} cannot be removed", file.display()))?;
        let _ = fs::remove_file(file.with_extension(DOMAINS_FILE));
        return Ok(output::line(&format!("no longer trusted: {}", name(&root)))?);
    }
    let (id, fingerprint) = match which.starts_with("root-") {
        true => (Some(which.to_owned()), None),
        false => (None, Some(which.to_owned())),
    };
    let removed = ask(settings, &ca::RemoveTrustRoot { fingerprint, id }).await?;
    Ok(output::line(&format!("no longer trusted: {}", printable(&removed.name)))?)
}

async fn unpin(settings: &ConfigArgs, domain: &str) -> anyhow::Result<()> {
    let unpinned = ask(settings, &ca::UnpinIssuer { domain: domain.to_owned() }).await?;
    output::line(&format!("the next key of {}'s authority will be accepted", printable(&unpinned.domain)))?;
    Ok(output::line(&format!("    no longer    {}", printable(&unpinned.spki_fingerprint)))?)
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut pem = String::new();
    if file == Path::new("-") {
        io::stdin().take(FILE_BYTES).read_to_string(&mut pem).context("standard input cannot be read")?;
    } else {
        let open = fs::File::open(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let text = open.take(FILE_BYTES).read_to_string(&mut pem);
        text.with_context(|| format!("{} cannot be read", file.display()))?;
    }
    Ok(pem)
}

/// The folder of pending roots, if there is no authority yet that could put a root into its list.
async fn pending_folder(settings: &ConfigArgs) -> anyhow::Result<Option<PathBuf>> {
    let config = settings.config()?;
    let keys = config.keys.unwrap_or_else(|| config.data.clone());
    let there = run::is_initialised(&keys) || admin::is_running(&config.data).await;
    Ok((!there).then(|| keys.join(PENDING)))
}

fn pending_roots(folder: &Path) -> Vec<(PathBuf, Certificate)> {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let mut roots: Vec<_> = files
        .filter_map(|file| Some((Certificate::from_pem(&fs::read_to_string(&file).ok()?).ok()?, file)))
        .map(|(root, file)| (file, root))
        .collect();
    roots.sort_by(|one, other| one.0.cmp(&other.0));
    roots
}

fn print_row(status: &str, fingerprint: &str, name: &str, domains: &str) -> io::Result<()> {
    output::line(&format!("{status:<8} {fingerprint}  {name}, for {domains}"))
}

/// What a root is trusted for, as the list says it. Without it, the list is of an earlier version.
fn trusted_for(domains: Option<&[String]>) -> String {
    match domains {
        None => "any domain (WARNING: its holder can speak for all of them)".to_owned(),
        Some(patterns) if patterns.iter().any(|pattern| pattern == "*") => trusted_for(None),
        Some([]) => "no domain".to_owned(),
        Some(patterns) => printable(&patterns.join(", ")),
    }
}

fn digits(certificate: &Certificate) -> &str {
    certificate.fingerprint().trim_start_matches("sha256:")
}

fn name(certificate: &Certificate) -> String {
    named(&printable(certificate.common_name()), &printable(certificate.organization()))
}

fn named(name: &str, organization: &str) -> String {
    if organization.is_empty() { name.to_owned() } else { format!("{name} ({organization})") }
}
