//! `auth.*` over the wire: names for keys, logins in two halves, tokens, and certificates that follow one another.

mod aid_login;
mod certificates;
mod create_aid;
mod refresh_token;
mod revoke_cert;

use serde_json::Value;

use crate::support::TestServer;
use crate::support::agent::TestIdentity;

async fn begun(server: &TestServer, who: &TestIdentity) -> Value {
    server.ask("auth.aid_login1", &who.login1()).await.expect("the first half of a login")
}
