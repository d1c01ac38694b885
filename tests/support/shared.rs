//! One server that many tests use at the same time. Starting a server, and one of seven processes above all, takes longer than
//! most of what is tested on it.
//!
//! Tests on it do not meet: each has names of its own, because every name gets a random end, and an address of its own, because
//! limits count by address. What would touch the others, such as stopping the server or counting for all of it, is refused here:
//! such a test starts a server of its own.

use std::net::Ipv4Addr;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use super::agent::random_hex;
use super::{TestServer, store_url};

/// Runs the server as a child and takes it down, with its folder, when the tests are over: then its input ends, however they ended.
const KEEPER: &str =
    r#"folder=$1; shift; "$@" & server=$!; cat > /dev/null; kill -9 $server; wait $server; rm -rf "$folder""#;

static SHARED: OnceLock<(TestServer, ChildStdin)> = OnceLock::new();

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
        let (server, _) = SHARED.get_or_init(start);
        let random = u32::from_str_radix(&random_hex(4), 16).expect("it is hexadecimal");
        let [_, a, b, c] = random.to_be_bytes();
        // Servers of two domains have the rest of the network: see `TestDomain`.
        let source = Ipv4Addr::new(127, a % 15 + 1, b, c.clamp(2, 250));
        TestServer {
            folder: server.folder.clone(),
            _owned_folder: None,
            store: server.store.clone(),
            shared_by: server.shared_by,
            twice: server.twice,
            process: None,
            share: Some(TestShare { suffix: format!("-{}", random_hex(4)), source }),
            issuer: server.issuer.clone(),
            listen: server.listen,
            tls_port: server.tls_port,
            plain_port: server.plain_port,
            gateways: server.gateways.clone(),
            services: server.services.clone(),
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

fn start() -> (TestServer, ChildStdin) {
    let mut server = TestServer::prepared_on(store_url(), "");
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
