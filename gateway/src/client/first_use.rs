//! Finding the root of a gateway: a file that is there, or trust on first use on this machine.

use super::dial::GatewayDialer;
use super::gateway_url::GatewayUrl;
use super::home;
use super::trust::TrustedRoot;
use anyhow::{Context as _, bail};
use certs::Certificate;
use std::path::{Path, PathBuf};

/// The first of these files that exists. Else, and only over loopback, where nobody can stand between, the root that the
/// server itself gives; it is kept for the next time.
pub async fn find_root(
    gateway: &GatewayUrl,
    files: &[PathBuf],
    keep_at: &Path,
) -> anyhow::Result<TrustedRoot> {
    for file in files {
        if file.exists() {
            return TrustedRoot::read(file);
        }
    }
    if keep_at.exists() {
        return TrustedRoot::read(keep_at);
    }
    if !gateway.is_loopback() {
        bail!(
            "no root certificate is known for {}: give the root certificate with --root FILE",
            gateway.host_and_port()
        );
    }
    let pem = GatewayDialer::unverified(gateway.clone())?.get("/pki/root.crt").await?;
    let certificate = Certificate::from_pem(&pem)
        .with_context(|| format!("the gateway at {} has no root certificate", gateway.host_and_port()))?;
    home::put_once(keep_at, certificate.pem())?;
    Ok(TrustedRoot { certificate, file: keep_at.to_owned(), first_use: true })
}
