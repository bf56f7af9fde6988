//! Normalizes working directories, so that each directory has one spelling.

use std::path::{Component, Path, PathBuf};

/// The directory as an absolute path with symbolic links resolved. A path that does not exist on
/// this machine, as in an imported conversation, is only cleaned of `.`, `..` and repeated
/// slashes.
#[must_use]
pub fn normalize_cwd(folder: &str) -> String {
    let path = Path::new(folder);
    if let Ok(resolved) = path.canonicalize() {
        return resolved.to_string_lossy().into_owned();
    }
    let absolute = if path.is_absolute() || is_windows_path(folder) {
        path.to_path_buf()
    } else {
        std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
    };
    let mut clean = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean.to_string_lossy().into_owned()
}

/// `C:\…`: an absolute path of a Windows machine, not a relative path here.
fn is_windows_path(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.len() > 2
        && bytes[0].is_ascii_alphabetic()
        && bytes[1] == b':'
        && matches!(bytes[2], b'\\' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_per_folder() {
        let check = |path: &str, expected: &str| assert_eq!(normalize_cwd(path), expected);
        check("/no/such//folder/./x/../y/", "/no/such/folder/y");
        check("/no/../../such", "/such");
        check("C:\\Users\\ana", "C:\\Users\\ana");
        assert!(Path::new(&normalize_cwd("no-such-relative")).is_absolute());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_resolved() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(normalize_cwd(link.to_str().unwrap()), real.to_str().unwrap());
    }
}
