//! What is printed when the server is ready.

use crate::config::{Config, ListenAddress};
use crate::gateway::GatewayState;
use std::fmt::Display;
use std::io::Write as _;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;

pub struct Banner(String);

impl Banner {
    pub fn new(issuer: &str) -> Banner {
        let mut banner = Banner(format!("aund {} is ready\n", env!("CARGO_PKG_VERSION")));
        banner.line("issuer", issuer);
        banner
    }

    pub fn line(&mut self, name: &str, value: impl Display) {
        self.0 += &format!("  {name:<10}{value}\n");
    }

    /// Where agents connect, and what to try there.
    pub fn gateway(&mut self, gateway: &GatewayState, addresses: &[ListenAddress]) {
        self.line("gateway", &gateway.public_url);
        for ListenAddress { address, .. } in addresses.iter().filter(|at| !at.tls) {
            self.line("plain", format!("ws://{address}/aun"));
        }
        if !gateway.config.runs("ca") {
            return;
        }
        let root = gateway.config.data.join("pki/root.crt");
        self.line("root", root.display());
        let secure = addresses.iter().find(|at| at.tls);
        if let Some(ListenAddress { address: SocketAddr::V4(address), .. }) = secure {
            self.try_next(&gateway.config, &root, address);
        }
    }

    fn try_next(&mut self, config: &Config, root: &Path, address: &SocketAddrV4) {
        let (root, gateway) = (root.display(), format!("gateway.{}:{}", config.issuer, address.port()));
        self.0 += "\nTry next\n";
        for hint in [
            "aund demo".to_owned(),
            format!(
                "curl --cacert {root} --resolve {gateway}:{} https://{gateway}/capabilities",
                address.ip()
            ),
            format!("aund doctor --data {}", config.data.display()),
            format!("an SDK with root_ca_path={root}"),
        ] {
            self.0 += &format!("  {hint}\n");
        }
    }

    pub fn print(&self) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(self.0.as_bytes()).and_then(|()| out.flush());
    }
}
