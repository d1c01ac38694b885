//! Domains that know of each other: each on an address of its own that outlives a restart, each with its own root.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::agent::random_hex;
use super::{TestServer, aund, printed, split, store_url, until, within};

/// Ports where nobody but us listens, because the address is ours.
const SECURE: u16 = 20001;
const PLAIN: u16 = 20002;

/// A name and an address for a domain that may not be there yet.
#[derive(Clone)]
pub struct TestDomain {
    pub issuer: String,
    pub address: Ipv4Addr,
}

impl TestDomain {
    pub fn new(name: &str) -> TestDomain {
        let random = u32::from_str_radix(&random_hex(4), 16).expect("it is hexadecimal");
        let [_, a, b, c] = random.to_be_bytes();
        TestDomain { issuer: format!("{name}.test"), address: Ipv4Addr::new(127, a | 16, b, c.clamp(2, 250)) }
    }

    /// The setting by which others find it: every name under the domain is at this address.
    pub fn resolve(&self) -> String {
        format!("federation.resolve.\"{}\" = \"{}:{SECURE}\"\n", self.issuer, self.address)
    }

    /// Where its server listens without TLS.
    pub fn plain_url(&self) -> String {
        format!("http://{}:{PLAIN}", self.address)
    }

    /// The folder of its server.
    pub fn prepared(&self, settings: &str) -> TestServer {
        let listen = [SECURE, PLAIN].map(|port| SocketAddrV4::new(self.address, port));
        TestServer::prepared_as(&self.issuer, listen, store_url(), settings)
    }
}

/// Two domains that find each other and trust each other's root.
pub struct DomainPair {
    pub near: TestServer,
    pub far: TestServer,
}

impl DomainPair {
    pub async fn start() -> DomainPair {
        DomainPair::with("", "").await
    }

    /// The same, each with settings of its own.
    pub async fn with(near: &str, far: &str) -> DomainPair {
        let pair = DomainPair::without_trust(near, far).await;
        pair.near.trusts(&pair.far).await;
        pair.far.trusts(&pair.near).await;
        pair
    }

    /// The same, where the near one is served by an earlier build.
    pub async fn with_earlier_build(aund: &str, near: &str) -> DomainPair {
        let [mut near, mut far] = DomainPair::prepared(near, "");
        near.start_build(aund);
        far.start_again();
        for (one, other) in [(&near, &far), (&far, &near)] {
            one.knows_its_gateway().await;
            one.trusts(other).await;
        }
        DomainPair { near, far }
    }

    /// Two domains that find each other, and do not trust each other yet.
    pub async fn without_trust(near: &str, far: &str) -> DomainPair {
        let [near, far] = DomainPair::prepared(near, far).map(|mut server| {
            server.start_again();
            server
        });
        near.knows_its_gateway().await;
        far.knows_its_gateway().await;
        DomainPair { near, far }
    }

    /// The folders of two domains that will find each other.
    pub(super) fn prepared(near: &str, far: &str) -> [TestServer; 2] {
        let domains = [TestDomain::new("near"), TestDomain::new("far")];
        let names: String = domains.iter().map(TestDomain::resolve).collect();
        [(&domains[0], near), (&domains[1], far)]
            .map(|(domain, settings)| domain.prepared(&format!("{names}{settings}")))
    }
}

impl TestServer {
    /// Adds the root of another domain, as its operator would.
    pub async fn trusts(&self, other: &TestServer) {
        self.trusts_root(other.root().pem(), &other.issuer).await;
    }

    /// Adds a root for one domain, or a pattern. A build that cannot say what a root is for trusts it for everything.
    pub async fn trusts_root(&self, pem: &str, domain: &str) {
        let file = self.beside(&format!("{}.crt", random_hex(4)));
        std::fs::write(&file, pem).expect("a file can be written");
        let words = ["certs", "trust", "add", file.to_str().expect("a path is text"), "--domain", domain];
        let mut output = self.aund(&words).await;
        if printed(&output.stderr).contains("unexpected argument '--domain'") {
            output = self.aund(&words[..4]).await;
        }
        assert!(output.status.success(), "{}", printed(&output.stderr));
    }
}

impl TestServer {
    /// An `aund` command that asks the gateway; where there are several, each of them, the first one first.
    pub async fn aund_on_gateways(&self, words: &[&str]) -> Vec<Output> {
        let mut outputs = Vec::new();
        for data in self.gateways_data() {
            outputs.push(aund_with_data(words, &data).await);
        }
        outputs
    }

    pub async fn aund_on_gateway(&self, words: &[&str]) -> Output {
        self.aund_on_gateways(words).await.swap_remove(0)
    }

    /// The same for the process of a service, or the first of them.
    pub async fn aund_on(&self, service: &str, words: &[&str]) -> Output {
        aund_with_data(words, &self.data_of(service)).await
    }

    /// Waits until those who ask the gateway for other domains have found it, where it is a process of its own.
    pub async fn knows_its_gateway(&self) {
        let processes = ["message1", "message2", "search1", "task1"].into_iter().filter(|_| split());
        let folders =
            processes.map(|name| self.beside(&format!("split/{name}"))).filter(|folder| folder.exists());
        for folder in folders {
            let data = folder.to_str().expect("a path is text").to_owned();
            until("a service reaches its gateway", || async {
                let asked = aund(&["health", "--data", &data, "--needs", "gateway"], &folder);
                asked.status.success().then_some(())
            })
            .await;
        }
    }

    /// How many gateways share the ports.
    pub fn gateways(&self) -> usize {
        self.gateways_data().len()
    }

    /// The folder where the gateway keeps its keys.
    pub fn gateway_data(&self) -> PathBuf {
        self.gateways_data().swap_remove(0)
    }

    /// The data folder of a service, or of the first of its processes.
    pub fn data_of(&self, service: &str) -> PathBuf {
        // That of the authority is the server's.
        if split() && service != "ca" { self.folder.join(format!("split/{service}1")) } else { self.data() }
    }

    /// The same of each gateway, where the server is several processes.
    fn gateways_data(&self) -> Vec<PathBuf> {
        match split() {
            true => (1..=self.shared_by).map(|n| self.folder.join(format!("split/gateway{n}"))).collect(),
            false => vec![self.data()],
        }
    }
}

async fn aund_with_data(words: &[&str], data: &Path) -> Output {
    let mut command = Command::new(super::program());
    command.args(words).arg("--data").arg(data);
    let ended = tokio::task::spawn_blocking(move || command.output());
    let output = within("an aund command", ended).await.expect("the thread lives");
    output.expect("aund can be started")
}
