//! JSON Pointers (RFC 6901): every path of this crate is one.

use std::borrow::Cow;

/// The pointer to a member or an item of what another pointer leads to.
pub(crate) fn join(path: &str, segment: &str) -> String {
    if segment.contains(['~', '/']) {
        return format!("{path}/{}", segment.replace('~', "~0").replace('/', "~1"));
    }
    format!("{path}/{segment}")
}

/// The names and positions that a pointer consists of.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = Cow<'_, str>> {
    path.split('/').skip(1).map(|segment| {
        if segment.contains('~') {
            Cow::Owned(segment.replace("~1", "/").replace("~0", "~"))
        } else {
            Cow::Borrowed(segment)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_is_found_again() {
        let path = join(&join(&join("", "a/b"), "~1"), "");
        assert_eq!(path, "/a~1b/~01/");
        assert_eq!(segments(&path).collect::<Vec<_>>(), ["a/b", "~1", ""]);
        assert_eq!(segments("").count(), 0, "the whole document");
    }
}
