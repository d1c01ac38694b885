//! `aund example-backend`: a back end without a model, for the profile `example`.

use std::env;

pub(super) async fn run() -> anyhow::Result<()> {
    // Names and values that are no text are none that it could say.
    let environment = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(runner::example::run(environment).await?)
}
