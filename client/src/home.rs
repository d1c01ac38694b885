//! The agents of this machine: a folder each, with a key that never leaves it.
//!
//! ```text
//! device                                 the name of this installation
//! roots/127.0.0.1:20001.crt              the root certificate of a gateway
//! agents/alice.agents.localhost/key.pem  and cert.pem, tokens.json, gateway
//! ```

use super::chance::tagged;
use super::connection::gateway_url::GatewayUrl;
use super::error::Error;
use super::files;
use certs::{Curve, Key};
use proto_schemas::Aid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The folder. Nothing is made in it before it is needed.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

/// An agent of this machine.
#[derive(Clone)]
pub struct LocalAgent {
    /// Its AID.
    pub aid: Aid,
    /// The key that its certificate is for.
    pub key: Key,
    folder: PathBuf,
}

/// The tokens that a login answered with.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredTokens {
    /// What `auth.connect` takes.
    pub access_token: String,
    /// What `auth.refresh_token` takes, once.
    pub refresh_token: String,
    /// When the access token ends, in unix seconds.
    pub expires_at: i64,
}

impl Home {
    /// A folder that is there, or will be made.
    pub fn new(folder: impl Into<PathBuf>) -> Home {
        Home(folder.into())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The name of this installation, made on first use and then kept.
    pub fn device(&self) -> Result<String, Error> {
        let file = self.0.join("device");
        files::put_once(&file, &tagged("cli"))?;
        Ok(files::read(&file)?.trim().to_owned())
    }

    /// Where the root of a gateway is kept once it is trusted.
    pub fn root_file(&self, gateway: &GatewayUrl) -> PathBuf {
        self.0.join("roots").join(format!("{}.crt", gateway.host_and_port()))
    }

    /// The agent of this name: a whole AID, or a name under `issuer`, or under the only issuer it is known at.
    pub fn find(&self, name: &str, issuer: Option<&str>) -> Result<Option<LocalAgent>, Error> {
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
                let names = names.join(" or ");
                Err(Error::Invalid(format!("there is more than one {name}, say which: {names}")))
            }
        }
    }

    /// The agent of this AID, if its key is in this folder.
    pub fn agent(&self, aid: &Aid) -> Result<Option<LocalAgent>, Error> {
        let folder = self.folder(aid);
        let file = folder.join("key.pem");
        let mode = match fs::metadata(&file) {
            Ok(meta) => meta.mode(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file(&file, "read", error)),
        };
        if mode & 0o077 != 0 {
            return Err(Error::Invalid(format!("others can read {0}: chmod 600 {0}", file.display())));
        }
        let key = Key::from_pem(&files::read(&file)?)
            .map_err(|error| Error::Invalid(format!("{} holds no key: {error}", file.display())))?;
        Ok(Some(LocalAgent { aid: aid.clone(), key, folder }))
    }

    /// A new key for an AID that has none in this folder. It is written before it is registered: a key that was registered
    /// and then lost would leave its AID unusable.
    pub fn create(&self, aid: &Aid) -> Result<LocalAgent, Error> {
        let (folder, key) = (self.folder(aid), Key::generate(Curve::P256));
        files::put_new(&folder.join("key.pem"), &key.to_pem())?;
        Ok(LocalAgent { aid: aid.clone(), key, folder })
    }

    fn folder(&self, aid: &Aid) -> PathBuf {
        self.0.join("agents").join(aid.as_str())
    }

    /// The AIDs of all agents whose keys are in this folder, in alphabetical order.
    pub fn agents(&self) -> Result<Vec<Aid>, Error> {
        let agents = self.0.join("agents");
        let entries = match fs::read_dir(&agents) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::file(&agents, "read", error)),
        };
        let mut known = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| Error::file(&agents, "read", error))?;
            let Ok(aid) = Aid::parse(&entry.file_name().to_string_lossy()) else { continue };
            if self.folder(&aid).join("key.pem").exists() {
                known.push(aid);
            }
        }
        known.sort();
        Ok(known)
    }

    fn with_name(&self, name: &str) -> Result<Vec<Aid>, Error> {
        let mut known = self.agents()?;
        known.retain(|aid| aid.name() == name);
        Ok(known)
    }
}

impl LocalAgent {
    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its certificate, once it is registered.
    pub fn cert(&self) -> Option<String> {
        fs::read_to_string(self.folder.join("cert.pem")).ok()
    }

    /// Keeps a certificate for the next login.
    pub fn keep_cert(&self, cert: &str) -> Result<(), Error> {
        files::replace(&self.folder.join("cert.pem"), cert)
    }

    /// Where the agent is registered.
    pub fn gateway(&self) -> Option<GatewayUrl> {
        fs::read_to_string(self.folder.join("gateway")).ok()?.trim().parse().ok()
    }

    /// Keeps where the agent is registered.
    pub fn keep_gateway(&self, gateway: &GatewayUrl) -> Result<(), Error> {
        files::replace(&self.folder.join("gateway"), &format!("{gateway}\n"))
    }

    /// The tokens of the last login. Those that cannot be read are as good as none: a login
    /// gives new ones.
    pub fn tokens(&self) -> Option<StoredTokens> {
        serde_json::from_str(&fs::read_to_string(self.folder.join("tokens.json")).ok()?).ok()
    }

    /// Keeps tokens for the next connection.
    pub fn keep_tokens(&self, tokens: &StoredTokens) -> Result<(), Error> {
        let text = serde_json::to_string(tokens).map_err(|error| Error::Invalid(error.to_string()))?;
        files::replace(&self.folder.join("tokens.json"), &text)
    }

    /// Deletes the tokens of a login that has ended.
    pub fn forget_tokens(&self) -> Result<(), Error> {
        let file = self.folder.join("tokens.json");
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::file(&file, "removed", error))
            }
            _ => Ok(()),
        }
    }

    /// Deletes an agent whose key the server refused.
    pub fn delete(self) -> Result<(), Error> {
        fs::remove_dir_all(&self.folder).map_err(|error| Error::file(&self.folder, "removed", error))
    }
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
        let all: Vec<String> = home.agents().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(all, ["alice.a.example", "alice.b.example", "alicex.a.example"]);
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
