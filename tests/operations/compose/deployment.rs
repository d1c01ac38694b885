//! A compose file as processes of this machine: the same commands, environment, files and health checks. Only what a
//! container would have of its own is replaced: its paths by a folder, its name by an address of the loopback network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

use super::ROOT;
use crate::support::agent::random_hex;
use crate::support::{ISSUER, printed, until};

/// The folders that a container may have; nothing else is mounted anywhere.
const MOUNTS: [&str; 4] = ["/keys", "/etc/aund", "/var/lib/aund", "/domains"];

#[derive(Deserialize)]
struct ComposeFile {
    services: BTreeMap<String, ComposeService>,
}

#[derive(Deserialize)]
struct ComposeService {
    image: String,
    #[serde(default)]
    profiles: Vec<String>,
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    volumes: Vec<String>,
    #[serde(default)]
    tmpfs: Vec<String>,
    #[serde(default)]
    depends_on: BTreeMap<String, ComposeDependency>,
    healthcheck: Option<ComposeHealthCheck>,
}

#[derive(Deserialize)]
struct ComposeDependency {
    condition: String,
}

#[derive(Deserialize)]
struct ComposeHealthCheck {
    test: Vec<String>,
}

/// Where the stores are that the file has containers for.
pub struct ComposeStores {
    postgres: String,
    redis: String,
}

impl ComposeStores {
    pub fn none() -> ComposeStores {
        ComposeStores {
            postgres: "postgres://nobody@127.0.0.1:1/none".into(),
            redis: "redis://127.0.0.1:1".into(),
        }
    }

    /// With names in them that no other test shares.
    pub fn at(postgres: &str, redis: &str) -> ComposeStores {
        let own = random_hex(8);
        ComposeStores {
            postgres: format!("{postgres}?schema_prefix=t{own}_"),
            redis: format!("{redis}?prefix=compose-{own}"),
        }
    }
}

pub struct Deployment {
    folder: TempDir,
    services: BTreeMap<String, ComposeService>,
    addresses: BTreeMap<String, String>,
    /// Where the port of each gateway is published.
    published: BTreeMap<String, u16>,
    stores: ComposeStores,
    running: BTreeMap<String, Child>,
}

impl Deployment {
    /// What is made of our own image in a profile; the default one has no name.
    pub fn of(profile: &str, stores: ComposeStores) -> Deployment {
        let text = fs::read_to_string(Path::new(ROOT).join("docker-compose.yml")).expect("the file is there");
        let ComposeFile { mut services } = serde_saphyr::from_str(&text).expect("it is a compose file");
        services.retain(|_, service| {
            let wanted = match profile {
                "" => service.profiles.is_empty(),
                profile => service.profiles.iter().any(|name| name == profile),
            };
            wanted && service.image == "aund"
        });
        let net = u16::from_str_radix(&random_hex(2), 16).expect("two bytes").to_be_bytes();
        let addresses = services.keys().zip(2..).map(|(name, host)| {
            (name.clone(), Ipv4Addr::new(127, net[0].clamp(16, 250), net[1], host).to_string())
        });
        let addresses = addresses.collect();
        let published = services.keys().map(|name| (name.clone(), free_port())).collect();
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let deployment =
            Deployment { folder, services, addresses, published, stores, running: BTreeMap::new() };
        deployment.services.iter().for_each(|(name, service)| deployment.mount(name, service));
        deployment
    }

    pub fn names(&self) -> Vec<&str> {
        self.services.keys().map(String::as_str).collect()
    }

    /// What its containers run, each once: those with a number are several of one kind.
    pub fn services(&self) -> BTreeSet<&str> {
        let is_number = |next: char| next.is_ascii_digit() || next == '-';
        self.names().into_iter().map(|name| name.trim_end_matches(is_number)).collect()
    }

    /// The names of the folders below a path that a container has volumes at.
    pub fn mounted_on(&self, name: &str, below: &str) -> BTreeSet<String> {
        let mounted = self.services[name].volumes.iter().filter_map(|volume| volume.split(':').nth(1));
        mounted.filter_map(|path| path.strip_prefix(below)).map(str::to_owned).collect()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where clients reach a gateway: at a port of this machine, as the engine would publish it.
    pub fn gateway(&self, name: &str) -> String {
        format!("127.0.0.1:{}", self.published[name])
    }

    /// A path inside a container.
    pub fn path(&self, name: &str, inside: &str) -> PathBuf {
        self.folder().join(format!("in-{name}{inside}"))
    }

    /// `aund top --once` with the status of every process that has one.
    pub fn statuses(&self) -> Vec<&'static str> {
        let stay = self.addresses.iter().filter(|(name, _)| *name != "keys");
        let urls = stay.map(|(_, address)| &*Box::leak(format!("{address}:9464").into_boxed_str()));
        ["top", "--once"].into_iter().chain(urls).collect()
    }

    /// Starts everything as its dependencies allow, and waits until everything is healthy.
    pub async fn start(&mut self) {
        let mut waiting: Vec<String> = self.services.keys().cloned().collect();
        while !waiting.is_empty() {
            let ours =
                |name: &&String| self.services[*name].depends_on.keys().all(|other| !waiting.contains(other));
            let next = waiting.iter().find(ours).cloned().expect("nothing waits for itself");
            waiting.retain(|name| *name != next);
            let ends = self.services.values().filter_map(|service| service.depends_on.get(&next));
            let mut ends = ends.into_iter().map(|other| other.condition == "service_completed_successfully");
            if ends.any(|ends| ends) || self.services[&next].healthcheck.is_none() {
                self.run_once(&next, &[]);
                continue;
            }
            let child = self.command(&next, &[]).spawn().expect("it can be started");
            self.running.insert(next.clone(), child);
            self.healthy(&next).await;
        }
    }

