//! A server of many processes: the settings of each in `gateway/deploy`, and its containers in `docker-compose.yml`.
//!
//! Which services there are, and in which order they start, is in the list of services; who calls whom is in the `callers` of the
//! method files; what only a service knows is in its `deploy.toml`.

use super::{GeneratedFile, read, region};
use crate::services;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The `deploy.toml` of a service.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeployFile {
    /// What the service is for, at the top of its settings.
    about: String,
    /// How many processes it has.
    #[serde(default = "one")]
    processes: usize,
    /// Whether its data folder has to survive.
    #[serde(default)]
    keeps_data: bool,
    /// Lines for its settings.
    #[serde(default)]
    settings: String,
}

fn one() -> usize {
    1
}

/// A service with a process of its own. The gateway is none: its containers are written by hand.
struct DeployedService {
    name: &'static str,
    file: DeployFile,
    /// The services it calls, with the methods.
    calls: BTreeMap<&'static str, Vec<&'static str>>,
}

/// How many gateways there are.
const GATEWAYS: usize = 2;

pub(super) fn files() -> Vec<GeneratedFile> {
    let services = deployed();
    let mut files: Vec<GeneratedFile> = services.iter().map(|service| settings(service, &services)).collect();
    files.push(settings_of_the_gateway(&services));
    files.push(compose(&services));
    files
}

fn deployed() -> Vec<DeployedService> {
    let names = services::names().filter(|name| *name != "gateway");
    names.map(|name| DeployedService { name, file: deploy_file(name), calls: calls(name) }).collect()
}

fn deploy_file(service: &str) -> DeployFile {
    let path = format!("services/{service}/deploy.toml");
    toml::from_str(&read(&path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The internal methods of other services that a service may call.
fn calls(service: &str) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut calls: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for method in proto_schemas::methods() {
        if method.callers.contains(&service) && method.namespace.service != service {
            calls.entry(method.namespace.service).or_default().push(method.name);
        }
    }
    calls
}

impl DeployedService {
    /// The names of its containers.
    fn containers(&self) -> Vec<String> {
        numbered(self.name, self.file.processes)
    }
}

fn numbered(name: &str, processes: usize) -> Vec<String> {
    match processes {
        1 => vec![name.to_owned()],
        more => (1..=more).map(|n| format!("{name}-{n}")).collect(),
    }
}

// ---- Settings ----

fn settings(service: &DeployedService, all: &[DeployedService]) -> GeneratedFile {
    let DeployedService { name, file, calls } = service;
    let mut text = format!(
        "# {}\n# Made by tests/generate from services/{name}/deploy.toml.\n\
         only = [\"{name}\"]\n\
         data = \"/var/lib/aund\"\n\
         store.url = \"postgres://aund@postgres:5432/aund\"  # the password is in the file that PGPASSFILE names\n\
         bus.url = \"redis://redis:6379\"\n\
         {}\
         mesh = {{ listen = \"0.0.0.0:7443\", cert = \"/keys/{name}.crt\", key = \"/keys/{name}.key\", authority = \"/keys/authority.crt\" }}\n\
         status.listen = \"0.0.0.0:9464\"\n\n\
         [services]\n",
        file.about, file.settings
    );
    // In the order of the list of services, the gateway last.
    let called = services::names().filter_map(|other| Some((other, calls.get(other)?)));
    for (other, methods) in called {
        text += &format!("# {}\n{}\n", methods.join(", "), remote(other, all));
    }
    GeneratedFile { path: format!("gateway/deploy/{name}.toml"), text }
}

fn settings_of_the_gateway(services: &[DeployedService]) -> GeneratedFile {
    let path = "gateway/deploy/gateway.toml";
    let remotes: Vec<String> = services.iter().map(|service| remote(service.name, services)).collect();
    GeneratedFile { path: path.to_owned(), text: region::replace(&read(path), "services", &remotes) }
}

/// Where the processes of a service are reached.
fn remote(service: &str, all: &[DeployedService]) -> String {
    let processes =
        all.iter().find(|known| known.name == service).map_or(GATEWAYS, |known| known.file.processes);
    let urls: Vec<String> =
        numbered(service, processes).iter().map(|name| format!("\"wss://{name}:7443\"")).collect();
    match &urls[..] {
        [one] => format!("{service}.remote = {one}"),
        several => format!("{service}.remote = [{}]", several.join(", ")),
    }
}

// ---- Containers ----

fn compose(services: &[DeployedService]) -> GeneratedFile {
    let path = "docker-compose.yml";
    let each = |line: &dyn Fn(&DeployedService) -> Option<String>| -> Vec<String> {
        services.iter().filter_map(line).collect()
    };
    let keys = each(&|service| Some(format!("      - keys-{0}:/keys/{0}", service.name)));
    let containers: Vec<String> = services.iter().flat_map(|service| containers(service, services)).collect();
    let healthy =
        services.iter().flat_map(DeployedService::containers).map(|name| healthy(&name)).collect::<Vec<_>>();
    let data = each(&|service| service.file.keeps_data.then(|| format!("  {}-data:", service.name)));
    let key_volumes = each(&|service| Some(format!("  keys-{}:", service.name)));
    let regions = [
        ("key folders", keys),
        ("services", containers),
        ("all services", healthy),
        ("data volumes", data),
        ("key volumes", key_volumes),
    ];
    let text = regions.iter().fold(read(path), |text, (name, lines)| region::replace(&text, name, lines));
    GeneratedFile { path: path.to_owned(), text }
}

/// The containers of a service. All of them are like the first.
fn containers(service: &DeployedService, all: &[DeployedService]) -> Vec<String> {
    let DeployedService { name, file, calls } = service;
    let names = service.containers();
    let anchor = if names.len() > 1 { format!(" &{name}") } else { String::new() };
    let mut lines = vec![
        format!("  {}:{anchor}", names[0]),
        "    <<: *service".to_owned(),
        format!(
            "    command: [\"serve\", \"--config\", \"/etc/aund/{name}.toml\", \"--issuer\", \"${{AUND_ISSUER:-agents.localhost}}\"]"
        ),
        "    volumes:".to_owned(),
        "      - ./gateway/deploy:/etc/aund:ro".to_owned(),
        format!("      - keys-{name}:/keys:ro"),
    ];
    if file.keeps_data {
        lines.push(format!("      - {name}-data:/var/lib/aund"));
    } else {
        lines.push("    tmpfs: *scratch".to_owned());
    }
    lines.push("    depends_on:".to_owned());
    lines.push("      <<: *stores".to_owned());
    // It waits for those that start before it; a service finds the others when they are there.
    let before = all.iter().take_while(|other| other.name != *name);
    let called = before.filter(|other| calls.contains_key(other.name)).flat_map(DeployedService::containers);
    lines.extend(called.map(|name| healthy(&name)));
    lines.push(String::new());
    for more in &names[1..] {
        lines.extend([format!("  {more}:"), format!("    <<: *{name}"), String::new()]);
    }
    lines
}

fn healthy(container: &str) -> String {
    format!("      {container}: {{ condition: service_healthy }}")
}
