//! `aund demo --web`: a page for people who want to talk to the example agent. It is served on this machine only, and what it asks of the
//! gateway passes through here, so that a browser need not know the gateway's root certificate.

mod answer;
mod files;
mod forward;
mod page_server;
mod tokens;

use crate::agent_args::{AgentArgs, issuer_of};
use crate::show::Show;
use anyhow::Context as _;
use client::{GatewayDialer, Home};
use forward::GatewayForwarder;
use page_server::{PageServer, listen};
use tokens::PageTokens;

/// Serves the page for an agent of this home.
pub(super) async fn serve(
    args: &AgentArgs,
    show: &Show,
    home: &Home,
    dialer: GatewayDialer,
    port: u16,
) -> anyhow::Result<()> {
    let listener = listen(port).await.with_context(|| format!("the page cannot be served on port {port}"))?;
    let port = listener.local_addr()?.port();
    let issuer = issuer_of(&dialer).await.map_err(|error| args.explained(home, error))?;
    let dialer = dialer.of_issuer(&issuer);
    let agent = tokens::register_agent(args, home, &dialer, &issuer).await?;
    show.line(&format!("The page speaks for {}.", agent.aid))?;
    let tokens = PageTokens::new(dialer.clone(), agent);
    let token = tokens.give().await?;
    show.line("")?;
    show.line(&format!("  http://127.0.0.1:{port}/#token={token}"))?;
    show.line("")?;
    show.line("Open this address in a browser on this machine. Its token lets a person act as the agent: keep it to yourself.")?;
    show.line("Ctrl-C stops the page.")?;
    PageServer { port, forwarder: GatewayForwarder::new(dialer), tokens }.serve(listener).await;
    Ok(())
}
