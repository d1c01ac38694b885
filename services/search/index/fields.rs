//! The fields of a document in tantivy.

use tantivy::TantivyDocument;
use tantivy::schema::{FAST, Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use super::IndexedDocument;
use super::tokens::tokens;

/// Indexes made with other words are made anew: the name is part of the schema. Change it whenever `tokens` gives other
/// words for a text, or `normalised` another name.
pub(super) const TOKENIZER: &str = "words-1";

/// As they are, without a look at their words.
const RAW: &str = "raw";

#[derive(Clone, Copy, Debug)]
pub(super) struct IndexFields {
    /// Words with their counts: name, tags, skills, description, body.
    pub(super) texts: [Field; 5],
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
                schema.add_text_field("name", words.clone() | STORED),
                schema.add_text_field("tags", words.clone()),
                schema.add_text_field("skills", words.clone()),
                schema.add_text_field("description", words.clone() | STORED),
                schema.add_text_field("body", words),
            ],
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
        let [name, tags, skills, description, body] = self.texts;
        let mut made = TantivyDocument::default();
        made.add_text(name, &document.name);
        made.add_text(skills, &document.skills);
        made.add_text(description, &document.description);
        made.add_text(body, &document.body);
        for tag in &document.tags {
            made.add_text(tags, tag);
            made.add_text(self.tag, tag);
        }
        made.add_text(self.aid, &document.aid);
        made.add_text(self.name_exact, super::tokens::normalised(&document.name));
        made.add_text(self.kind, &document.kind);
        made.add_text(self.issuer, &document.issuer);
        made.add_text(self.source_ap, &document.source_ap);
        made.add_i64(self.updated_at, document.updated_at);
        made.add_bool(self.signed, document.signed);
        made
    }
}

/// Gives tantivy the words of `tokens`.
#[derive(Clone)]
pub(super) struct WordTokenizer;

pub(super) struct WordStream {
    words: std::vec::IntoIter<String>,
    token: Token,
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream {
        WordStream { words: tokens(text).into_iter(), token: Token::default() }
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
