//! The keys and certificates of the authority, on disk.
//!
//! ```text
//! pki/root.{crt,crl}            what clients trust, and what it revoked
//! pki/root/root.key             needed only to sign another registry: may be stored offline
//! pki/registry/registry.{key,crt,crl}   needed only to sign another issuer: may be stored offline
//! pki/ca/issuer.{key,crt}       signs agents' and services' certificates, CRLs and OCSP answers
//! pki/authority/authority.{key,crt} signs the list of trusted roots, and never a certificate
//! ```

use anyhow::{Context, bail, ensure};
use certs::{Authority, Certificate, Curve, Identity, Key};
use kernel::World;
use kernel::files::{make_folder, write_new};
use std::fs;
use std::path::Path;

pub(super) struct CaPki {
    pub issuer: Authority,
    pub registry: Certificate,
    pub root: Certificate,
    /// What root and registry revoked: nothing, until new lists are signed with their keys.
    pub root_crl: String,
    pub registry_crl: String,
    /// Signs the list of trusted roots.
    pub authority: Identity,
}

impl CaPki {
    /// The first start creates everything; later starts only read. An existing folder is never overwritten.
    pub fn open_or_create(world: &World) -> anyhow::Result<CaPki> {
        let (folder, issuer) = (world.keys.join("pki"), &world.issuer);
        if !folder.join("ca").exists() {
            ensure!(
                !folder.exists(),
                "{} exists but holds no ca folder: restore it, or move it away",
                folder.display()
            );
            create(world, &folder)?;
        }
        let pki = CaPki::read(&folder)?;
        let owner = pki.issuer.certificate().common_name();
        if owner != issuer.as_str() {
            bail!("{} belongs to issuer {owner}, and the server is configured as {issuer}", folder.display());
        }
        Ok(pki)
    }

    fn read(folder: &Path) -> anyhow::Result<CaPki> {
        let text = |name: &str| {
            let file = folder.join(name);
            fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))
        };
        Ok(CaPki {
            issuer: Authority::from_pem(&text("ca/issuer.crt")?, &text("ca/issuer.key")?)?,
            registry: Certificate::from_pem(&text("registry/registry.crt")?)?,
            root: Certificate::from_pem(&text("root.crt")?)?,
            root_crl: text("root.crl")?,
            registry_crl: text("registry/registry.crl")?,
            authority: Identity::from_pem(
                &text("authority/authority.crt")?,
                &text("authority/authority.key")?,
            )?,
        })
    }

    /// Issuer, registry, root: the order in which clients want them.
    pub fn chain(&self) -> impl Iterator<Item = &Certificate> {
        [self.issuer.certificate(), &self.registry, &self.root].into_iter()
    }
}

/// Everything is written into another folder, which is renamed in one step, so that a crash leaves all or nothing.
fn create(world: &World, folder: &Path) -> anyhow::Result<()> {
    let World { issuer, pki_url, keys: data, .. } = world;
    let now = world.clock.now_seconds();
    let root = Authority::root(&format!("AUN Root CA {issuer}"), issuer, now);
    let registry =
        root.registry(&format!("AUN Registry CA {issuer}"), &format!("{pki_url}/pki/root.crl"), now)?;
    let issuing = registry.issuer(
        issuer,
        &format!("{pki_url}/ca/cert"),
        &format!("{pki_url}/pki/registry.crl"),
        now,
    )?;
    let authority_key = Key::generate(Curve::P384);
    let authority =
        certs::roots::authority_certificate(&format!("AUN Authority {issuer}"), &authority_key, now)?;

    // The keys of root and registry may go offline, so their lists are signed now, for as long as what they vouch for.
    let lasting = now + 10 * 365 * 86_400;
    let (root_crl, registry_crl) = (root.crl(&[], 1, now, lasting)?, registry.crl(&[], 1, now, lasting)?);

    let draft = data.join(format!("pki.new-{}", std::process::id()));
    let context = || format!("{} cannot be written", draft.display());
    make_folder(data).with_context(context)?;
    let files = [
        ("root.crt", root.certificate().pem().to_owned()),
        ("root.crl", root_crl),
        ("registry/registry.crl", registry_crl),
        ("root/root.key", root.key_pem()),
        ("registry/registry.crt", registry.certificate().pem().to_owned()),
        ("registry/registry.key", registry.key_pem()),
        ("ca/issuer.crt", issuing.certificate().pem().to_owned()),
        ("ca/issuer.key", issuing.key_pem()),
        ("authority/authority.crt", authority.pem().to_owned()),
        ("authority/authority.key", authority_key.to_pem()),
    ];
    for (name, text) in files {
        write_new(&draft.join(name), &text).with_context(context)?;
    }
    fs::rename(&draft, folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    fs::File::open(data)?.sync_all()?;
    tracing::info!("made a certificate authority for {issuer} in {}", folder.display());
    Ok(())
}
