//! Access tokens: bearer credentials for clients of the HTTP interface.
//!
//! The tokens live in one file of the home folder that only its owner can read. The file holds
//! hashes, never the tokens themselves.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use treering::private_file;
use treering_core::{Invalid, TenantId, Timestamp};

use crate::service::TokenScopes;

const FILE: &str = "tokens.json";
const LOCK: &str = "tokens.lock";
const VERSION: u32 = 1;
/// The prefix of every token, so that secret scanners can recognize it.
pub const PREFIX: &str = "trg";

/// The reason why tokens could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file could not be read or written.
    #[error("cannot access {path}: {error}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// The file is not a valid token list.
    #[error("{0} is not a valid token file: {1}; move it away and create new tokens")]
    Damaged(PathBuf, String),
    /// No token has this id.
    #[error("no token has the id {0:?}; `treering token list` lists all tokens")]
    Unknown(String),
    /// A value is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The operating system provided no random bytes.
    #[error("cannot get random bytes from the system: {0}")]
    Random(getrandom::Error),
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// The public id, used to list and revoke the token.
    pub id: String,
    /// A note on the purpose of the token.
    pub name: Option<String>,
    /// The tenant that the token gives access to.
    pub tenant: TenantId,
    /// The permissions of the token.
    pub scopes: TokenScopes,
    /// The time of creation.
    pub created_at: String,
    /// The BLAKE3 hash of the whole token, in hex.
    hash: String,
}

#[derive(Serialize, Deserialize)]
struct TokenFile {
    version: u32,
    tokens: Vec<AccessToken>,
}

/// The access tokens of a home folder.
pub struct TokenStore {
    home: PathBuf,
    /// The tokens as last read, with the stamp of the file at that time.
    read: Mutex<Option<(FileStamp, Vec<AccessToken>)>>,
}

/// The modification time and size of the file; `None` if there is no file.
type FileStamp = Option<(SystemTime, u64)>;

impl TokenStore {
    /// Opens the tokens of a home folder. Reads nothing yet.
    #[must_use]
    pub fn of(home: &Path) -> Self {
        Self { home: home.to_path_buf(), read: Mutex::default() }
    }

    /// Creates a token. Returns the secret, which cannot be retrieved again.
    pub fn create(
        &self,
        tenant: TenantId,
        scopes: TokenScopes,
        name: Option<String>,
        now: Timestamp,
    ) -> Result<(String, AccessToken), TokenError> {
        let mut random = [0; 36];
        getrandom::fill(&mut random).map_err(TokenError::Random)?;
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let (id, secret) = digits.split_at(8);
        let secret = format!("{PREFIX}_{id}_{secret}");
        let hash = blake3::hash(secret.as_bytes()).to_hex().to_string();
        let token = AccessToken {
            id: id.to_owned(),
            name,
            tenant,
            scopes,
            created_at: now.to_string(),
            hash,
        };
        let added = token.clone();
        self.change(|tokens| {
            tokens.push(added);
            Ok(())
        })?;
        Ok((secret, token))
    }

    /// Revokes the token with this id, effective immediately in every process.
    pub fn revoke(&self, id: &str) -> Result<AccessToken, TokenError> {
        self.change(|tokens| {
            let index = tokens.iter().position(|token| token.id == id);
            index
                .map(|index| tokens.remove(index))
                .ok_or_else(|| TokenError::Unknown(id.to_owned()))
        })
    }

    /// Lists all tokens, oldest first.
    pub fn list(&self) -> Result<Vec<AccessToken>, TokenError> {
        self.with_tokens(<[AccessToken]>::to_vec)
    }

    /// Passes the tokens to `look_at`. Reads the file again only if its stamp has changed.
    fn with_tokens<T>(&self, look_at: impl FnOnce(&[AccessToken]) -> T) -> Result<T, TokenError> {
        let mut read = self.read.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let look = self.file_stamp();
        if read.as_ref().is_none_or(|(seen, _)| *seen != look) {
            *read = Some((look, self.load()?));
        }
        Ok(look_at(read.as_ref().map_or(&[], |(_, tokens)| tokens)))
    }

