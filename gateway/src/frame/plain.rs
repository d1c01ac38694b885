//! A request as almost every client writes it, read without the full JSON parser.
//!
//! Whatever is unusual is left to the parser, which also has the error sentences: here nothing is ever refused.

use serde_json::value::RawValue;

pub(super) struct PlainRequest<'a> {
    pub id: Option<&'a RawValue>,
    pub method: &'a str,
    pub params: Option<&'a RawValue>,
}

/// `jsonrpc`, `method` and perhaps `id` and `params`, each once and nothing else; names and ids without escapes.
pub(super) fn request(text: &str) -> Option<PlainRequest<'_>> {
    let (mut version, mut id, mut method, mut params) = (None, None, None, None);
    let mut rest = UnreadText(text);
    rest.byte(b'{')?;
    loop {
        let key = rest.string()?;
        rest.byte(b':')?;
        let again = match key {
            "jsonrpc" => version.replace(rest.string()?).is_some(),
            "method" => method.replace(rest.string()?).is_some(),
            "id" => id.replace(rest.id()?).is_some(),
            "params" => params.replace(rest.value()?).is_some(),
            _ => return None,
        };
        if again {
            return None;
        }
        if rest.byte(b',').is_none() {
            break;
        }
    }
    rest.byte(b'}')?;
    let plain = rest.space().is_empty() && version == Some("2.0");
    plain.then_some(PlainRequest { id, method: method?, params })
}

/// What is not read yet.
struct UnreadText<'a>(&'a str);

impl<'a> UnreadText<'a> {
    fn space(&mut self) -> &'a str {
        self.0 = self.0.trim_start_matches([' ', '\n', '\t', '\r']);
        self.0
    }

    /// This byte, after any space.
    fn byte(&mut self, byte: u8) -> Option<()> {
        let rest = self.space().strip_prefix(char::from(byte))?;
        self.0 = rest;
        Some(())
    }

    /// The content of a string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.byte(b'"')?;
        let end = self.0.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let content = self.0.get(..end)?;
        self.0 = self.0.get(end..)?.strip_prefix('"')?;
        Some(content)
    }

    /// A string like that, or an integer that every client can hold.
    fn id(&mut self) -> Option<&'a RawValue> {
        let text = self.space();
        if text.starts_with('"') {
            self.string()?;
        } else {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            self.0 = text.get(digits..).filter(|_| (1..=15).contains(&digits))?;
        }
        let id = text.get(..text.len() - self.0.len())?;
        serde_json::from_str(id).ok()
    }

    fn value(&mut self) -> Option<&'a RawValue> {
        let text = self.space();
        let mut values = serde_json::Deserializer::from_str(text).into_iter();
        let value = values.next()?.ok()?;
        self.0 = text.get(values.byte_offset()..)?;
        Some(value)
    }
}
