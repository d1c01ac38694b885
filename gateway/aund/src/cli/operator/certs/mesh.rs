//! `aund certs mesh`: the private authority of a split server, and a certificate for each of its processes.

use crate::output;
use crate::services;
use anyhow::{Context as _, bail, ensure};
use certs::{Authority, Curve, Key};
use clap::Args;
use gateway::mesh::server_name;
use kernel::{Clock, files};
use std::fs;
use std::path::{Path, PathBuf};

const DAY: i64 = 86_400;
/// A process looks at its certificate again for every link; clocks of several machines differ a little.
const BACKDATE: i64 = 3600;

#[derive(Args)]
pub(super) struct MeshCommand {
    /// The folder for certificates and keys; the key of the authority is needed nowhere else
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The service of each process: gateway, auth, ca, message, …; auth+ca if one process runs both
    #[arg(value_name = "SERVICES", required = true)]
    processes: Vec<String>,
    /// The lifetime of the certificates in days
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    days: i64,
}

impl MeshCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let now = Clock::System.now_seconds();
        for process in &self.processes {
            let unknown =
                process.split('+').find(|service| !services::names().any(|known| known == *service));
            if let Some(service) = unknown {
                let known: Vec<_> = services::names().collect();
                bail!("{service} is not a service; the services are {}", known.join(", "));
            }
        }
        ensure!(self.days > 0, "--days must be at least 1");
        let authority = authority(&self.folder, now)?;
        for process in &self.processes {
            let certificate = self.issue(&authority, process, now)?;
            output::line(&certificate.display().to_string())?;
        }
        Ok(())
    }

    /// The key is replaced with the certificate. Each file is put in place whole, the certificate last: a process that
    /// reads in between finds a pair that does not fit, says so, and dials again.
    fn issue(&self, authority: &Authority, process: &str, now: i64) -> anyhow::Result<PathBuf> {
        let names: Vec<String> = process.split('+').map(server_name).collect();
        let key = Key::generate(Curve::P256);
        let until = now + self.days * DAY;
        let certificate = authority.issue_mesh(
            &server_name(process.split('+').next().unwrap_or(process)),
            &key.public(),
            &names,
            now - BACKDATE,
            until,
        )?;
        put(&self.folder.join(format!("{process}.key")), &key.to_pem())?;
        let file = self.folder.join(format!("{process}.crt"));
        put(&file, certificate.pem())?;
        Ok(file)
    }
}

/// Reads the authority of the folder, or makes one in a folder that has none.
fn authority(folder: &Path, now: i64) -> anyhow::Result<Authority> {
    let (crt, key) = (folder.join("authority.crt"), folder.join("authority.key"));
    if crt.exists() {
        let read = |file: &Path| {
            fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
        };
        return Authority::from_pem(&read(&crt)?, &read(&key)?)
            .with_context(|| format!("{} is damaged", crt.display()));
    }
    files::make_folder(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    let authority = Authority::mesh("mesh.internal", "aund mesh", now);
    put(&key, &authority.key_pem())?;
    put(&crt, authority.certificate().pem())?;
    output::line(&crt.display().to_string())?;
    Ok(authority)
}

/// Writes a temporary file beside it, and then renames it.
fn put(file: &Path, text: &str) -> anyhow::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let new = file.with_file_name(format!(".{name}"));
    let _ = fs::remove_file(&new);
    files::write_new(&new, text)
        .and_then(|()| fs::rename(&new, file))
        .with_context(|| format!("{} cannot be written", file.display()))
}
