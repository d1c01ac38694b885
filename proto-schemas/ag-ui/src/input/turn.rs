//! The user message of an input: which one it is, its text and its attachments.

use super::InputRules;
use super::refusal::{InputRefused, sentence};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

/// So many messages an input may have.
const MOST_MESSAGES: usize = 200;

/// So many characters all text blocks of a message may have together.
const MOST_TEXT_CHARS: usize = 10_000;

/// So many attachments a message may have.
const MOST_ATTACHMENTS: usize = 3;

/// What a person says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserTurn {
    /// Given by the front end.
    pub message_id: String,
    /// All of its text blocks, each on a line of its own.
    pub text: String,
    /// At most three.
    pub attachments: Vec<InputAttachment>,
}

/// An image that goes with a message.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputAttachment {
    /// As the front end says it. An `image` block may leave it out, and then it is `image/*`: who has the bytes knows better.
    pub mime_type: String,
    /// Where the image is.
    pub url: String,
    /// What it was called on the device.
    pub filename: Option<String>,
}

/// The members of a message that make a turn.
#[derive(Deserialize)]
pub(super) struct MessageMembers {
    id: String,
    role: String,
    #[serde(default)]
    content: Value,
}

/// A content block whose form is right.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ContentBlock {
    Text { text: String },
    Binary(BinaryBlock),
    Image { source: MediaSource },
    Audio { source: MediaSource },
    Video { source: MediaSource },
    Document { source: MediaSource },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BinaryBlock {
    mime_type: Option<String>,
    url: Option<String>,
    data: Option<String>,
    filename: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MediaSource {
    #[serde(rename = "type")]
    kind: String,
    value: Option<String>,
    mime_type: Option<String>,
}

/// The turn of an input; nothing where answers are resumed with and there is no user message.
pub(super) fn read(
    messages: &[MessageMembers],
    rules: InputRules,
    resumes: bool,
) -> Result<Option<UserTurn>, InputRefused> {
    if messages.len() > MOST_MESSAGES {
        return Err(sentence::MESSAGES.into());
    }
    let mut from_users = messages.iter().filter(|message| message.role == "user");
    let Some(message) = from_users.next_back() else {
        return if resumes { Ok(None) } else { Err(sentence::ONE_USER_MESSAGE.into()) };
    };
    // The clients of the lenient rules send history before the turn, so there it is neither alone nor first.
    if rules == InputRules::Strict {
        if from_users.next().is_some() {
            return Err(sentence::ONE_USER_MESSAGE.into());
        }
        if messages.first().is_none_or(|first| first.role != "user") {
            return Err(sentence::USER_FIRST.into());
        }
    }
    read_turn(message).map(Some)
}

/// Each rule is checked for all blocks before the next rule is.
fn read_turn(message: &MessageMembers) -> Result<UserTurn, InputRefused> {
    let (texts, binaries) = blocks(&message.content)?;
    if texts.iter().map(|text| text.chars().count()).sum::<usize>() > MOST_TEXT_CHARS {
        return Err(sentence::TEXT.into());
    }
    if binaries.iter().any(|binary| binary.data.is_some()) {
        return Err(sentence::BINARY_DATA.into());
    }
    if !binaries.iter().all(|binary| binary.mime_type.as_deref().is_some_and(is_image)) {
        return Err(sentence::IMAGE.into());
    }
    if binaries.iter().any(|binary| binary.url.as_deref().is_none_or(str::is_empty)) {
        return Err(sentence::BINARY_URL.into());
    }
    if binaries.len() > MOST_ATTACHMENTS {
        return Err(sentence::ATTACHMENTS.into());
    }
    let attachments = binaries.into_iter().map(|binary| InputAttachment {
        mime_type: binary.mime_type.unwrap_or_default(),
        url: binary.url.unwrap_or_default(),
        filename: binary.filename,
    });
    Ok(UserTurn {
        message_id: message.id.clone(),
        text: texts.join("\n"),
        attachments: attachments.collect(),
    })
}

/// The texts of a content, and everything else in it as the block that the protocol has for it.
fn blocks(content: &Value) -> Result<(Vec<String>, Vec<BinaryBlock>), InputRefused> {
    if let Some(text) = content.as_str() {
        return Ok((vec![text.to_owned()], Vec::new()));
    }
    // The form is right, so the types fit.
    let blocks = Vec::<ContentBlock>::deserialize(content).map_err(|_| sentence::INVALID)?;
    let (mut texts, mut binaries) = (Vec::new(), Vec::new());
    for block in blocks {
        match block {
            ContentBlock::Text { text } => texts.push(text),
            ContentBlock::Binary(binary) => binaries.push(binary),
            ContentBlock::Image { source } => binaries.push(source.into_binary(Some("image/*"))),
            ContentBlock::Audio { source }
            | ContentBlock::Video { source }
            | ContentBlock::Document { source } => {
                binaries.push(BinaryBlock { mime_type: None, ..source.into_binary(None) });
            }
        }
    }
    Ok((texts, binaries))
}

fn is_image(mime_type: &str) -> bool {
    const IMAGE: &str = "image/";
    let (kind, subtype) = mime_type.split_at_checked(IMAGE.len()).unwrap_or_default();
    kind.eq_ignore_ascii_case(IMAGE) && !subtype.is_empty()
}

impl MediaSource {
    fn into_binary(self, default_type: Option<&str>) -> BinaryBlock {
        let (url, data) = match self.kind.as_str() {
            "url" => (self.value, None),
            "data" => (None, Some(self.value.unwrap_or_default())),
            // A file at a provider of models has no URL that anybody else could read.
            _ => (None, None),
        };
        let mime_type = self.mime_type.or_else(|| default_type.map(str::to_owned));
        BinaryBlock { mime_type, url, data, filename: None }
    }
}
