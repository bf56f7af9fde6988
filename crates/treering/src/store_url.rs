//! The choice of the store: a folder, or a server that an address names. A build has the servers
//! of its Cargo features.

use std::fmt;
#[cfg(any(feature = "neo4j", feature = "postgres"))]
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use treering_core::{Invalid, Store};
use treering_stores::{EmbeddedStore, Sync};

use crate::Result;

/// The environment variables with the user and the password of a server.
pub(crate) const USER_VARIABLE: &str = "TREERING_STORE_USER";
/// The password.
pub(crate) const PASSWORD_VARIABLE: &str = "TREERING_STORE_PASSWORD";

/// The place of the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreOptions {
    /// The address of a server, such as `neo4j://127.0.0.1:7687`. If empty, the store is in the
    /// home folder.
    pub url: StoreUrl,
    /// The file with the user and the password of the server, as `USER:PASSWORD`. Without it, they
    /// come from the environment.
    pub credentials: Option<PathBuf>,
}

/// The address of a store. It never contains a password.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreUrl(String);

/// The servers that a store can be on, by the schemes of their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerKind {
    Neo4j,
    Postgres,
}

impl ServerKind {
    const SCHEMES: [(&str, Self); 8] = [
        ("neo4j", Self::Neo4j),
        ("neo4j+s", Self::Neo4j),
        ("neo4j+ssc", Self::Neo4j),
        ("bolt", Self::Neo4j),
        ("bolt+s", Self::Neo4j),
        ("bolt+ssc", Self::Neo4j),
        ("postgres", Self::Postgres),
        ("postgresql", Self::Postgres),
    ];
}

impl StoreUrl {
    /// Checks an address: empty, the path of a folder, or the address of a server.
    pub fn new(text: impl Into<String>) -> std::result::Result<Self, Invalid> {
        let text: String = text.into();
        if let Some((scheme, rest)) = text.split_once("://") {
            let subject = format!("store address {scheme}://…");
            if rest.split('/').next().is_some_and(|server| server.contains('@')) {
                let reason = format!(
                    "it has a user or password; set {USER_VARIABLE} and {PASSWORD_VARIABLE} \
                     instead, or name a file with `store.credentials`"
                );
                return Err(Invalid::new(subject, reason));
            }
            if ServerKind::SCHEMES.iter().all(|(known, _)| *known != scheme) {
                let known = ServerKind::SCHEMES.map(|(known, _)| known).join(", ");
                return Err(Invalid::new(subject, format!("the scheme is one of {known}")));
            }
        }
        Ok(Self(text))
    }

