//! What an agent publishes about itself: signed with its key, and stored by its own domain.

use super::chance::now;
use super::connection::dial::GatewayDialer;
use super::error::Error;
use super::home::LocalAgent;
use super::login::over_http::with_token;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use certs::Certificate;
use hyper::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use hyper::{Method, Request};
use proto_schemas::requests::agent::AgentMdNote;
use serde::{Deserialize, Serialize};

const PATH: &str = "/agent.md";
const MARKER: &str = "<!-- AUN-SIGNATURE";

/// When a document is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PublishCondition {
    /// Whatever is stored: the last writer wins.
    #[default]
    Always,
    /// Only if nothing is stored yet.
    IfAbsent,
    /// Only if the stored document has this ETag, quotation marks included.
    IfMatch(String),
}

/// What was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedAgentMd {
    /// Whose document it is.
    pub aid: String,
    /// The SHA-256 of the document in quotation marks, by which a later write can be made conditional.
    pub etag: String,
    /// When it was stored, as an HTTP date.
    pub last_modified: String,
    /// Where everybody can read it.
    pub agent_md_url: String,
    /// What is accepted and could be better.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<AgentMdNote>,
}

/// Publishes the agent.md of an agent: YAML front matter and Markdown. It is signed with the agent's key, unless it has a signature
/// already.
pub async fn publish_agent_md(
    dialer: &GatewayDialer,
    agent: &LocalAgent,
    content: &str,
    condition: &PublishCondition,
) -> Result<PublishedAgentMd, Error> {
    let put = |agent: &LocalAgent| {
        let request = Request::put(PATH)
            .header(CONTENT_TYPE, "text/markdown; charset=utf-8")
            .header("x-aun-signature-format", "multi-v1");
        let request = match condition {
            PublishCondition::Always => request,
            PublishCondition::IfAbsent => request.header(IF_NONE_MATCH, "*"),
            PublishCondition::IfMatch(etag) => request.header(IF_MATCH, etag),
        };
        Ok((request, sign_agent_md(agent, content)?))
    };
    let answer = with_token(dialer, agent, &of_agent(dialer, agent), put).await?.accepted("PUT /agent.md")?;
    serde_json::from_str(&answer).map_err(|error| Error::Unexpected(format!("PUT /agent.md: {error}")))
}

/// Removes the agent.md of an agent.
pub async fn unpublish_agent_md(dialer: &GatewayDialer, agent: &LocalAgent) -> Result<(), Error> {
    let delete = |_: &LocalAgent| Ok((Request::builder().method(Method::DELETE).uri(PATH), String::new()));
    with_token(dialer, agent, &of_agent(dialer, agent), delete).await?.accepted("DELETE /agent.md").map(drop)
}

/// The document with a signature by the agent's key over everything before it. One that has a signature already stays as it is.
pub fn sign_agent_md(agent: &LocalAgent, content: &str) -> Result<String, Error> {
    if content.contains(MARKER) {
        return Ok(content.to_owned());
    }
    let cert = agent.cert();
    let cert = cert.ok_or_else(|| Error::Invalid(format!("{} is not registered yet", agent.aid)))?;
    let cert = Certificate::from_pem(&cert)
        .map_err(|error| Error::Invalid(format!("the certificate of {} is invalid: {error}", agent.aid)))?;
    let end = if content.ends_with('\n') { "" } else { "\n" };
    let text = format!("{content}{end}");
    let signature = BASE64_STANDARD.encode(agent.key.sign(text.as_bytes()));
    let (cert, key) = (cert.fingerprint().to_owned(), agent.key.public().fingerprint());
    let fields = format!("cert_fingerprint: {cert}\npublic_key_fingerprint: {key}\ntimestamp: {}", now());
    Ok(format!("{text}{MARKER}\n{fields}\nsignature: {signature}\n-->"))
}

/// The host of an agent's own paths.
fn of_agent(dialer: &GatewayDialer, agent: &LocalAgent) -> String {
    dialer.gateway().authority(agent.aid.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::home::Home;
    use super::*;
    use certs::dev::Pki;
    use proto_schemas::Aid;

    const ISSUER: &str = "agents.localhost";

    fn alice() -> (tempfile::TempDir, LocalAgent) {
        let folder = tempfile::tempdir().unwrap();
        let aid = Aid::parse(&format!("alice.{ISSUER}")).unwrap();
        let alice = Home::new(folder.path()).create(&aid).unwrap();
        (folder, alice)
    }

    #[test]
    fn a_signature_is_over_everything_before_it() {
        let (_folder, alice) = alice();
        assert!(sign_agent_md(&alice, "x").unwrap_err().to_string().contains("not registered"));
        alice.keep_cert(Pki::new(ISSUER, now()).root.certificate().pem()).unwrap();
        for (content, text) in [("# alice", "# alice\n"), ("# alice\n", "# alice\n")] {
            let signed = sign_agent_md(&alice, content).unwrap();
            let block = signed.strip_prefix(text).unwrap();
            assert!(block.starts_with(MARKER) && block.ends_with("\n-->"), "{signed}");
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            assert_eq!(field("public_key_fingerprint: "), alice.key.public().fingerprint());
            let signature = BASE64_STANDARD.decode(field("signature: ")).unwrap();
            assert!(alice.key.public().verify(text.as_bytes(), &signature));
            assert_eq!(sign_agent_md(&alice, &signed).unwrap(), signed, "once is enough");
        }
    }
}
