//! Folders and the paths below them. Paths are compared as text: they may belong to another
//! machine.

/// Whether a path is a folder or lies below it. `/a/bc` does not lie below `/a/b`.
#[must_use]
pub fn is_at_or_below(path: &str, folder: &str) -> bool {
    let (first, end) = paths_below(folder);
    path == folder || (path >= first.as_str() && path < end.as_str())
}

/// The range of the paths below a folder, in the order of their bytes: the first one, and the end,
/// which is not below the folder anymore. A store can search it with an index.
#[must_use]
pub fn paths_below(folder: &str) -> (String, String) {
    let separator = if folder.contains('\\') && !folder.contains('/') { '\\' } else { '/' };
    let folder = folder.trim_end_matches(separator);
    // The character that follows the separator bounds every path that begins with it.
    let next = char::from(separator as u8 + 1);
    (format!("{folder}{separator}"), format!("{folder}{next}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sibling_is_not_below() {
        for (path, folder, expected) in [
            ("/a/b", "/a/b", true),
            ("/a/b/c", "/a/b", true),
            ("/a/bc", "/a/b", false),
            ("/a", "/a/b", false),
            ("/a", "/", true),
            ("C:\\work\\x", "C:\\work", true),
            ("C:\\workshop", "C:\\work", false),
        ] {
            assert_eq!(is_at_or_below(path, folder), expected, "{path} {folder}");
        }
    }
}
