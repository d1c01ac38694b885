//! The cursor of a list of sessions: the last one of the page before, and when it was changed.

use crate::error::Error;
use crate::store::RunSessionView;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub(crate) fn cursor_of(session: &RunSessionView) -> String {
    URL_SAFE_NO_PAD.encode(format!("{} {}", session.updated_at, session.id))
}

pub(crate) fn read_cursor(cursor: Option<&str>) -> Result<Option<(i64, String)>, Error> {
    let Some(cursor) = cursor else { return Ok(None) };
    let text = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let parts = text.as_deref().and_then(|text| text.split_once(' '));
    let plain = |id: &&str| {
        id.starts_with("sess_") && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let read = parts.and_then(|(at, id)| Some((at.parse().ok()?, Some(id).filter(plain)?.to_owned())));
    match read {
        Some(after) => Ok(Some(after)),
        None => Err(Error::Invalid("cursor must be the nextCursor of a page".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_text_is_no_cursor() {
        assert_eq!(read_cursor(None).unwrap(), None);
        let good = URL_SAFE_NO_PAD.encode("17 sess_1a");
        assert_eq!(read_cursor(Some(&good)).unwrap(), Some((17, "sess_1a".to_owned())));
        for bad in ["", "!", "YQ", &URL_SAFE_NO_PAD.encode("x sess_1"), &URL_SAFE_NO_PAD.encode("1 ' OR 1=1")]
        {
            assert!(read_cursor(Some(bad)).is_err(), "{bad}");
        }
    }
}
