//! Pages of lists: each begins behind the last id of the one before.

use super::Error;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::PageLimit;

/// Of agents, relations and deliveries.
pub(super) const PAGE: PageLimit = PageLimit::new(20, 100);

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
}
