//! The agents of this machine: a folder each, with a key that never leaves it.
//!
//! ```text
//! device                                 the name of this installation
//! roots/127.0.0.1:20001.crt              the root certificate of a gateway
//! agents/alice.agents.localhost/key.pem  and cert.pem, tokens.json, gateway
//! ```

use super::gateway_url::GatewayUrl;
use anyhow::{Context as _, bail, ensure};
use certs::{Curve, Key};
use serde::{Deserialize, Serialize};
use services::kernel::{Aid, Ids, files};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The folder. Nothing is made in it before it is needed.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

/// An agent of this machine.
#[derive(Clone)]
pub struct LocalAgent {
    pub aid: Aid,
    pub key: Key,
    folder: PathBuf,
}

/// The tokens that a login answered with.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredTokens {
    pub access_token: String,
    pub refresh_token: String,
    /// When the access token ends, in unix seconds.
    pub expires_at: i64,
}

impl Home {
    pub fn new(folder: PathBuf) -> Home {
        Home(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The name of this installation, made on first use and then kept.
    pub fn device(&self) -> anyhow::Result<String> {
        let file = self.0.join("device");
        put_once(&file, &Ids::default().tagged("cli"))?;
        Ok(read(&file)?.trim().to_owned())
    }

    /// Where the root of a gateway is kept once it is trusted.
    pub fn root_file(&self, gateway: &GatewayUrl) -> PathBuf {
        self.0.join("roots").join(format!("{}.crt", gateway.host_and_port()))
    }

    /// The agent of this name: a whole AID, or a name under `issuer`, or under the only issuer it is known at.
    pub fn find(&self, name: &str, issuer: Option<&str>) -> anyhow::Result<Option<LocalAgent>> {
        let known = match (name.contains('.'), issuer) {
            (true, _) => vec![Aid::parse(name)?],
            (false, Some(issuer)) => vec![Aid::parse(&format!("{name}.{issuer}"))?],
            (false, None) => self.with_name(&name.to_ascii_lowercase())?,
        };
        match &known[..] {
            [] => Ok(None),
            [aid] => self.agent(aid),
            several => {
                let names: Vec<&str> = several.iter().map(Aid::as_str).collect();
                bail!("there is more than one {name}, say which: {}", names.join(" or "))
            }
        }
    }

    /// The agent of this AID, if its key is in this folder.
    pub fn agent(&self, aid: &Aid) -> anyhow::Result<Option<LocalAgent>> {
        let folder = self.folder(aid);
        let file = folder.join("key.pem");
        let mode = match fs::metadata(&file) {
            Ok(meta) => meta.mode(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| unreadable(&file)),
        };
        ensure!(mode & 0o077 == 0, "others can read {0}: chmod 600 {0}", file.display());
        let key = Key::from_pem(&read(&file)?).with_context(|| unreadable(&file))?;
        Ok(Some(LocalAgent { aid: aid.clone(), key, folder }))
    }

    /// A new key for an AID that has none in this folder. It is written before it is registered: a key that was registered
    /// and then lost would leave its AID unusable.
    pub fn create(&self, aid: &Aid) -> anyhow::Result<LocalAgent> {
        let (folder, key) = (self.folder(aid), Key::generate(Curve::P256));
        put_new(&folder.join("key.pem"), &key.to_pem())?;
        Ok(LocalAgent { aid: aid.clone(), key, folder })
    }

    fn folder(&self, aid: &Aid) -> PathBuf {
        self.0.join("agents").join(aid.as_str())
    }

    fn with_name(&self, name: &str) -> anyhow::Result<Vec<Aid>> {
        let agents = self.0.join("agents");
        let entries = match fs::read_dir(&agents) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| unreadable(&agents)),
        };
        let mut known = Vec::new();
        for entry in entries {
            let Ok(aid) = Aid::parse(&entry?.file_name().to_string_lossy()) else { continue };
            if aid.name() == name && self.folder(&aid).join("key.pem").exists() {
                known.push(aid);
            }
        }
        known.sort();
        Ok(known)
    }
}

impl LocalAgent {
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn cert(&self) -> Option<String> {
        fs::read_to_string(self.folder.join("cert.pem")).ok()
    }

    pub fn keep_cert(&self, cert: &str) -> anyhow::Result<()> {
        replace(&self.folder.join("cert.pem"), cert)
    }

    /// Where the agent is registered.
    pub fn gateway(&self) -> Option<GatewayUrl> {
        fs::read_to_string(self.folder.join("gateway")).ok()?.trim().parse().ok()
    }

