//! Settings of capture.

use std::path::PathBuf;

use confique::Config;
use treering_core::CaptureExclusions;

/// Capture of conversations.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct CaptureSettings {
    /// Folders whose conversations are never stored, with everything below them, such as
    /// `["~/work/secret"]`; separated by commas in the environment.
    #[config(env = "TREERING_CAPTURE_EXCLUDE_FOLDERS", default = [],
        parse_env = confique::env::parse::list_by_comma)]
    pub exclude_folders: Vec<String>,

    /// Words and file names that are never stored, such as `["*.pem", ".env", "ACME-*"]`, where
    /// `*` stands for any characters and `?` for one; separated by commas in the environment. A
    /// tool call that names a matching file is stored without its result.
    #[config(env = "TREERING_CAPTURE_EXCLUDE_PATTERNS", default = [],
        parse_env = confique::env::parse::list_by_comma)]
    pub exclude_patterns: Vec<String>,
}

impl From<&CaptureSettings> for CaptureExclusions {
    fn from(settings: &CaptureSettings) -> Self {
        let folder = |folder: &String| match folder.strip_prefix("~/") {
            Some(rest) => std::env::home_dir()
                .map_or_else(|| PathBuf::from(folder), |home| home.join(rest))
                .to_string_lossy()
                .into_owned(),
            None => folder.clone(),
        };
        Self {
            folders: settings.exclude_folders.iter().map(folder).collect(),
            patterns: settings.exclude_patterns.clone(),
        }
    }
}
