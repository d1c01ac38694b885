//! Finding the root of a gateway: a file that is there, or trust on first use on this machine.

use crate::connection::dial::GatewayDialer;
use crate::connection::gateway_url::GatewayUrl;
use crate::connection::trust::TrustedRoot;
use crate::error::Error;
use crate::files;
use certs::Certificate;
use std::path::{Path, PathBuf};

/// The first of these files that exists. Else, and only over loopback, where nobody can stand between, the root that the
/// server itself gives; it is kept for the next time.
pub async fn find_root(
    gateway: &GatewayUrl,
    files: &[PathBuf],
    keep_at: &Path,
) -> Result<TrustedRoot, Error> {
    for file in files {
        if file.exists() {
            return TrustedRoot::read(file);
        }
    }
    if keep_at.exists() {
        return TrustedRoot::read(keep_at);
    }
    let host_and_port = gateway.host_and_port();
    if !gateway.is_loopback() {
        return Err(Error::Invalid(format!(
            "no root certificate is known for {host_and_port}: give the root certificate with --root FILE"
        )));
    }
    let pem = GatewayDialer::unverified(gateway.clone())?.get("/pki/root.crt").await?;
    let certificate = Certificate::from_pem(&pem).map_err(|error| {
        Error::Unexpected(format!("the root certificate of {host_and_port} cannot be read: {error}"))
    })?;
    files::put_once(keep_at, certificate.pem())?;
    Ok(TrustedRoot { certificate, file: keep_at.to_owned(), first_use: true })
}