    /// Runs a service that ends by itself, with more words behind its own.
    pub fn run_once(&self, name: &str, words: &[&str]) {
        let ended = self.command(name, words).status().expect("it can be started");
        assert!(ended.success(), "{name} ended with {ended}: {}", self.log(name));
    }

    /// Waits until a process has a link to all of these; its health check wants only those nobody can do without.
    pub async fn reaches(&self, name: &str, services: &[&str]) {
        let data = self.path(name, "/var/lib/aund").display().to_string();
        let mut words = vec!["aund", "health", "--data", &data];
        words.extend(services.iter().flat_map(|service| ["--needs", service]));
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        until(&format!("{name} reaches {services:?}"), || async {
            self.run(name, &words).output().is_ok_and(|asked| asked.status.success()).then_some(())
        })
        .await;
    }

    async fn healthy(&self, name: &str) {
        let check = self.services[name].healthcheck.as_ref().expect("what stays has a health check");
        assert_eq!(check.test[0], "CMD");
        until(&format!("{name} is healthy"), || async {
            let words: Vec<String> = check.test[1..].iter().map(|word| self.local(name, word)).collect();
            let asked = self.run(name, &words).output().expect("aund can be started");
            let said = printed(&asked.stdout) + &printed(&asked.stderr);
            assert_eq!(said.trim().lines().count(), 1, "one line: {said}");
            asked.status.success().then_some(())
        })
        .await;
    }

    fn command(&self, name: &str, more: &[&str]) -> Command {
        let service = &self.services[name];
        let entry = service.entrypoint.clone().unwrap_or_else(|| vec!["aund".to_owned()]);
        let words = entry.iter().chain(&service.command).map(|word| self.local(name, word));
        let words: Vec<String> = words.chain(more.iter().map(|word| (*word).to_owned())).collect();
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file(name)).expect("a log");
        let mut command = self.run(name, &words);
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        command
    }

    /// A command in a container, where `aund` is in the path.
    fn run(&self, name: &str, words: &[String]) -> Command {
        let bin = Path::new(crate::support::program()).parent().expect("a binary is in a folder");
        let mut command =
            Command::new(if words[0] == "aund" { crate::support::program() } else { &words[0] });
        command.args(&words[1..]).current_dir(self.path(name, "")).stdin(Stdio::null());
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        command
            .envs(self.services[name].environment.iter().map(|(key, value)| (key, self.local(name, value))));
        command
    }

    /// Makes the folders of a container: volumes are shared by their name, files of ours are copied with their text.
    fn mount(&self, name: &str, service: &ComposeService) {
        fs::create_dir_all(self.path(name, "")).expect("a folder can be made");
        for mount in &service.volumes {
            let (from, inside) =
                mount.trim_end_matches(":ro").split_once(':').expect("a volume has a mount point");
            let target = self.target(name, inside);
            match from.strip_prefix("./") {
                Some(folder) => self.copy(name, &Path::new(ROOT).join(folder), &target),
                None => {
                    let volume = self.folder().join("volumes").join(from);
                    fs::create_dir_all(&volume).expect("a folder can be made");
                    std::os::unix::fs::symlink(volume, target).expect("a volume can be mounted");
                }
            }
        }
        for mount in &service.tmpfs {
            let inside = mount.split(':').next().unwrap_or(mount);
            fs::create_dir_all(self.target(name, inside)).expect("a folder can be made");
        }
    }

    fn target(&self, name: &str, inside: &str) -> PathBuf {
        assert!(MOUNTS.iter().any(|mount| inside.starts_with(mount)), "{inside} is not a known mount point");
        let target = self.path(name, inside);
        fs::create_dir_all(target.parent().expect("inside a folder")).expect("a folder can be made");
        target
    }

    fn copy(&self, name: &str, from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a folder can be made");
        for file in fs::read_dir(from).expect("the folder is there").map(|file| file.expect("a file").path())
        {
            let text = fs::read_to_string(&file).expect("a file of settings is text");
            let name_of_file = file.file_name().expect("a name");
            fs::write(to.join(name_of_file), self.local(name, &text)).expect("a file can be written");
        }
    }

    /// The text as it is on this machine.
    fn local(&self, name: &str, text: &str) -> String {
        let mut text = text
            .replace("${AUND_ISSUER:-agents.localhost}", ISSUER)
            .replace("postgres://aund@postgres:5432/aund", &self.stores.postgres)
            .replace("redis://redis:6379", &self.stores.redis)
            .replace("0.0.0.0:20001", &self.gateway(name))
            .replace("0.0.0.0:", &format!("{}:", self.addresses[name]));
        for (other, address) in &self.addresses {
            text = text.replace(&format!("={other}:20001"), &format!("={}", self.gateway(other)));
            text = text.replace(&format!("wss://{other}:"), &format!("wss://{address}:"));
        }
        for mount in MOUNTS {
            text = text.replace(mount, &self.path(name, mount).display().to_string());
        }
        text
    }

    fn log_file(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.log"))
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.log_file(name)).unwrap_or_default()
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            for name in self.services.keys() {
                eprintln!("---- {name}\n{}", self.log(name));
            }
        }
    }
}

fn free_port() -> u16 {
    let taken = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    taken.expect("there is a free port").port()
}
