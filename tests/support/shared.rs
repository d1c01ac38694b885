//! Servers that many tests use at the same time, one for each settings. Starting a server, and one of ten processes above all,
//! takes longer than most of what is tested on it.
//!
//! Tests on it do not meet: each has names of its own, because every name gets a random end, and an address of its own, because
//! limits count by address. What would touch the others, such as stopping the server or counting for all of it, is refused here:
//! such a test starts a server of its own.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use tokio::sync::OnceCell;

use super::agent::random_hex;
use super::domain::DomainPair;
use super::{TestServer, store_url};

/// Runs the server as a child and takes it down, with its folder, when the tests are over: then its input ends, however they ended.
const KEEPER: &str =
    r#"folder=$1; shift; "$@" & server=$!; cat > /dev/null; kill -9 $server; wait $server; rm -rf "$folder""#;

/// A server, and what keeps it running.
type SharedServer = (TestServer, ChildStdin);

static SHARED: LazyLock<Mutex<HashMap<String, Arc<OnceLock<SharedServer>>>>> = LazyLock::new(Mutex::default);

static SHARED_PAIR: OnceCell<[SharedServer; 2]> = OnceCell::const_new();

/// What tells a test on the shared server from the others.
pub(super) struct TestShare {
    /// The end of each of its names.
    pub suffix: String,
    /// Where its connections come from.
    pub source: Ipv4Addr,
}

impl TestServer {
    /// The server that tests share, with default settings.
    pub async fn shared() -> TestServer {
        TestServer::shared_with("").await
    }

    /// The server that those tests share that need these settings.
    pub async fn shared_with(settings: &str) -> TestServer {
        let mut all = SHARED.lock().expect("nobody panics with it");
        let server = Arc::clone(all.entry(settings.to_owned()).or_default());
        drop(all);
        server.get_or_init(|| kept(TestServer::prepared_on(store_url(), settings))).0.share()
    }

    /// What one of the tests on this server sees of it.
    fn share(&self) -> TestServer {
        let random = u32::from_str_radix(&random_hex(4), 16).expect("it is hexadecimal");
        let [_, a, b, c] = random.to_be_bytes();
        // Servers of two domains have the rest of the network: see `TestDomain`.
        let source = Ipv4Addr::new(127, a % 15 + 1, b, c.clamp(2, 250));
        TestServer {
            folder: self.folder.clone(),
            _owned_folder: None,
            store: self.store.clone(),
            shared_by: self.shared_by,
            twice: self.twice,
            process: None,
            share: Some(TestShare { suffix: format!("-{}", random_hex(4)), source }),
            issuer: self.issuer.clone(),
            listen: self.listen,
            tls_port: self.tls_port,
            plain_port: self.plain_port,
            gateways: self.gateways.clone(),
            services: self.services.clone(),
        }
    }

    /// Fails a test that would disturb the others.
    pub(super) fn assert_own(&self) {
        assert!(self.share.is_none(), "this test needs a server of its own: TestServer::start()");
    }

    /// The AID that a name has on this server.
    pub fn aid(&self, name: &str) -> String {
        let suffix = self.share.as_ref().map_or("", |share| &share.suffix);
        format!("{name}{suffix}.{}", self.issuer)
    }
}

impl DomainPair {
    /// The two domains that tests share.
    pub async fn shared() -> DomainPair {
        let [near, far] = SHARED_PAIR.get_or_init(shared_pair).await;
        DomainPair { near: near.0.share(), far: far.0.share() }
    }
}

async fn shared_pair() -> [SharedServer; 2] {
    // Tests that are a gateway of the far domain have more links than a real one.
    let [near, far] = DomainPair::prepared("federation.links_per_peer = 1000", "").map(kept);
    for (one, other) in [(&near.0, &far.0), (&far.0, &near.0)] {
        one.knows_its_gateway().await;
        one.trusts(other).await;
    }
    [near, far]
}

/// Starts a server that stays until the tests are over.
fn kept(mut server: TestServer) -> SharedServer {
    // Nobody drops what is static: the keeper removes the folder.
    let folder = server._owned_folder.take().expect("it is new").keep();
    let serve = server.serve_command(super::program());
    let mut command = Command::new("sh");
    command.arg("-c").arg(KEEPER).arg("sh").arg(&folder).arg(serve.get_program()).args(serve.get_args());
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(&folder).stdin(Stdio::piped());
    server.start_with(command);
    let stdin = server.process.as_mut().and_then(|keeper| keeper.stdin.take()).expect("stdin is a pipe");
    (server, stdin)
}