    pub fn keep_gateway(&self, gateway: &GatewayUrl) -> anyhow::Result<()> {
        replace(&self.folder.join("gateway"), &format!("{gateway}\n"))
    }

    /// Tokens that cannot be read are as good as none: a login gives new ones.
    pub fn tokens(&self) -> Option<StoredTokens> {
        serde_json::from_str(&fs::read_to_string(self.folder.join("tokens.json")).ok()?).ok()
    }

    pub fn keep_tokens(&self, tokens: &StoredTokens) -> anyhow::Result<()> {
        replace(&self.folder.join("tokens.json"), &serde_json::to_string(tokens)?)
    }

    /// Deletes an agent whose key the server refused.
    pub fn delete(self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.folder)
            .with_context(|| format!("{} cannot be removed", self.folder.display()))
    }
}

/// Puts a file in its host_and_port, whole or not at all, and never over another.
fn put_new(file: &Path, text: &str) -> anyhow::Result<()> {
    let put = beside(file, text).and_then(|draft| {
        let linked = fs::hard_link(&draft, file);
        fs::remove_file(&draft).and(linked)
    });
    put.with_context(|| format!("{} cannot be written", file.display()))
}

/// The same, and a file that exists already stays as it is.
pub(super) fn put_once(file: &Path, text: &str) -> anyhow::Result<()> {
    if file.exists() {
        Ok(())
    } else {
        put_new(file, text).or_else(|error| file.exists().then_some(()).ok_or(error))
    }
}

/// Puts a file in the host_and_port of an older one, whole or not at all.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let put = beside(file, text).and_then(|draft| fs::rename(&draft, file));
    put.with_context(|| format!("{} cannot be written", file.display()))
}

/// A finished file under a name of its own, in the folder where it will stay.
fn beside(file: &Path, text: &str) -> io::Result<PathBuf> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    files::make_folder(folder)?;
    let draft = folder.join(Ids::default().tagged(".draft"));
    let mut open = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = open.write_all(text.as_bytes()).and_then(|()| open.sync_all());
    match written {
        Ok(()) => Ok(draft),
        Err(error) => fs::remove_file(&draft).and(Err(error)),
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| unreadable(file))
}

fn unreadable(file: &Path) -> String {
    format!("{} cannot be read", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"));
        (folder, home)
    }

    #[test]
    fn a_key_is_for_its_owner_alone_and_is_never_written_over() {
        let (_folder, home) = home();
        let aid = Aid::parse("alice.agents.localhost").unwrap();
        let alice = home.create(&aid).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home.path()), 0o700);
        assert_eq!(mode(alice.folder()), 0o700);
        assert_eq!(mode(&alice.folder().join("key.pem")), 0o600);

        assert!(home.create(&aid).is_err());
        let again = home.agent(&aid).unwrap().unwrap();
        assert_eq!(again.key.public(), alice.key.public());
        assert_eq!(fs::read_dir(alice.folder()).unwrap().count(), 1, "no draft stays behind");
    }

    #[test]
    fn a_key_that_others_can_read_is_not_used() {
        let (_folder, home) = home();
        let aid = Aid::parse("alice.agents.localhost").unwrap();
        let file = home.create(&aid).unwrap().folder().join("key.pem");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(home.agent(&aid).err().unwrap().to_string().contains("chmod 600"));
    }

    #[test]
    fn a_short_name_is_enough_if_only_one_agent_has_it() {
        let (_folder, home) = home();
        assert!(home.find("alice", None).unwrap().is_none());
        for issuer in ["a.example", "b.example"] {
            home.create(&Aid::parse(&format!("alice.{issuer}")).unwrap()).unwrap();
        }
        home.create(&Aid::parse("alicex.a.example").unwrap()).unwrap();
        let found = |name, issuer| home.find(name, issuer).unwrap().map(|agent| agent.aid.to_string());
        assert_eq!(found("alice", Some("b.example")).as_deref(), Some("alice.b.example"));
        assert_eq!(found("alice.a.example", None).as_deref(), Some("alice.a.example"));
        assert_eq!(found("AliceX", None).as_deref(), Some("alicex.a.example"));
        assert_eq!(found("alice", Some("c.example")), None);
        let doubt = home.find("alice", None).err().unwrap().to_string();
        assert!(doubt.contains("alice.a.example or alice.b.example"), "{doubt}");
    }

    #[test]
    fn a_device_keeps_its_name() {
        let (_folder, home) = home();
        let device = home.device().unwrap();
        assert!(device.starts_with("cli-"));
        assert_eq!(home.device().unwrap(), device);
    }
}
