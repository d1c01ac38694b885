//! The calls that lead from a key to a session, each on a socket whose challenge has been read. Nothing is stored here.

use super::chance::{now, secret};
use super::connection::ClientConnection;
use super::error::Error;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use certs::Key;
use proto_schemas::Aid;
use proto_schemas::requests::auth::{
    AidLogin1, AidLogin2, Connect, ConnectProof, ConnectWishes, ConnectedSession, ConnectingClient,
    ConnectingDevice, CreateAid, DeliveryMode, LoginTokens, ProtocolRange, RevocationTarget, RevokeCert,
    RevokedIdentity,
};
use serde_json::value::to_raw_value;

/// Events come on long connections only; a few calls need no more than a short one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionKind {
    /// Stays, gets events, and replaces the long connection that its device and slot had before.
    #[default]
    Long,
    /// For a few calls, beside others like it; gets no events.
    Short,
}

/// What a session is opened as.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The installation of the agent: every device has an inbox of its own.
    pub device: String,
    /// The consumer on that device: every slot has a cursor of its own.
    pub slot: String,
    /// Whether it gets events.
    pub kind: SessionKind,
}

/// Registers a key under an AID, and gives its certificate. Registering the same key again succeeds, too.
pub async fn create_aid(connection: &ClientConnection, aid: &Aid, key: &Key) -> Result<String, Error> {
    let public_key = BASE64_STANDARD.encode(key.public().spki_der());
    let curve = Some(key.public().curve().to_string());
    let created = connection.request(&CreateAid { aid: aid.to_string(), public_key, curve }).await?;
    Ok(created.cert)
}

/// Both steps of a login, on one socket.
pub async fn log_in(
    connection: &ClientConnection,
    aid: &Aid,
    key: &Key,
    cert: &str,
) -> Result<LoginTokens, Error> {
    let begin = AidLogin1 { aid: aid.clone(), cert: cert.to_owned(), client_nonce: secret() };
    let begun = connection.request(&begin).await?;

    let client_time = format!("{}.0", now());
    let signed = key.sign(format!("{}:{client_time}", begun.nonce).as_bytes());
    let finish = AidLogin2 {
        aid: aid.clone(),
        request_id: begun.request_id,
        nonce: begun.nonce,
        client_time: to_raw_value(&client_time).map_err(|error| Error::Invalid(error.to_string()))?,
        signature: BASE64_STANDARD.encode(signed),
        cert: None,
    };
    connection.request(&finish).await
}

/// Ends the tokens of an agent, or the agent for good: both steps, on one socket.
pub async fn revoke_cert(
    connection: &ClientConnection,
    (aid, key, cert): (&Aid, &Key, &str),
    what: RevocationTarget,
    reason: &str,
) -> Result<RevokedIdentity, Error> {
    let begin = AidLogin1 { aid: aid.clone(), cert: cert.to_owned(), client_nonce: secret() };
    let begun = connection.request(&begin).await?;

    let signed = key.sign(RevokeCert::signed_text(&begun.nonce, what, reason).as_bytes());
    let finish = RevokeCert {
        aid: aid.clone(),
        request_id: begun.request_id,
        nonce: begun.nonce,
        what: Some(what),
        reason: Some(reason.to_owned()),
        signature: BASE64_STANDARD.encode(signed),
    };
    connection.request(&finish).await
}

/// Makes the socket a session.
pub async fn connect(
    connection: &ClientConnection,
    access_token: &str,
    options: &SessionOptions,
) -> Result<ConnectedSession, Error> {
    let text = |text: &str| Some(text.to_owned());
    let kind = match options.kind {
        SessionKind::Long => "long",
        SessionKind::Short => "short",
    };
    let connect = Connect {
        nonce: connection.nonce().to_owned(),
        auth: ConnectProof { method: "kite_token".to_owned(), token: text(access_token) },
        protocol: Some(ProtocolRange { min: text("1.0"), max: text("1.0") }),
        device: Some(ConnectingDevice { id: text(&options.device), kind: text("sdk") }),
        client: Some(ConnectingClient {
            slot_id: text(&options.slot),
            sdk_lang: text("rust"),
            sdk_version: text(env!("CARGO_PKG_VERSION")),
        }),
        delivery_mode: Some(DeliveryMode {
            mode: "fanout".to_owned(),
            routing: text(""),
            affinity_ttl_ms: Some(0),
        }),
        options: Some(ConnectWishes { kind: text(kind), short_ttl_ms: None }),
        ..Connect::default()
    };
    connection.request(&connect).await
}
