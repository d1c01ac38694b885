//! Settings that contradict each other are refused before a port is bound.

use super::{Config, FederationConfig, mesh_address, resolve};
use anyhow::{Context as _, bail};
use kernel::{Aid, Engine, StoreLimits};

/// A shorter token could be guessed.
const STATUS_TOKEN_BYTES: usize = 16;

impl Config {
    pub fn check(&self) -> anyhow::Result<()> {
        Aid::parse(&format!("name.{}", self.issuer))
            .with_context(|| format!("issuer: {:?} cannot be the domain of an AID", self.issuer))?;
        self.check_store()?;
        if let Some(redis) = self.redis() {
            redis.check().context("bus.url")?;
        }
        if self.tls.cert.is_some() != self.tls.key.is_some() {
            bail!("tls: set both cert and key, or neither");
        }
        if let Some(url) = self.public_url.as_deref().filter(|url| !is_gateway_url(url)) {
            bail!("public_url: {url:?} must be a URL such as wss://gateway.{}/aun", self.issuer);
        }
        self.check_names()?;
        self.check_shape()?;
        resolve::check_all(&self.federation.resolve)?;
        if self.runs("gateway") && self.listen.is_empty() {
            bail!("listen: must have at least one address");
        }
        if self.status.token.as_ref().is_some_and(|token| token.len() < STATUS_TOKEN_BYTES) {
            bail!("status.token: must have at least {STATUS_TOKEN_BYTES} characters");
        }
        self.available.iter().try_for_each(|service| service.check())?;
        self.check_limits()
    }

    /// A limit that the store cannot hold would be taken for one that it holds.
    fn check_store(&self) -> anyhow::Result<()> {
        let engine = self.store_url().context("store.url")?.engine();
        match (engine, self.store_limits()) {
            (Engine::Sqlite, StoreLimits { bytes: Some(_), .. }) => {
                bail!("store.bytes: applies to PostgreSQL only; store.free_bytes limits SQLite")
            }
            (Engine::Postgres, StoreLimits { free_bytes: Some(_), .. }) => {
                bail!(
                    "store.free_bytes: applies to SQLite only; store.bytes limits PostgreSQL, whose free space is unknown"
                )
            }
            (_, StoreLimits { bytes: Some(0), .. }) => bail!("store.bytes: must be at least 1"),
            _ => Ok(()),
        }
    }

    /// Every service that is named exists, and every namespace that may cross has something that can.
    fn check_names(&self) -> anyhow::Result<()> {
        let known: Vec<&str> = self.service_names().collect();
        let named = self.only.iter().map(|name| ("only", name));
        let moved = self.services.keys().map(|name| ("services", name));
        if let Some((setting, name)) = named.chain(moved).find(|(_, name)| !known.contains(&name.as_str())) {
            bail!("{setting}: unknown service {name}; the services are {}", known.join(", "));
        }
        let crossing: Vec<&str> = FederationConfig::crossing().collect();
        if let Some(name) = self.federation.namespaces.iter().find(|name| !crossing.contains(&name.as_str()))
        {
            let known = crossing.join(", ");
            bail!("federation.namespaces: {name} cannot cross domains; the namespaces that can are {known}");
        }
        Ok(())
    }

    /// What only matters where one server is several processes.
    fn check_shape(&self) -> anyhow::Result<()> {
        for (name, service) in &self.services {
            if self.only.contains(name) {
                bail!(
                    "services.{name}.remote: {name} is also in `only` and would run here; remove one of the two"
                );
            }
            if service.remote.as_slice().is_empty() {
                bail!("services.{name}.remote: must have at least one address");
            }
            for url in service.remote.as_slice() {
                mesh_address(url).with_context(|| format!("services.{name}.remote"))?;
            }
        }
        if !self.runs("gateway") && self.mesh.listen.is_none() {
            bail!("mesh.listen: is required for a process without the gateway");
        }
        if self.is_split() && self.redis().is_none() {
            bail!("bus.url: must be redis://… if services run in several processes");
        }
        let files = [("cert", &self.mesh.cert), ("key", &self.mesh.key), ("authority", &self.mesh.authority)];
        if let Some((name, _)) = files.into_iter().find(|(_, file)| self.is_split() && file.is_none()) {
            bail!("mesh.{name} is not set; create the certificates with aund certs mesh");
        }
        Ok(())
    }

