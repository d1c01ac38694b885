//! What a program prints, in parts that are limited.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How much is read at once.
const CHUNK: usize = 32 << 10;

/// A line, as it came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JsonlRecord {
    Whole(Vec<u8>),
    /// More bytes than a line may have. What follows is not read.
    TooLong,
    /// The last bytes of the program, without a line feed.
    CutOff,
    End,
}

/// Reads lines. A future of it may be dropped: what was read stays here.
pub(super) struct JsonlReader<R> {
    from: R,
    /// What a line may have, without its line feed.
    longest: usize,
    unread: Vec<u8>,
    /// So much of `unread` has no line feed.
    searched: usize,
    is_over: bool,
}

impl<R: AsyncRead + Unpin> JsonlReader<R> {
    pub fn new(from: R, longest: usize) -> JsonlReader<R> {
        JsonlReader { from, longest, unread: Vec::new(), searched: 0, is_over: false }
    }

    pub async fn next(&mut self) -> io::Result<JsonlRecord> {
        loop {
            if self.is_over {
                return Ok(JsonlRecord::End);
            }
            if let Some(at) = self.unread[self.searched..].iter().position(|byte| *byte == b'\n') {
                let end = self.searched + at;
                let rest = self.unread.split_off(end + 1);
                let mut record = std::mem::replace(&mut self.unread, rest);
                record.truncate(end);
                self.searched = 0;
                return Ok(if record.len() > self.longest {
                    self.too_long()
                } else {
                    JsonlRecord::Whole(record)
                });
            }
            self.searched = self.unread.len();
            if self.unread.len() > self.longest {
                return Ok(self.too_long());
            }
            self.unread.reserve(CHUNK);
            if self.from.read_buf(&mut self.unread).await? == 0 {
                self.is_over = true;
                let is_cut = !self.unread.is_empty();
                self.unread = Vec::new();
                return Ok(if is_cut { JsonlRecord::CutOff } else { JsonlRecord::End });
            }
        }
    }

    fn too_long(&mut self) -> JsonlRecord {
        (self.is_over, self.unread) = (true, Vec::new());
        JsonlRecord::TooLong
    }
}

/// Reads text in chunks; nothing when it has ended. Bytes that are no text are replaced; a character that is cut by a chunk is not.
pub(super) struct TextReader<R> {
    from: R,
    unread: Vec<u8>,
    is_over: bool,
}

impl<R: AsyncRead + Unpin> TextReader<R> {
    pub fn new(from: R) -> TextReader<R> {
        TextReader { from, unread: Vec::new(), is_over: false }
    }

    pub async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            if self.is_over {
                return Ok(None);
            }
            self.unread.reserve(CHUNK);
            self.is_over = self.from.read_buf(&mut self.unread).await? == 0;
            let text = self.take_text();
            if !text.is_empty() {
                return Ok(Some(text));
            }
        }
    }

    fn take_text(&mut self) -> String {
        let whole = match std::str::from_utf8(&self.unread) {
            // The beginning of a character, whose rest comes.
            Err(error) if error.error_len().is_none() && !self.is_over => error.valid_up_to(),
            _ => self.unread.len(),
        };
        let rest = self.unread.split_off(whole);
        String::from_utf8_lossy(&std::mem::replace(&mut self.unread, rest)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: usize = 1 << 20;

    async fn records(bytes: &[u8]) -> Vec<JsonlRecord> {
        let mut reader = JsonlReader::new(bytes, LONGEST);
        let mut records = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                JsonlRecord::End => return records,
                record => records.push(record),
            }
        }
    }

    fn whole(text: &str) -> JsonlRecord {
        JsonlRecord::Whole(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_are_read_one_by_one() {
        assert_eq!(records(b"").await, []);
        assert_eq!(records(b"a\n\nb\n").await, [whole("a"), whole(""), whole("b")]);
        assert_eq!(records(b"a\nb").await, [whole("a"), JsonlRecord::CutOff]);
        let long = "x".repeat(LONGEST);
        assert_eq!(
            records(format!("{long}\n{long}x\na\n").as_bytes()).await,
            [whole(&long), JsonlRecord::TooLong]
        );
    }

    #[tokio::test]
    async fn of_a_line_without_end_no_more_is_held_than_a_line_may_have() {
        let mut reader = JsonlReader::new(tokio::io::repeat(b'x'), LONGEST);
        assert_eq!(reader.next().await.unwrap(), JsonlRecord::TooLong);
        assert_eq!(reader.next().await.unwrap(), JsonlRecord::End);
        assert_eq!(reader.unread.capacity(), 0);
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_were_written() {
        let (mut writer, reader) = tokio::io::duplex(3);
        let writing = async {
            tokio::io::AsyncWriteExt::write_all(&mut writer, b"{\"a\":1}\n{\"b\":2}\n").await.unwrap();
            drop(writer);
        };
        let mut reader = JsonlReader::new(reader, LONGEST);
        let reading = async {
            let mut found = Vec::new();
            while let JsonlRecord::Whole(record) = reader.next().await.unwrap() {
                found.push(String::from_utf8(record).unwrap());
            }
            found
        };
        assert_eq!(tokio::join!(writing, reading).1, ["{\"a\":1}", "{\"b\":2}"]);
    }

    #[tokio::test]
    async fn text_is_read_with_whole_characters() {
        let (mut writer, reader) = tokio::io::duplex(1);
        let writing = async {
            tokio::io::AsyncWriteExt::write_all(&mut writer, b"a\xc3\xa4\xffb\xc3").await.unwrap();
            drop(writer);
        };
        let mut reader = TextReader::new(reader);
        let reading = async {
            let mut text = String::new();
            while let Some(chunk) = reader.next().await.unwrap() {
                text.push_str(&chunk);
            }
            text
        };
        assert_eq!(tokio::join!(writing, reading).1, "aä\u{fffd}b\u{fffd}");
    }
}
