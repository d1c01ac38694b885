//! Texts as the index sees them: the terms of a text, the units of a question, and the normalised form of a name.
//!
//! A text is cut into runs. Words between spaces are terms as they are written and as their stems. Chinese has no spaces: the words of a
//! dictionary are terms, and so is every pair of adjacent characters and every character, because a dictionary does not have every word and cuts
//! some texts differently from some questions. Japanese and Korean have pairs and characters only.

mod function_words;
mod runs;
mod segmenter;
mod spelling;
mod synonyms;
mod terms;
mod traditional;
mod units;

pub use runs::normalised;
pub(super) use spelling::{BEGUN, BY_SPELLING, EDITED, MOST_MISSPELT, MOST_SPELLINGS, spellings};
pub use terms::terms;
pub(super) use terms::{STEM, WORD, is_term_of, term};
pub use units::{Form, FoundBy, MOST_UNITS, Unit, units};
