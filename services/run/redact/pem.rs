//! PEM blocks: base64 between two marks. Code and prose that name the marks have no base64 between them.

use super::words::{count_read, escaped_run, is_words, run};

pub(super) const BEGIN: &str = "-----BEGIN ";
const END: &str = "END ";
const DASHES: &str = "-----";
/// How much base64 is a secret where the end is missing.
const SHORTEST: usize = 16;
/// What stands beside other text in its line and has this length is a whole line of base64, where lines were joined with spaces.
const WHOLE_LINE: usize = 40;
/// The longest label, name of a header, and text before each line.
const LONGEST_NAME: usize = 64;

/// Where a block ends, whose label begins at this byte. Where its end is missing it is as long as its base64; `None`: it has none.
pub(super) fn block_end(text: &str, at: usize) -> Option<usize> {
    let content = at + label(&text[at..])?;
    let dashes = text[content..].find(DASHES).map_or(text.len(), |found| content + found);
    count_read(dashes - content);
    let mut content_reader = PemContent {
        text: &text[content..dashes],
        line_mark: line_mark(&text[..at - BEGIN.len()]),
        ..PemContent::default()
    };
    content_reader.read();
    let PemContent { end, length, whole, lines, random, .. } = content_reader;
    let key = random && (length >= SHORTEST || (whole && dashes == text.len()));
    match end_mark(&text[dashes..]) {
        // After the beginning of a key, what does not look like the rest of it may be a part that somebody left out.
        Some(mark) if key || (whole && length > 0 && (lines || random)) => Some(dashes + mark),
        _ => key.then_some(content + end),
    }
}

/// The length of the rest of a line of PEM: `RSA PRIVATE KEY-----`.
fn label(rest: &str) -> Option<usize> {
    let name = label_name(rest);
    rest[name..].starts_with(DASHES).then_some(name + DASHES.len())
}

fn label_name(rest: &str) -> usize {
    let near = &rest.as_bytes()[..rest.len().min(LONGEST_NAME)];
    run(near, |b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' ')
}

/// The length of `-----END PRIVATE KEY-----`, which a diff may have with another dash before it, and which may be cut.
fn end_mark(text: &str) -> Option<usize> {
    let dashes = run(text.as_bytes(), |b| b == b'-');
    let rest = text[dashes..].strip_prefix(END)?;
    let name = label_name(rest);
    let closing = run(&rest.as_bytes()[name..], |b| b == b'-');
    Some(dashes + END.len() + name + closing.min(DASHES.len()))
}

/// What stands before the beginning in its line, and so before each line: the `+` of a diff, a number, the `>` of a quotation. Nothing,
/// where it is code.
fn line_mark(before: &str) -> &[u8] {
    let bytes = before.as_bytes();
    let near = &bytes[bytes.len().saturating_sub(LONGEST_NAME)..];
    let line = match near.iter().rposition(|b| *b == b'\n') {
        Some(end) => &near[end + 1..],
        None => near,
    };
    let line = match line.windows(2).rposition(|pair| pair == b"\\n") {
        Some(end) => &line[end + 2..],
        None => line,
    };
    match line.len() == LONGEST_NAME || line.iter().any(|b| is_quote(*b) || *b == b'\\') {
        true => &[],
        false => line,
    }
}

fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`')
}

/// Differs from line to line in what stands before each: numbers, times, and the marks of diffs.
fn varies(b: u8) -> bool {
    b.is_ascii_digit() || b" \t:+-".contains(&b)
}

/// What stands between two runs of base64.
struct PemSeparator {
    length: usize,
    /// Whether it ends a line of the block: as a line of the text, or as a string of code that joins lines.
    line: bool,
    newline: bool,
}

/// Reads what stands after a beginning: base64 in lines, and the header lines before it.
#[derive(Default)]
struct PemContent<'a> {
    text: &'a str,
    line_mark: &'a [u8],
    at: usize,
    /// Whether a string of code has ended, and the next one has not begun.
    in_code: bool,
    /// After the last base64.
    end: usize,
    /// How much base64 there is.
    length: usize,
    /// Whether nothing else was found.
    whole: bool,
    /// Whether some of it stands in a line of its own.
    lines: bool,
    /// Whether some of it is no word.
    random: bool,
}

impl PemContent<'_> {
    fn read(&mut self) {
        let mut before = self.separator();
        before.line = true;
        let mut whole_line = false;
        loop {
            self.whole = self.at == self.text.len();
            if self.whole || self.in_code {
                return;
            }
            if before.newline && self.header() {
                before = self.separator();
                continue;
            }
            let begin = self.at;
            let is_base64 = |b: u8| b.is_ascii_alphanumeric() || b"+/=".contains(&b);
            let length = escaped_run(&self.text.as_bytes()[begin..], is_base64);
            self.at += length;
            let after = self.separator();
            let shortest = match after.length {
                _ if after.line || self.at == self.text.len() => 1,
                0 => SHORTEST,
                _ => WHOLE_LINE,
            };
            if length < shortest || !(before.line || whole_line) {
                return;
            }
            self.end = begin + length;
            self.length += length;
            self.lines |= before.newline;
            self.random |= !is_words(&self.text[begin..self.end], 4);
            if after.length == 0 && self.at < self.text.len() {
                return;
            }
            whole_line = length >= WHOLE_LINE;
            before = after;
        }
    }

    /// `Proc-Type: 4,ENCRYPTED`
    fn header(&mut self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let name = run(&rest[..rest.len().min(LONGEST_NAME)], |b| b.is_ascii_alphabetic() || b == b'-');
        let is_header = name > 0 && rest[name..].starts_with(b": ");
        if is_header {
            self.at += run(rest, |b| !matches!(b, b'\n' | b'\r' | b'\\' | b'"'));
        }
        is_header
    }

    /// Spaces, ends of lines as they are and as code and JSON write them, and what code has between strings that it joins.
    fn separator(&mut self) -> PemSeparator {
        let bytes = self.text.as_bytes();
        let (begin, mut quoted, mut newline) = (self.at, false, false);
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' => self.at += 1,
                b'\n' | b'\r' => {
                    newline = true;
                    self.at += 1;
                    self.at += marked(&bytes[self.at..], self.line_mark);
                }
                b'+' | b',' | b'.' if self.in_code => self.at += 1,
                b'\\' => {
                    let slashes = run(&bytes[self.at..], |b| b == b'\\');
                    match bytes.get(self.at + slashes) {
                        Some(b'n' | b'r') => {
                            newline = true;
                            self.at += slashes + 1;
                            self.at += marked(&bytes[self.at..], self.line_mark);
                        }
                        Some(b't') => self.at += slashes + 1,
                        // A quote in JSON, or a line that code continues.
                        Some(b) if is_quote(*b) || b.is_ascii_whitespace() => self.at += slashes,
                        _ => break,
                    }
                }
                b if is_quote(*b) => {
                    self.in_code = !self.in_code;
                    quoted = true;
                    self.at += 1;
                }
                _ => break,
            }
        }
        PemSeparator { length: self.at - begin, line: quoted || newline, newline }
    }
}

/// How much of a line stands before its base64, if that is what stands before every line.
fn marked(line: &[u8], line_mark: &[u8]) -> usize {
    let (mut at, mut of) = (0, 0);
    while let Some(byte) = line_mark.get(of) {
        if varies(*byte) {
            of += run(&line_mark[of..], varies);
            at += run(&line[at..], varies);
        } else if line.get(at) == Some(byte) {
            (at, of) = (at + 1, of + 1);
        } else {
            return 0;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::redact_text;
    use super::super::text::REDACTED;

    const LINES: [&str; 3] = [
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
        "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu",
        "NMoSfm76oqFvAp8Gy0iz5sxjZmSnXyCdPEovGhLa0VzMaQ8s+CLOyS56YyCFGeJZ",
    ];

    fn block(separator: &str) -> String {
        let lines = LINES.join(separator);
        format!("-----BEGIN PRIVATE KEY-----{separator}{lines}{separator}-----END PRIVATE KEY-----")
    }

    #[test]
    fn blocks_are_redacted_however_their_lines_are_joined() {
        for separator in [
            "\n",
            "\r\n",
            "\n    ",
            " ",
            "",
            "\\n",
            "\\r\\n",
            "\\\\n",
            "\\n\" +\n  \"",
            "\",\n\"",
            "\\n' . '",
            "\\n\\\n",
        ] {
            assert_eq!(redact_text(&format!("a {} b", block(separator))), "a [redacted] b", "{separator:?}");
        }
        for mark in [
            "+",
            "-",
            "> ",
            "# ",
            "  // ",
            "    12\t",
            "     7→",
            "2026-01-01T00:00:09Z out F ",
            "key.pem:3:",
        ] {
            let text = format!("\n{mark}{}\nend", block(&format!("\n{mark}")));
            assert_eq!(redact_text(&text), format!("\n{mark}[redacted]\nend"), "{mark:?}");
        }
        let numbered =
            format!("1\t-----BEGIN A KEY-----\n2\t{}\n10\t{}\n11\t-----END A KEY-----\n", LINES[0], LINES[1]);
        assert_eq!(redact_text(&numbered), "1\t[redacted]\n");
        let written = block("\n").replace('/', "\\/");
        assert_eq!(redact_text(&format!("\"{written}\"")), "\"[redacted]\"");
        let headers =
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n";
        assert_eq!(redact_text(&format!("{headers}{}\n-----END RSA PRIVATE KEY-----", LINES[0])), REDACTED);
    }

    #[test]
    fn blocks_without_an_end_are_redacted_as_far_as_they_go() {
        let begin = "-----BEGIN EC PRIVATE KEY-----";
        for rest in [
            format!("\n{}\n{}", LINES[0], LINES[1]),
            format!("\n{}\n{}", LINES[0], &LINES[1][..3]),
            format!("\n{}", &LINES[0][..7]),
            format!("\\n{}", LINES[0]),
            format!("\n{}\n-----END EC PRI", LINES[0]),
        ] {
            let redacted = redact_text(&format!("a {begin}{rest}")).into_owned();
            assert_eq!(redacted, "a [redacted]", "{rest:?}");
        }
        let table = [
            (format!("{begin}\n{}\n{}...\n(2 more)", LINES[0], &LINES[1][..20]), "[redacted]...\n(2 more)"),
            (format!("key = \"{begin}\\n{}\"\nnext = 1", LINES[0]), "key = \"[redacted]\"\nnext = 1"),
            (
                format!("{begin}\n{}\n[…]\n{}\n-----END EC PRIVATE KEY-----.", LINES[0], LINES[1]),
                "[redacted].",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(redact_text(&text), expected);
        }
    }

    #[test]
    fn code_and_prose_about_blocks_are_not_changed() {
        for text in [
            r#"s.replace("-----BEGIN PUBLIC KEY-----", "").replace("-----END PUBLIC KEY-----", "")"#,
            "PEM goes from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----, in base64",
            "`-----BEGIN RSA PRIVATE KEY-----` and `-----END RSA PRIVATE KEY-----`",
            "-----BEGIN PRIVATE KEY----- and then 2048 bits of sha256 data x3k9 -----END PRIVATE KEY-----",
            "BEGIN = \"-----BEGIN PUBLIC KEY-----\"\nEND = \"-----END PUBLIC KEY-----\"",
            "const B: &str = \"-----BEGIN KEY-----\";\nconst E: &str = \"-----END KEY-----\";",
            "\"-----BEGIN PUBLIC KEY-----\\n\" + base64Key2048Bits + \"\\n-----END PUBLIC KEY-----\"",
            "`-----BEGIN PUBLIC KEY-----\\n${key}\\n-----END PUBLIC KEY-----`",
            "f\"-----BEGIN PUBLIC KEY-----\\n{key}\\n-----END PUBLIC KEY-----\"",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\n<your key>\n-----END PRIVATE KEY-----",
            "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nHello, world.\n",
            "if text.startswith('-----BEGIN CERTIFICATE-----'):\n    return parse(text)",
            "-----BEGIN A-----\n-----END A-----",
        ] {
            assert_eq!(redact_text(text), text);
        }
    }
}
