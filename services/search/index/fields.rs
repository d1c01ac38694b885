//! The fields of a document in tantivy.

use tantivy::TantivyDocument;
use tantivy::schema::{FAST, Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use super::IndexedDocument;
use super::words::{normalised, terms};

/// The version of the analysis and of its dictionary. It is part of the schema, and an index with another one is rebuilt: change it
/// whenever `terms` gives other terms for a text, or `normalised` another name.
pub(crate) const TOKENIZER: &str = "words-2-jieba-0.11.0";

/// As they are, without a look at their words.
const RAW: &str = "raw";

#[derive(Clone, Copy, Debug)]
pub(super) struct IndexFields {
    /// Terms with their counts, in the order of [`super::TEXTS`].
    pub(super) texts: [Field; 6],
    /// For the answer.
    pub(super) shown_name: Field,
    pub(super) shown_description: Field,
    pub(super) aid: Field,
    /// The normalised name.
    pub(super) name_exact: Field,
    /// Each tag as it is.
    pub(super) tag: Field,
    pub(super) kind: Field,
    pub(super) issuer: Field,
    pub(super) source_ap: Field,
    pub(super) updated_at: Field,
    pub(super) signed: Field,
}

impl IndexFields {
    pub(super) fn new() -> (Schema, IndexFields) {
        let mut schema = Schema::builder();
        let indexing = |tokenizer, option| {
            let indexing = TextFieldIndexing::default().set_tokenizer(tokenizer).set_fieldnorms(false);
            TextOptions::default().set_indexing_options(indexing.set_index_option(option))
        };
        let words = indexing(TOKENIZER, IndexRecordOption::WithFreqs);
        let (terms, column) = (indexing(RAW, IndexRecordOption::Basic), TextOptions::default().set_fast(RAW));
        let fields = IndexFields {
            texts: [
                schema.add_text_field("name", words.clone()),
                schema.add_text_field("tags", words.clone()),
                schema.add_text_field("skills", words.clone()),
                schema.add_text_field("type", words.clone()),
                schema.add_text_field("description", words.clone()),
                schema.add_text_field("body", words),
            ],
            shown_name: schema.add_text_field("shown_name", STORED),
            shown_description: schema.add_text_field("shown_description", STORED),
            aid: schema.add_text_field("aid", terms.clone() | column.clone()),
            name_exact: schema.add_text_field("name_exact", terms.clone() | column.clone()),
            tag: schema.add_text_field("tag", terms | column.clone() | STORED),
            kind: schema.add_text_field("kind", column.clone() | STORED),
            issuer: schema.add_text_field("issuer", column.clone()),
            source_ap: schema.add_text_field("source_ap", column | STORED),
            updated_at: schema.add_i64_field("updated_at", FAST),
            signed: schema.add_bool_field("signed", FAST),
        };
        (schema.build(), fields)
    }

    pub(super) fn document(&self, document: &IndexedDocument) -> TantivyDocument {
        let mut made = TantivyDocument::default();
        for (field, text) in self.texts.into_iter().zip(document.texts()) {
            made.add_text(field, text);
        }
        made.add_text(self.shown_name, &document.name);
        made.add_text(self.shown_description, &document.description);
        for tag in &document.tags {
            made.add_text(self.tag, tag);
        }
        made.add_text(self.aid, &document.aid);
        made.add_text(self.name_exact, normalised(&document.name));
        made.add_text(self.kind, &document.kind);
        made.add_text(self.issuer, &document.issuer);
        made.add_text(self.source_ap, &document.source_ap);
        made.add_i64(self.updated_at, document.updated_at);
        made.add_bool(self.signed, document.signed);
        made
    }
}

/// Gives tantivy the terms of `terms`.
#[derive(Clone)]
pub(super) struct WordTokenizer;

pub(super) struct WordStream {
    words: std::vec::IntoIter<String>,
    token: Token,
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream {
        WordStream { words: terms(text).into_iter(), token: Token::default() }
    }
}

impl TokenStream for WordStream {
    fn advance(&mut self) -> bool {
        let Some(word) = self.words.next() else { return false };
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text = word;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_analysis_has_that_of_the_dictionary() {
        let lock = include_str!("../../../Cargo.lock");
        let (_, after) = lock.split_once("name = \"jieba-rs\"\nversion = \"").unwrap();
        let version = after.split('"').next().unwrap();
        assert!(
            TOKENIZER.ends_with(&format!("jieba-{version}")),
            "{version}: is the dictionary another one?"
        );
    }
}
