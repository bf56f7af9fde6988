//! Options of the PostgreSQL store, and the address that they come from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;
use treering_core::ports::StoreResult;
use treering_core::{Invalid, StoreError};

/// The address of the store, and how to connect to it.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// The address: `postgres://USER@HOST:PORT/DATABASE`. Besides the parameters of PostgreSQL, it takes `schema`,
    /// the schema that holds the tables (`treering` by default), `pool`, the maximum number of connections (16 by
    /// default), and `sslrootcert`, a file with certificate authorities.
    pub url: String,
    /// The user, if the address names none.
    pub user: Option<String>,
    /// The password, if the address has none.
    pub password: Option<String>,
}

/// The parsed options.
#[derive(Clone)]
pub(super) struct ServerTarget {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    pub(super) schema: String,
    pub(super) pool: usize,
    /// The address without the password, for messages.
    pub(super) location: String,
}

const SCHEMA: &str = "treering";
const POOL: usize = 16;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Ends a connection whose server does not answer at all.
const USER_TIMEOUT: Duration = Duration::from_secs(30);

impl PostgresOptions {
    pub(super) fn parse(&self) -> StoreResult<ServerTarget> {
        let (base, parameters) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let (mut schema, mut pool, mut authorities) = (SCHEMA.to_owned(), POOL, None);
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("schema", name)) => schema = checked_schema(name)?,
                Some(("pool", number)) => pool = checked_pool(number)?,
                Some(("sslrootcert", file)) => authorities = Some(PathBuf::from(file)),
                _ => others.push(parameter),
            }
        }
        let url = match others.is_empty() {
            true => base.to_owned(),
            false => format!("{base}?{}", others.join("&")),
        };
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let reason =
                error.into_source().map_or_else(String::new, |source| format!(": {source}"));
            invalid(format!("expected postgres://USER@HOST:PORT/DATABASE{reason}"))
        })?;
        if let (None, Some(user)) = (config.get_user(), &self.user) {
            config.user(user);
        }
        if let (None, Some(password)) = (config.get_password(), &self.password) {
            config.password(password);
        }
        if config.get_hosts().is_empty() {
            return Err(invalid("it names no host".into()).into());
        }
        config.application_name("treering").connect_timeout(CONNECT_TIMEOUT);
        config.tcp_user_timeout(USER_TIMEOUT).keepalives_idle(Duration::from_secs(15));
        let location = location(&config, &schema);
        Ok(ServerTarget { tls: tls(authorities)?, config, schema, pool, location })
    }
}

fn invalid(reason: String) -> Invalid {
    Invalid::new("the address of the store", reason)
}

fn checked_schema(name: &str) -> StoreResult<String> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > 60 || !name.chars().all(is_word) {
        let reason = "a schema has 1 to 60 characters: lower-case letters, digits and underscores";
        return Err(Invalid::new(format!("schema {name:?}"), reason).into());
    }
    Ok(name.to_owned())
}

fn checked_pool(number: &str) -> StoreResult<usize> {
    number.parse().ok().filter(|number| (1..=1000).contains(number)).ok_or_else(|| {
        Invalid::new(format!("pool {number:?}"), "expected a number from 1 to 1000").into()
    })
}

/// The address without credentials.
fn location(config: &Config, schema: &str) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    match schema {
        SCHEMA => format!("postgres://{hosts}/{database}"),
        other => format!("postgres://{hosts}/{database}?schema={other}"),
    }
}

/// Every TLS connection is verified, whatever `sslmode` says.
fn tls(authorities: Option<PathBuf>) -> StoreResult<MakeRustlsConnect> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = authorities {
        let unreadable = |error: String| {
            StoreError::from(Invalid::new(format!("sslrootcert {}", file.display()), error))
        };
        let certificates =
            CertificateDer::pem_file_iter(&file).map_err(|error| unreadable(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> StoreResult<ServerTarget> {
        PostgresOptions { url: url.into(), user: None, password: Some("secret".into()) }.parse()
    }

    #[test]
    fn an_address_is_parsed_without_its_own_parameters() {
        let target = parse(
            "postgres://ana@db1:5433,db2:5434/memory?schema=team_a&pool=4&target_session_attrs=read-write",
        );
        let target = target
            .map_err(|error| error.to_string())
            .unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!((target.schema.as_str(), target.pool), ("team_a", 4));
        assert_eq!(target.location, "postgres://db1:5433,db2:5434/memory?schema=team_a");
        assert_eq!(target.config.get_password(), Some(&b"secret"[..]));
    }

    #[test]
    fn a_wrong_address_is_refused_with_a_reason() {
        for (url, reason) in [
            ("postgres://ana@db/memory?schema=Team", "lower-case"),
            ("postgres://ana@db/memory?pool=0", "from 1 to 1000"),
            ("postgres://ana@db/memory?colour=red", "expected postgres://"),
            ("postgres:///memory", "no host"),
            ("postgres://ana@db/memory?sslrootcert=/does/not/exist", "sslrootcert"),
        ] {
            let refused = parse(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains(reason), "{url}: {refused}");
        }
    }
}
