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
//! - [`auth`] has the calls that lead to a session, one by one, and stores nothing.
//!
//! It sends what the public SDKs send, so whoever uses it sees the server as any agent does. End-to-end encryption is not here
//! yet: encrypted messages are skipped and acknowledged with the others, and what is sent can be read by the server.

mod agent_id;
mod agent_md;
pub mod auth;
pub mod backoff;
mod builder;
mod chance;
mod client;
mod connection;
mod dial;
mod error;
mod event_stream;
mod events;
mod files;
mod first_use;
mod gateway_url;
mod home;
mod http;
mod incoming;
mod login;
mod messages;
mod reconnect;
pub mod tools;
mod transport;
mod trust;
mod volatile;

pub use agent_id::AgentId;
pub use agent_md::{PublishCondition, PublishedAgentMd, publish_agent_md, sign_agent_md, unpublish_agent_md};
pub use auth::{SessionKind, SessionOptions};
pub use builder::ClientBuilder;
pub use client::Client;
pub use connection::ClientConnection;
pub use dial::GatewayDialer;
pub use error::Error;
pub use event_stream::{EventNotice, EventStream};
pub use events::ReceivedEvent;
pub use first_use::find_root;
pub use gateway_url::GatewayUrl;
pub use home::{Home, LocalAgent, StoredTokens};
pub use incoming::{Incoming, IncomingMessage};
pub use login::{connect, register};
pub use messages::Messages;
pub use transport::{ByteStream, FrameDirection, FrameObserver};
pub use trust::TrustedRoot;
