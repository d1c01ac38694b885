//! Calls of the operator: on a running server through its socket, on a stopped one through its store.

use crate::cli::ConfigArgs;
use anyhow::Context as _;
use certs::Certificate;
use gateway::{admin, run};
use kernel::{Caller, World};
use proto_schemas::Request;
use serde_json::Value;
use std::fs;

/// Calls a method as the operator: at the server that runs on the data folder, or with the services opened by this process
/// if none does.
pub(super) async fn ask<R: Request>(settings: &ConfigArgs, request: &R) -> anyhow::Result<R::Result> {
    let answer = ask_unparsed(settings, request).await?;
    serde_json::from_value(answer)
        .with_context(|| format!("the answer of {} has an unexpected form", R::METHOD))
}

/// The same, with the answer as it is.
pub(super) async fn ask_unparsed<R: Request>(settings: &ConfigArgs, request: &R) -> anyhow::Result<Value> {
    let params = serde_json::to_value(request)?;
    let mut config = settings.config()?;
    let keys = config.keys.clone().unwrap_or_else(|| config.data.clone());
    if let Some(answer) = admin::ask(&config.data, R::METHOD, &params).await? {
        return Ok(answer);
    }
    anyhow::ensure!(
        run::is_initialised(&keys),
        "{} holds no certificate authority yet: start the server once, or use --data DIR",
        keys.display()
    );
    if settings.issuer.is_none() && settings.config.is_none() {
        // The issuer's certificate in the folder names the domain.
        let issuer = fs::read_to_string(keys.join("pki/ca/issuer.crt"))?;
        config.issuer = Certificate::from_pem(&issuer)?.common_name().to_owned();
    }
    let _lock = run::lock_data(&config.data)?;
    let mut world = World::local(&config.issuer, &config.data, config.store_url()?);
    world.keys = keys;
    world.pki_url = config.pki_url();
    run::open_services(&world, &config.available, |_| true).await?;
    Ok(world.mesh.ask_named(Caller::Operator, R::METHOD, &params).await?)
}
