//! An agent of the Agent Union Network in Rust: a key and a certificate in a folder, a session that comes back by itself, calls,
//! events, and each message once.
//!
//! ```no_run
//! # async fn example() -> Result<(), client::Error> {
//! use client::Client;
//!
//! let alice = Client::builder("alice.agents.localhost").gateway("127.0.0.1:20001").home("agents");
//! alice.register().await?;
//! let alice = alice.connect().await?;
//! let mut messages = alice.messages();
//! loop {
//!     let message = messages.next().await?;
//!     alice.send_text(message.from(), "I have read that").await?;
//! }
//! # }
//! ```
//!
//! - [`ClientBuilder`] registers an agent and connects it; [`Client`] is the session: [`Client::call`] by name,
//!   [`Client::request`] by type, [`Client::messages`], [`Client::events`].
//! - [`Home`], [`LocalAgent`], [`GatewayUrl`], [`GatewayDialer`] and [`TrustedRoot`] are what it is made of, for programs that keep
//!   their agents in another way, such as the commands of `aund`: [`register()`], and [`connect()`] for a few calls without events.
//! - [`Client::publish_agent_md`] signs and publishes what the agent says about itself, by which others find it.
//! - [`tools`] decides what an agent may do on this device: the manifest, what its user granted, and what the user is asked.
//! - [`OthersText`] prints what others wrote without anything that a terminal obeys.
//! - [`auth`] has the calls that lead to a session, one by one, and stores nothing.
//!
//! It sends what the public SDKs send, so whoever uses it sees the server as any agent does. End-to-end encryption is not here
//! yet: encrypted messages are skipped and acknowledged with the others, and what is sent can be read by the server.

mod agent_md;
pub mod auth;
pub mod backoff;
mod builder;
mod chance;
mod client;
mod connection;
mod error;
mod events;
mod files;
mod home;
mod login;
mod messages;
mod others_text;
pub mod tools;

pub use agent_md::{PublishCondition, PublishedAgentMd, publish_agent_md, sign_agent_md, unpublish_agent_md};
pub use auth::{SessionKind, SessionOptions};
pub use builder::ClientBuilder;
pub use client::Client;
pub use connection::ClientConnection;
pub use connection::dial::GatewayDialer;
pub use connection::first_use::find_root;
pub use connection::gateway_url::GatewayUrl;
pub use connection::transport::{ByteStream, FrameDirection, FrameObserver};
pub use connection::trust::TrustedRoot;
pub use error::Error;
pub use events::ReceivedEvent;
pub use events::event_stream::{EventNotice, EventStream};
pub use home::{Home, LocalAgent, StoredTokens};
pub use login::over_http::call_over_http;
pub use login::{connect, register, renew_tokens, revoke};
pub use messages::Messages;
pub use messages::incoming::{Incoming, IncomingMessage};
pub use others_text::OthersText;
pub use proto_schemas::Aid;