    /// Finds the token that belongs to a secret.
    pub fn find(&self, secret: &str) -> Result<Option<AccessToken>, TokenError> {
        let id =
            secret.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('_')?.split_once('_'));
        let Some((id, _)) = id else { return Ok(None) };
        let found =
            self.with_tokens(|tokens| tokens.iter().find(|token| token.id == id).cloned())?;
        // `blake3::Hash` compares in constant time.
        let hash = blake3::hash(secret.as_bytes());
        Ok(found.filter(|token| blake3::Hash::from_hex(&token.hash).is_ok_and(|kept| kept == hash)))
    }

    fn path(&self) -> PathBuf {
        self.home.join(FILE)
    }

    fn file_stamp(&self) -> FileStamp {
        let found = fs::metadata(self.path()).ok()?;
        Some((found.modified().ok()?, found.len()))
    }

    fn load(&self) -> Result<Vec<AccessToken>, TokenError> {
        let path = self.path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(TokenError::File { path, error }),
        };
        match serde_json::from_str::<TokenFile>(&text) {
            Ok(file) if file.version == VERSION => Ok(file.tokens),
            Ok(file) => {
                Err(TokenError::Damaged(path, format!("unsupported version {}", file.version)))
            }
            Err(error) => Err(TokenError::Damaged(path, error.to_string())),
        }
    }

    /// Rewrites the file atomically. A lock file serializes writers across processes.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<AccessToken>) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |error| TokenError::File { path: path.clone(), error }
        };
        fs::create_dir_all(&self.home).map_err(at(&self.home))?;
        let lock_path = self.home.join(LOCK);
        let lock = private_file::open(&lock_path, OpenOptions::new().create(true).truncate(false))
            .map_err(at(&lock_path))?;
        lock.lock().map_err(at(&lock_path))?;
        let mut tokens = self.load()?;
        let changed = change(&mut tokens)?;
        let text = serde_json::to_string_pretty(&TokenFile { version: VERSION, tokens })
            .map_err(|error| TokenError::Damaged(self.path(), error.to_string()))?;
        let (path, failed) = (self.path(), at(&self.path()));
        private_file::replace(&path, &failed, |out| {
            out.write_all(text.as_bytes()).map_err(&failed)
        })?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::TokenScope;

    fn make(tokens: &TokenStore, tenant: &str) -> (String, AccessToken) {
        let scopes = TokenScopes::new(vec![TokenScope::Write, TokenScope::Read]);
        tokens
            .create(TenantId::new(tenant).unwrap(), scopes, None, Timestamp::from_micros(0))
            .unwrap()
    }

    #[test]
    fn a_token_is_valid_for_its_tenant_until_revoked() {
        let home = tempfile::tempdir().unwrap();
        let (first_store, second_store) =
            (TokenStore::of(home.path()), TokenStore::of(home.path()));
        let (secret, token) = make(&first_store, "a");
        let (other, _) = make(&second_store, "b");
        assert_eq!(second_store.find(&secret).unwrap().unwrap(), token);
        assert_eq!(first_store.find(&other).unwrap().unwrap().tenant.as_str(), "b");
        assert!(token.scopes.allow(TokenScope::Write) && !token.scopes.allow(TokenScope::Admin));

        first_store.revoke(&token.id).unwrap();
        assert_eq!(second_store.find(&secret).unwrap(), None, "another process sees it at once");
        assert!(first_store.revoke(&token.id).unwrap_err().to_string().contains("token list"));
    }

    #[test]
    fn wrong_secrets_match_no_token() {
        let home = tempfile::tempdir().unwrap();
        let tokens = TokenStore::of(home.path());
        let (secret, token) = make(&tokens, "a");
        let last = if secret.ends_with('0') { '1' } else { '0' };
        let almost = format!("{}{last}", &secret[..secret.len() - 1]);
        for wrong in ["", "trg", "trg_", &token.id, &token.hash, &almost, &format!("{secret}0")] {
            assert_eq!(tokens.find(wrong).unwrap(), None, "{wrong}");
        }
    }

    #[test]
    fn the_file_holds_no_secret_and_is_private() {
        let home = tempfile::tempdir().unwrap();
        let (secret, _) = make(&TokenStore::of(home.path()), "a");
        let text = fs::read_to_string(home.path().join(FILE)).unwrap();
        assert!(!text.contains(&secret) && !text.contains(secret.rsplit('_').next().unwrap()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(home.path().join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::write(home.path().join(FILE), "{").unwrap();
        let error = TokenStore::of(home.path()).list().unwrap_err().to_string();
        assert!(error.contains("tokens.json") && error.contains("create new tokens"), "{error}");
    }
}
