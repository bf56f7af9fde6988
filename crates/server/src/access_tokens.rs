//! Access tokens: bearer credentials for clients of the HTTP interface.
//!
//! The tokens live in one file of the home folder that only its owner can read. The file holds
//! hashes, never the tokens themselves. A second file holds the time at which each was last used.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use treering::private_file;
use treering_core::{Invalid, TenantId, Timestamp};

use crate::service::TokenScopes;

const FILE: &str = "tokens.json";
const LOCK: &str = "tokens.lock";
const USES: &str = "token_uses.json";
/// Version 2 has tokens that expire, which a program that reads version 1 would not notice.
const VERSION: u32 = 2;
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
    /// The time from which on the token is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The BLAKE3 hash of the whole token, in hex.
    hash: String,
}

impl AccessToken {
    /// Whether the token is no longer valid. An unreadable time counts as past.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        let expires_at = self.expires_at.as_deref().map(str::parse::<Timestamp>);
        expires_at.is_some_and(|at| !at.is_ok_and(|at| at > now))
    }
}

/// The properties of a new token.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The tenant that the token gives access to.
    pub tenant: TenantId,
    /// The permissions of the token.
    pub scopes: TokenScopes,
    /// A note on the purpose of the token.
    pub name: Option<String>,
    /// The time from which on the token is invalid.
    pub expires_at: Option<Timestamp>,
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
    /// The uses that are not in the file yet: the latest of each token, by id.
    uses: Mutex<BTreeMap<String, Timestamp>>,
}

/// The modification time and size of the file; `None` if there is no file.
type FileStamp = Option<(SystemTime, u64)>;

impl TokenStore {
    /// Opens the tokens of a home folder. Reads nothing yet.
    #[must_use]
    pub fn of(home: &Path) -> Self {
        Self { home: home.to_path_buf(), read: Mutex::default(), uses: Mutex::default() }
    }

    /// Creates a token. Returns the secret, which cannot be retrieved again.
    pub fn create(
        &self,
        new: NewToken,
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
            name: new.name,
            tenant: new.tenant,
            scopes: new.scopes,
            created_at: now.to_string(),
            expires_at: new.expires_at.map(|at| at.to_string()),
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
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Whether the token with this id exists and has not expired.
    pub fn is_valid(&self, id: &str, now: Timestamp) -> Result<bool, TokenError> {
        self.with_tokens(|tokens| tokens.iter().any(|it| it.id == id && !it.is_expired(now)))
    }

    /// Records that a token was used. [`Self::save_uses`] makes it durable.
    pub fn record_use(&self, id: &str, now: Timestamp) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        match uses.get_mut(id) {
            Some(at) => *at = now.max(*at),
            None => drop(uses.insert(id.to_owned(), now)),
        }
    }