    /// Whether it names a server.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.server().is_some()
    }

    fn server(&self) -> Option<ServerKind> {
        let (scheme, _) = self.0.split_once("://")?;
        ServerKind::SCHEMES.iter().find(|(known, _)| *known == scheme).map(|(_, kind)| *kind)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Opens a store. Without an address it is in the home folder.
pub fn open_store(home: &Path, sync: Sync, options: &StoreOptions) -> Result<Arc<dyn Store>> {
    let url = &options.url;
    match url.server() {
        None if url.0.is_empty() => Ok(Arc::new(EmbeddedStore::open(home, sync)?)),
        None => Ok(Arc::new(EmbeddedStore::open(&home.join(&url.0), sync)?)),
        #[cfg(feature = "neo4j")]
        Some(ServerKind::Neo4j) => {
            let (user, password) = credentials(home, options)?;
            let credentials = treering_stores::Neo4jCredentials { user, password };
            Ok(Arc::new(treering_stores::Neo4jStore::open(url.0.parse()?, credentials)?))
        }
        #[cfg(not(feature = "neo4j"))]
        Some(ServerKind::Neo4j) => Err(without_feature(url, "neo4j").into()),
        #[cfg(feature = "postgres")]
        Some(ServerKind::Postgres) => {
            let (user, password) = match &options.credentials {
                Some(_) => credentials(home, options).map(|(user, it)| (Some(user), Some(it)))?,
                None => (variable(USER_VARIABLE), variable(PASSWORD_VARIABLE)),
            };
            let url = url.0.clone();
            let options = treering_stores::PostgresOptions { url, user, password };
            Ok(Arc::new(treering_stores::PostgresStore::open(&options)?))
        }
        #[cfg(not(feature = "postgres"))]
        Some(ServerKind::Postgres) => Err(without_feature(url, "postgres").into()),
    }
}

#[cfg(not(all(feature = "neo4j", feature = "postgres")))]
fn without_feature(url: &StoreUrl, feature: &str) -> Invalid {
    Invalid::new(
        format!("store address {url}"),
        format!("this program was built without it; build it with --features {feature}"),
    )
}

/// The value of an environment variable that is not empty.
#[cfg(any(feature = "neo4j", feature = "postgres"))]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The user and the password, from the file or from the environment.
#[cfg(any(feature = "neo4j", feature = "postgres"))]
fn credentials(home: &Path, options: &StoreOptions) -> Result<(String, String)> {
    let Some(file) = &options.credentials else {
        return match (variable(USER_VARIABLE), variable(PASSWORD_VARIABLE)) {
            (Some(user), Some(password)) => Ok((user, password)),
            _ => {
                let reason = format!(
                    "it needs a user and a password; set {USER_VARIABLE} and \
                     {PASSWORD_VARIABLE}, or name a file with `store.credentials`"
                );
                Err(Invalid::new(format!("store {}", options.url), reason).into())
            }
        };
    };
    let path = home.join(file);
    let invalid = |reason: String| Invalid::new(format!("file {}", path.display()), reason);
    let text = fs::read_to_string(&path).map_err(|error| invalid(error.to_string()))?;
    check_private(&path).map_err(|reason| invalid(reason.to_owned()))?;
    let (user, password) = text
        .trim_end_matches(['\r', '\n'])
        .split_once(':')
        .ok_or_else(|| invalid("expected one line USER:PASSWORD".to_owned()))?;
    Ok((user.to_owned(), password.to_owned()))
}

/// Refuses a file with a password that other users can read.
#[cfg(all(unix, any(feature = "neo4j", feature = "postgres")))]
fn check_private(path: &Path) -> std::result::Result<(), &'static str> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).map_or(0, |file| file.permissions().mode());
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err("other users can read it; run `chmod 600` on it"),
    }
}

#[cfg(all(not(unix), any(feature = "neo4j", feature = "postgres")))]
fn check_private(_: &Path) -> std::result::Result<(), &'static str> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_never_has_a_password() {
        for text in ["neo4j://neo4j:secret@host", "bolt://:secret@host:7687/db"] {
            let error = StoreUrl::new(text).unwrap_err().to_string();
            assert!(!error.contains("secret") && error.contains(PASSWORD_VARIABLE), "{error}");
        }
        let error = StoreUrl::new("mysql://host/db").unwrap_err().to_string();
        assert!(error.contains("neo4j"), "{error}");
        for text in ["", "/srv/memory", "neo4j://host", "bolt+s://host/db", "postgres://host/db"] {
            let url = StoreUrl::new(text).unwrap();
            assert_eq!(url.is_server(), text.contains("://"));
        }
    }

    #[cfg(all(unix, any(feature = "neo4j", feature = "postgres")))]
    #[test]
    fn credentials_come_from_a_private_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("store.password");
        fs::write(&file, "ana:se:cret\n").unwrap();
        let url = StoreUrl::new("bolt://host").unwrap();
        let options = StoreOptions { url, credentials: Some("store.password".into()) };
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let error = credentials(home.path(), &options).unwrap_err().to_string();
        assert!(error.contains("chmod 600") && !error.contains("cret"), "{error}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let found = credentials(home.path(), &options).unwrap();
        assert_eq!(found, ("ana".to_owned(), "se:cret".to_owned()));
    }
}
