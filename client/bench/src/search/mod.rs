//! `aund bench --search`: what a query costs, against the full-text search of SQLite, and how soon an agent is found.
//!
//! The index itself is measured in this process, on one thread, without sockets: the same documents, the same words, the ten best.
//! SQLite ranks by BM25 and ours by a formula of its own; what both have to do is read the postings of the words, score every
//! document that has them, and keep the best. Then a real server is asked.

mod copying;
mod documents;
mod fts5;
mod index;
mod questions;
mod server;
mod vocabulary;

use std::path::Path;
use std::pin::Pin;

use super::Plan;
use super::report::Report;

/// An agent's document.
#[derive(Clone, Debug)]
pub struct BenchDocument {
    pub aid: String,
    /// The whole `agent.md`.
    pub content: String,
    pub signed: bool,
    /// In milliseconds.
    pub updated_at: i64,
}

/// The words of a document, as both sides index them.
#[derive(Clone, Debug)]
pub struct BenchRow {
    pub aid: String,
    pub name: String,
    pub description: String,
    /// The words of name, tags, skills, description and body, with a space between them.
    pub texts: [String; 5],
}

/// An answer: an AID, and the bits of its score.
pub type BenchHit = (String, u64);

/// Makes full-text indexes. The bench knows nothing of the server, so the program that has both hands this in.
pub trait BenchIndexMaker {
    /// An index of these documents, in a folder of its own.
    fn make(&self, folder: &Path, documents: &[BenchDocument]) -> anyhow::Result<Box<dyn BenchIndex>>;

    /// Has a server of this domain, which is not running, have published these documents.
    fn publish<'a>(
        &'a self,
        data: &'a Path,
        issuer: &'a str,
        documents: &'a [BenchDocument],
    ) -> PendingPublish<'a>;
}

/// Documents that are being stored.
pub type PendingPublish<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

/// A full-text index of the server.
pub trait BenchIndex {
    /// The documents again, as words.
    fn rows(&self) -> Vec<BenchRow>;
    /// The words that a question asks for.
    fn words(&self, question: &str) -> Vec<String>;
    /// The best answers, asked at a time in milliseconds.
    fn query(&self, question: &str, now_ms: i64, limit: usize) -> anyhow::Result<Vec<BenchHit>>;
    /// What they are by a look at every document.
    fn brute_force(&self, question: &str, now_ms: i64, limit: usize) -> Vec<BenchHit>;
}

pub(super) async fn measure(
    plan: &Plan,
    maker: &dyn BenchIndexMaker,
    report: &mut Report,
) -> anyhow::Result<()> {
    index::measure(plan, maker, report).await?;
    server::measure(plan, report).await?;
    copying::measure(plan, maker, report).await
}
