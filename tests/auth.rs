//! `auth.*` over the wire: names for keys, logins in two halves, tokens, and certificates that follow one another.

mod aid_login;
mod certificates;
mod create_aid;
mod refresh_token;

use serde_json::Value;

use crate::world::World;
use crate::world::agent::Identity;

async fn begun(world: &World, who: &Identity) -> Value {
    world.ask("auth.aid_login1", &who.login1()).await.expect("the first half of a login")
}
