//! From a key to a session: register, log in, refresh, connect.

use super::dial::Target;
use super::error::Error;
use super::home::{Identity, Tokens};
use super::wire::Wire;
use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use services::kernel::{Clock, Ids, codes};

/// A token that ends within so many seconds is not begun with.
const MARGIN: i64 = 60;

/// Where on a device an agent of the command line runs.
const SLOT: &str = "cli";

/// Events come on long connections only; a few calls need no more than a short one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Long,
    Short,
}

/// Registers the agent's key under its AID, or finds out that it is registered already.
pub async fn register(target: &Target, who: &Identity) -> anyhow::Result<()> {
    let mut wire = target.wire().await?;
    let public_key = BASE64_STANDARD.encode(who.key.public().spki_der());
    let params = json!({ "aid": who.aid, "public_key": public_key, "curve": "P-256" });
    let created = wire.call("auth.create_aid", &params).await?;
    wire.close().await;
    who.keep_cert(text(&created, "cert")?)?;
    who.keep_gateway(target.gateway())
}

/// A session of this agent. Tokens are kept, renewed when they end, and asked for anew when they are not taken.
pub async fn connect(target: &Target, who: &Identity, device: &str, kind: Kind) -> anyhow::Result<Wire> {
    let mut wire = target.wire().await?;
    let kept = who.tokens();
    let fresh = kept.as_ref().filter(|tokens| tokens.expires_at - MARGIN > now());
    let tokens = match fresh {
        Some(tokens) => tokens.clone(),
        None => renew(&mut wire, who, kept.as_ref()).await?,
    };
    match hello(&mut wire, &tokens, device, kind).await {
        // "The socket stays open, so that the client can refresh or log in and connect again on it."
        Err(error) if error.code() == Some(i64::from(codes::TOKEN_INVALID.code)) => {
            let tokens = login(&mut wire, who).await?;
            hello(&mut wire, &tokens, device, kind).await?;
        }
        other => other?,
    }
    Ok(wire)
}

async fn hello(wire: &mut Wire, tokens: &Tokens, device: &str, kind: Kind) -> Result<(), Error> {
    let kind = match kind {
        Kind::Long => "long",
        Kind::Short => "short",
    };
    let params = json!({
        "nonce": wire.nonce(),
        "auth": { "method": "kite_token", "token": tokens.access_token },
        "protocol": { "min": "1.0", "max": "1.0" },
        "device": { "id": device, "type": "cli" },
        "client": { "slot_id": SLOT, "sdk_lang": "rust", "sdk_version": env!("CARGO_PKG_VERSION") },
        "delivery_mode": { "mode": "fanout", "routing": "", "affinity_ttl_ms": 0 },
        "options": { "kind": kind },
    });
    wire.call("auth.connect", &params).await.map(drop)
}

/// The next tokens: for the refresh token if it is still good for it, else for the key.
async fn renew(wire: &mut Wire, who: &Identity, kept: Option<&Tokens>) -> anyhow::Result<Tokens> {
    let Some(kept) = kept else { return login(wire, who).await };
    let params = json!({ "aid": who.aid, "refresh_token": kept.refresh_token });
    let refreshed = wire.call("auth.refresh_token", &params).await?;
    if refreshed["success"] != true {
        return login(wire, who).await;
    }
    keep(who, &refreshed)
}

/// Both halves of a login, on one socket.
async fn login(wire: &mut Wire, who: &Identity) -> anyhow::Result<Tokens> {
    let cert = who.cert().with_context(|| format!("{} is not registered yet", who.aid))?;
    let params = json!({ "aid": who.aid, "cert": cert, "client_nonce": Ids::default().secret() });
    let begun = wire.call("auth.aid_login1", &params).await?;

    let (request_id, nonce) = (text(&begun, "request_id")?, text(&begun, "nonce")?);
    let client_time = format!("{}.0", now());
    let signature = BASE64_STANDARD.encode(who.key.sign(format!("{nonce}:{client_time}").as_bytes()));
    let params = json!({ "aid": who.aid, "request_id": request_id, "nonce": nonce,
        "client_time": client_time, "signature": signature });
    let done = wire.call("auth.aid_login2", &params).await?;
    if let Some(cert) = done["new_cert"].as_str() {
        who.keep_cert(cert)?;
    }
    keep(who, &done)
}

fn keep(who: &Identity, answer: &Value) -> anyhow::Result<Tokens> {
    let tokens = Tokens {
        access_token: text(answer, "access_token")?.to_owned(),
        refresh_token: text(answer, "refresh_token")?.to_owned(),
        expires_at: now() + answer["expires_in"].as_i64().unwrap_or_default(),
    };
    who.keep_tokens(&tokens)?;
    Ok(tokens)
}

fn text<'a>(answer: &'a Value, field: &str) -> Result<&'a str, Error> {
    answer[field].as_str().ok_or_else(|| Error::Odd(format!("there is no {field} in its answer")))
}

fn now() -> i64 {
    Clock::default().now_seconds()
}