    fn check_limits(&self) -> anyhow::Result<()> {
        let limits = &self.limits;
        self.accounts.check()?;
        if limits.outbox_bytes < limits.frame_bytes {
            bail!("limits.outbox_bytes: must be at least limits.frame_bytes ({})", limits.frame_bytes);
        }
        if limits.array_answer_bytes < limits.frame_bytes {
            bail!("limits.array_answer_bytes: must be at least limits.frame_bytes ({})", limits.frame_bytes);
        }
        for (name, total) in [
            ("frame_total_bytes", limits.frame_total_bytes),
            ("http_unread_total_bytes", limits.http_unread_total_bytes),
        ] {
            if total < 8 * limits.frame_bytes {
                bail!(
                    "limits.{name}: must be at least eight times limits.frame_bytes ({})",
                    limits.frame_bytes
                );
            }
        }
        for (name, slots) in [
            ("handshakes", limits.handshakes),
            ("preauth_frame_bytes", limits.preauth_frame_bytes),
            ("array_in_flight", limits.array_in_flight.into()),
            ("streams", limits.streams),
            ("streams_per_caller", limits.streams_per_caller as usize),
            ("cpu_waiting", limits.cpu_waiting),
            ("cpu_waiting_per_agent", limits.cpu_waiting_per_agent),
            ("cpu_waiting_per_address", limits.cpu_waiting_per_address),
            ("cpu_ms_per_minute", limits.cpu_ms_per_minute as usize),
        ] {
            if slots == 0 {
                bail!("limits.{name}: must be at least 1");
            }
        }
        if self.drain_window_ms() > limits.drain_timeout_ms {
            bail!("limits.drain_window_ms: must not exceed drain_timeout_ms ({})", limits.drain_timeout_ms);
        }
        let declared = |name: &str| {
            let mut classes = proto_schemas::namespaces().iter().flat_map(|namespace| namespace.rates);
            classes.any(|class| class.name == name)
        };
        if let Some((name, _)) = limits.classes.iter().find(|(name, rate)| **rate == 0 || !declared(name)) {
            bail!(
                "limits.classes: {name} must be a rate class of a namespace and at least 1 call per minute"
            );
        }
        let rates = [
            ("handshakes_per_address", limits.handshakes_per_address),
            ("handshakes_per_prefix", limits.handshakes_per_prefix),
            ("connects_per_second", limits.connects_per_second),
            ("http_per_second", limits.http_per_second),
            ("registrations_per_minute", limits.registrations_per_minute),
            ("registrations_per_day", limits.registrations_per_day),
            ("registrations_per_day_per_prefix", limits.registrations_per_day_per_prefix),
            ("logins_per_minute", limits.logins_per_minute),
            ("login_failures_per_minute", limits.login_failures_per_minute),
            ("login_failures_per_prefix", limits.login_failures_per_prefix),
            ("calls_per_second", limits.calls_per_second),
            ("in_flight", limits.in_flight),
        ];
        if let Some((name, _)) = rates.into_iter().find(|(_, rate)| *rate == 0) {
            bail!("limits.{name}: must be at least 1");
        }
        Ok(())
    }
}

/// Clients open it as a WebSocket, and certificates name its host.
fn is_gateway_url(url: &str) -> bool {
    let rest = url.strip_prefix("wss://").or_else(|| url.strip_prefix("ws://")).unwrap_or_default();
    rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
        && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_services;

    #[test]
    fn contradictions_are_refused_before_a_port_is_bound() {
        let says = |text: &str| {
            Config::parse(text, &test_services()).and_then(|config| config.check()).unwrap_err().to_string()
        };
        assert!(says("issuer = 'UPPER..case'").contains("issuer"));
        assert!(says("store.url = 'mysql://x'").contains("store.url"));
        assert!(says("store.bytes = 5").contains("store.free_bytes limits SQLite"));
        let postgres = |setting: &str| says(&format!("[store]\nurl = 'postgres://x/y'\n{setting}"));
        assert!(postgres("free_bytes = 5").contains("store.bytes limits PostgreSQL"));
        assert!(postgres("bytes = 0").contains("at least 1"));
        assert!(says("bus.url = 'nats://x'").contains("bus.url"));
        assert!(says("[limits]\ndrain_window_ms = 20000").contains("drain_window_ms"));
        assert!(says("tls.cert = 'x'").contains("tls"));
        for url in ["https://x/aun", "wss://", "wss:///aun", "wss://a b/aun"] {
            assert!(says(&format!("public_url = '{url}'")).contains("public_url"), "{url}");
        }
        assert!(says("only = ['nothing']").contains("unknown service nothing"));
        assert!(says("only = ['ca']").contains("mesh.listen"));
        assert!(says("services.gateway.remote = 'wss://x:1'").contains("gateway"));
        assert!(says("services.ca.remote = 'https://x:1'").contains("services.ca.remote"));
        assert!(says("services.ca.remote = []").contains("services.ca.remote"));
        assert!(says("services.ca.remote = 'wss://x:1'").contains("bus.url"));
        let wide = "bus.url = 'redis://x'\nservices.ca.remote = 'wss://x:1'";
        assert!(says(wide).contains("mesh.cert"));
        assert!(
            says("only = ['ca', 'gateway']\nservices.ca.remote = 'wss://x:1'").contains("would run here")
        );
        assert!(says("status.token = 'short'").contains("status.token"));
        assert!(says("listen = ['nowhere']").contains("nowhere"));
        assert!(says("proxies = ['10.0.0.0/99']").contains("10.0.0.0/99"));
        assert!(says("federation.resolve = { 'x.example' = 'nowhere' }").contains("federation.resolve"));
        for name in ["auth", "nothing"] {
            let sentence = says(&format!("federation.namespaces = ['message', '{name}']"));
            assert!(sentence.contains(&format!("{name} cannot cross")), "{sentence}");
            assert!(
                sentence.contains("that can are agent, h2a, message, "),
                "the ones that do are named: {sentence}"
            );
        }
        assert!(says("message.limit = 99").contains("message.limit"), "a service checks its own");
        assert!(says("limits.calls_per_second = 0").contains("calls_per_second"));
        assert!(says("limits.streams = 0").contains("limits.streams:"));
        assert!(says("limits.streams_per_caller = 0").contains("streams_per_caller"));
        assert!(says("limits.handshakes_per_prefix = 0").contains("handshakes_per_prefix"));
        assert!(says("limits.frame_total_bytes = 1000").contains("frame_total_bytes"));
    }
}
