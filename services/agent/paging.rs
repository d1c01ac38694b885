//! Pages of lists: each begins behind the last id of the one before.

use super::Error;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const USUAL_LIMIT: i64 = 20;
const MOST: i64 = 100;

/// How many entries a page has: what was asked for, within bounds.
pub(super) fn page_limit(limit: Option<i64>) -> Result<i64, Error> {
    match limit.unwrap_or(USUAL_LIMIT) {
        ..1 => Err(Error::Bad("limit must be at least 1")),
        limit => Ok(limit.min(MOST)),
    }
}

/// The id that a cursor stands for; `first` where the list begins.
pub(super) fn read_cursor(cursor: Option<&str>, first: &str) -> Result<String, Error> {
    let Some(cursor) = cursor else { return Ok(first.to_owned()) };
    let id = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let plain =
        |id: &String| id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    id.filter(plain).ok_or(Error::Bad("cursor must be the next_cursor of a page"))
}

/// Cuts what was read, one more than a page has, to the page. Gives the cursor of the next one, if there is one.
pub(super) fn cut_page<T>(rows: &mut Vec<T>, limit: i64, id: impl Fn(&T) -> &str) -> Option<String> {
    let limit = usize::try_from(limit).unwrap_or_default();
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    rows.last().filter(|_| has_more).map(|last| URL_SAFE_NO_PAD.encode(id(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0190163d-868b-7ce2-a5f1-c1b6d0b3a7e4";

    #[test]
    fn a_cursor_leads_to_the_id_it_was_made_from() {
        let mut rows = vec![ID, ID, "0190163d-868b-7ce2-a5f1-c1b6d0b3a7e5"];
        let cursor = cut_page(&mut rows, 2, |row| *row).unwrap();
        assert_eq!((rows.len(), read_cursor(Some(&cursor), "").unwrap()), (2, ID.to_owned()));
        assert_eq!(cut_page(&mut rows, 2, |row| *row), None);
        assert_eq!(read_cursor(None, "first").unwrap(), "first");
        for bad in ["", "!", "YQ", &URL_SAFE_NO_PAD.encode("' OR 1=1 -- 1234567890123456789012345")] {
            assert!(read_cursor(Some(bad), "").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_page_has_between_one_and_a_hundred_entries() {
        assert_eq!((page_limit(None).unwrap(), page_limit(Some(1000)).unwrap()), (20, 100));
        assert!(page_limit(Some(0)).is_err() && page_limit(Some(-1)).is_err());
    }
}