    /// Writes the recorded uses to their file, and drops those of revoked tokens from it.
    pub fn save_uses(&self) -> Result<(), TokenError> {
        let recorded =
            std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner));
        if recorded.is_empty() {
            return Ok(());
        }
        let _lock = self.lock()?;
        let mut uses = self.last_uses()?;
        for (id, at) in recorded {
            let last = uses.entry(id).or_insert(at);
            *last = at.max(*last);
        }
        let tokens = self.load()?;
        uses.retain(|id, _| tokens.iter().any(|token| token.id == *id));
        let uses: BTreeMap<&String, String> =
            uses.iter().map(|(id, at)| (id, at.to_string())).collect();
        Self::write(&self.home.join(USES), &uses)
    }

    /// The time of the last saved use of each token, by id.
    pub fn last_uses(&self) -> Result<BTreeMap<String, Timestamp>, TokenError> {
        let text = read(&self.home.join(USES))?.unwrap_or_default();
        // A damaged file costs the times of use, and not the access.
        let uses: BTreeMap<String, String> = serde_json::from_str(&text).unwrap_or_default();
        let parsed = uses.into_iter().filter_map(|(id, at)| Some((id, at.parse().ok()?)));
        Ok(parsed.collect())
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
        let Some(text) = read(&path)? else { return Ok(Vec::new()) };
        match serde_json::from_str::<TokenFile>(&text) {
            Ok(file) if (1..=VERSION).contains(&file.version) => Ok(file.tokens),
            Ok(file) => {
                Err(TokenError::Damaged(path, format!("unsupported version {}", file.version)))
            }
            Err(error) => Err(TokenError::Damaged(path, error.to_string())),
        }
    }

    /// Rewrites the file of tokens.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<AccessToken>) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let _lock = self.lock()?;
        let mut tokens = self.load()?;
        let changed = change(&mut tokens)?;
        Self::write(&self.path(), &TokenFile { version: VERSION, tokens })?;
        Ok(changed)
    }

    /// Serializes writers across processes, until the returned file is dropped.
    fn lock(&self) -> Result<File, TokenError> {
        let path = self.home.join(LOCK);
        let lock = private_file::create_folder(&self.home).and_then(|()| {
            let file = private_file::open(&path, OpenOptions::new().create(true).truncate(false))?;
            file.lock()?;
            Ok(file)
        });
        lock.map_err(|error| TokenError::File { path, error })
    }

    /// Replaces a file atomically.
    fn write(path: &Path, content: &impl Serialize) -> Result<(), TokenError> {
        let failed = |error| TokenError::File { path: path.to_path_buf(), error };
        let text = serde_json::to_string_pretty(content).map_err(|error| failed(error.into()))?;
        private_file::replace(path, failed, |out| out.write_all(text.as_bytes()).map_err(failed))
    }
}

/// The text of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>, TokenError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(TokenError::File { path: path.to_path_buf(), error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::TokenScope;

    fn new_token(tenant: &str) -> NewToken {
        let scopes = TokenScopes::new(vec![TokenScope::Write, TokenScope::Read]);
        let tenant = TenantId::new(tenant).unwrap();
        NewToken { tenant, scopes, name: None, expires_at: None }
    }

    fn make(tokens: &TokenStore, tenant: &str) -> (String, AccessToken) {
        tokens.create(new_token(tenant), Timestamp::from_micros(0)).unwrap()
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
    fn a_token_expires() {
        let home = tempfile::tempdir().unwrap();
        let tokens = TokenStore::of(home.path());
        let at = Timestamp::from_micros;
        let new = NewToken { expires_at: Some(at(5_000_000)), ..new_token("a") };
        let (_, token) = tokens.create(new, at(0)).unwrap();
        for (now, is_valid) in [(0, true), (4_999_999, true), (5_000_000, false)] {
            assert_eq!(tokens.is_valid(&token.id, at(now)).unwrap(), is_valid, "{now}");
        }
        let unreadable = AccessToken { expires_at: Some("soon".into()), ..token };
        assert!(unreadable.is_expired(at(0)));
        let text = fs::read_to_string(home.path().join(FILE)).unwrap();
        assert!(text.contains("\"version\": 2"), "older programs refuse the file: {text}");
        let old = text.replace("\"version\": 2", "\"version\": 1");
        fs::write(home.path().join(FILE), old).unwrap();
        assert_eq!(TokenStore::of(home.path()).list().unwrap().len(), 1);
    }

    #[test]
    fn the_last_use_of_each_token_is_saved() {
        let home = tempfile::tempdir().unwrap();
        let (one, other) = (TokenStore::of(home.path()), TokenStore::of(home.path()));
        let [a, b] = ["a", "b"].map(|tenant| make(&one, tenant).1.id);
        let at = Timestamp::from_micros;
        one.record_use(&a, at(3_000_000));
        one.record_use(&a, at(2_000_000));
        other.record_use(&a, at(1_000_000));
        other.record_use(&b, at(1_000_000));
        one.save_uses().unwrap();
        other.save_uses().unwrap();
        let expected = [(a.clone(), at(3_000_000)), (b, at(1_000_000))].into();
        assert_eq!(one.last_uses().unwrap(), expected);
        one.revoke(&a).unwrap();
        one.record_use(&a, at(4_000_000));
        one.save_uses().unwrap();
        assert!(!one.last_uses().unwrap().contains_key(&a));
    }

    #[cfg(unix)]
    #[test]
    fn the_first_token_creates_a_private_home() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        make(&TokenStore::of(&home), "a");
        assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
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
