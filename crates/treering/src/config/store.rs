//! Settings of the store.

use std::path::PathBuf;

use confique::Config;
use serde::Deserialize;
use treering_core::Invalid;
use treering_stores::Sync;

use crate::store_url::{StoreOptions, StoreUrl};

/// Storage.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct StoreSettings {
    /// Durability of an acknowledged turn: `full` survives power loss; `normal` survives a
    /// crash of the program but may lose the last moments before a power loss.
    #[config(env = "TREERING_STORE_SYNC", default = "full")]
    pub sync: SyncSetting,

    /// The server that keeps the store instead of the home folder: `neo4j://HOST:PORT/DATABASE`,
    /// `neo4j+s://` with TLS, or `bolt://` and `bolt+s://` for one member of a cluster (requires a
    /// build with `--features neo4j`); or `postgres://HOST:PORT/DATABASE` (requires a build with
    /// `--features postgres`). The user and the password are never part of it: they come
    /// from the environment variables `TREERING_STORE_USER` and `TREERING_STORE_PASSWORD`, or from
    /// `store.credentials`. Settings, tokens and the files of agents stay in the home folder.
    #[config(env = "TREERING_STORE_URL", default = "", validate = is_store_url)]
    pub url: String,

    /// The file with the user and the password of the server, in one line `USER:PASSWORD`;
    /// relative to the home folder. Only you may be able to read it.
    #[config(env = "TREERING_STORE_CREDENTIALS", default = "")]
    pub credentials: PathBuf,
}

impl StoreSettings {
    /// The place of the store.
    pub fn options(&self) -> Result<StoreOptions, Invalid> {
        let credentials = Some(&self.credentials).filter(|path| !path.as_os_str().is_empty());
        Ok(StoreOptions { url: StoreUrl::new(&self.url)?, credentials: credentials.cloned() })
    }
}

/// The values of `store.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncSetting {
    /// Survives power loss.
    Full,
    /// Survives a crash of the program.
    Normal,
}

impl From<SyncSetting> for Sync {
    fn from(setting: SyncSetting) -> Self {
        match setting {
            SyncSetting::Full => Self::Full,
            SyncSetting::Normal => Self::Normal,
        }
    }
}

fn is_store_url(url: &impl AsRef<str>) -> Result<(), String> {
    match StoreUrl::new(url.as_ref()) {
        Ok(url) if url.is_server() || url == StoreUrl::default() => Ok(()),
        Ok(_) => Err("expected the address of a server, like neo4j://127.0.0.1:7687".into()),
        Err(invalid) => Err(invalid.to_string()),
    }
}
