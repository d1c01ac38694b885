//! One server as three processes: the gateway; the message service; `ca`, `auth` and `agent` together.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use super::agent::ISSUER;
use super::process::{BenchFolder, BenchServer, Build, CONFIG, ServiceProcess};

const GATEWAY: &str = "gateway";
const SERVICES: [&str; 2] = ["ca+auth+agent", "message"];
/// Where the services listen on the server's own address.
const FIRST_PORT: u16 = 7001;

/// The folders and addresses of the processes of one server.
pub(super) struct SplitSetup {
    build: Build,
    folder: PathBuf,
    bus: String,
    store: Option<String>,
    /// A loopback address of this server's own, so that every port on it is free.
    address: Ipv4Addr,
}

impl SplitSetup {
    /// Makes the certificates of every process.
    pub(super) async fn prepare(
        build: &Build,
        folder: &BenchFolder,
        redis: &str,
        store: Option<&str>,
    ) -> anyhow::Result<Self> {
        static SERVERS: AtomicU8 = AtomicU8::new(1);
        let (number, pid) = (SERVERS.fetch_add(1, Ordering::Relaxed), std::process::id());
        let [.., high, low] = pid.to_be_bytes();
        let ground = Self {
            build: build.clone(),
            folder: folder.file("split"),
            bus: format!("{redis}?prefix=bench-{pid}-{number}"),
            store: store.map(str::to_owned),
            address: Ipv4Addr::new(127, 64 | (high & 63), low, number),
        };
        let made = build
            .command()
            .args(["certs", "mesh"])
            .arg(ground.folder.join("mesh"))
            .arg(GATEWAY)
            .args(SERVICES)
            .stdout(Stdio::null())
            .status()
            .await?;
        ensure!(made.success(), "the certificates of the mesh could not be made");
        Ok(ground)
    }

    /// Starts all processes.
    pub(super) async fn start(&self) -> anyhow::Result<BenchServer> {
        let mut services = Vec::new();
        for process in SERVICES {
            let started = ServiceProcess::start(self.command(process, process)?).await;
            services.push(started.with_context(|| format!("{process} did not start"))?);
        }
        let mut gateway = self.command(GATEWAY, "gateway")?;
        gateway.args(["--listen", "127.0.0.1:0", "--listen", "plain:127.0.0.1:0"]);
        BenchServer::with_services(gateway, services).await.context("the gateway did not start")
    }

    /// Another gateway on the same ports as the first; the services stay with the first.
    pub(super) async fn second_gateway(&self, tls_port: u16, plain_port: u16) -> anyhow::Result<BenchServer> {
        let mut gateway = self.command(GATEWAY, "second-gateway")?;
        gateway.args(["--listen", &format!("127.0.0.1:{tls_port}")]);
        gateway.args(["--listen", &format!("plain:127.0.0.1:{plain_port}")]);
        BenchServer::start(gateway).await.context("the second gateway did not start")
    }

    fn command(&self, process: &str, name: &str) -> anyhow::Result<Command> {
        let (config, log) =
            (self.folder.join(format!("{name}.toml")), self.folder.join(format!("{name}.log")));
        std::fs::write(&config, self.settings(process))?;
        let mut command = self.build.command();
        command.args(["serve", "--issuer", ISSUER, "--bus", &self.bus]).arg("--config").arg(config);
        command.arg("--data").arg(self.folder.join(name)).stderr(std::fs::File::create(log)?);
        for name in process.split('+') {
            command.args(["--only", name]);
        }
        if let Some(url) = &self.store {
            command.args(["--store", url]);
        }
        Ok(command)
    }

    fn settings(&self, process: &str) -> String {
        let mesh = self.folder.join("mesh");
        let mut text = format!("share_port = true\n{CONFIG}\n[mesh]\n");
        for (name, file) in [("cert", format!("{process}.crt")), ("key", format!("{process}.key"))] {
            text += &format!("{name} = {:?}\n", mesh.join(file));
        }
        text += &format!("authority = {:?}\n", mesh.join("authority.crt"));
        for (service, port) in SERVICES.into_iter().zip(FIRST_PORT..) {
            if service == process {
                text += &format!("listen = \"{}:{port}\"\n", self.address);
            }
        }
        for (service, port) in
            SERVICES.into_iter().zip(FIRST_PORT..).filter(|(service, _)| *service != process)
        {
            for name in service.split('+') {
                text += &format!("[services.{name}]\nremote = \"wss://{}:{port}\"\n", self.address);
            }
        }
        text
    }
}
