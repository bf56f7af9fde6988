//! The address of a server and its database, as in `neo4j://127.0.0.1:7687/neo4j`.

use std::fmt;
use std::str::FromStr;

use treering_core::Invalid;

/// How the server is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Routing {
    /// The address is the server.
    Direct,
    /// The address names a member of a cluster, which tells where the database is written.
    Writer,
}

/// The address of a database. Carries no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neo4jAddress {
    pub(super) routing: Routing,
    pub(super) is_encrypted: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// The database; the user's home database if none is named.
    pub(super) database: Option<String>,
}

impl Neo4jAddress {
    /// The schemes of the addresses.
    pub const SCHEMES: [&str; 4] = ["neo4j", "neo4j+s", "bolt", "bolt+s"];

    const PORT: u16 = 7687;

    /// The same database on another server, given as `host:port`.
    pub(super) fn on(&self, server: &str) -> Option<Self> {
        let (host, port) = host_and_port(server)?;
        Some(Self { routing: Routing::Direct, host, port, ..self.clone() })
    }
}

/// The host, without the brackets of an IPv6 address, and the port.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (text, Neo4jAddress::PORT),
    };
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

impl FromStr for Neo4jAddress {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        // A refused address may contain a password, so no error quotes more than its scheme.
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let invalid = |reason: &str| {
            let example =
                "expected an address like neo4j://127.0.0.1:7687 or neo4j+s://HOST/DATABASE";
            Invalid::new(format!("store address {scheme}://…"), format!("{reason}; {example}"))
        };
        let (routing, is_encrypted) = match scheme {
            "neo4j" => (Routing::Writer, false),
            "neo4j+s" => (Routing::Writer, true),
            "bolt" => (Routing::Direct, false),
            "bolt+s" => (Routing::Direct, true),
            "neo4j+ssc" | "bolt+ssc" => {
                return Err(invalid(
                    "a certificate that nobody signed protects nothing; give the \
                    server one of an authority, or tunnel the connection",
                ));
            }
            _ => return Err(invalid("unknown scheme")),
        };
        if rest.contains('@') {
            return Err(invalid(
                "it has a user or password, which belong in the environment or a file",
            ));
        }
        if rest.contains(['?', '#']) {
            return Err(invalid("parameters are not supported"));
        }
        let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) =
            host_and_port(server).ok_or_else(|| invalid("it names no host and port"))?;
        if database.contains('/') {
            return Err(invalid("the name of a database has no slash"));
        }
        let database = (!database.is_empty()).then(|| database.to_owned());
        Ok(Self { routing, is_encrypted, host, port, database })
    }
}

impl fmt::Display for Neo4jAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.routing {
            Routing::Direct => "bolt",
            Routing::Writer => "neo4j",
        };
        let secure = if self.is_encrypted { "+s" } else { "" };
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{scheme}{secure}://{host}:{}", self.port)?;
        self.database.as_ref().map_or(Ok(()), |database| write!(f, "/{database}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let check = |text: &str, shown: &str| {
            assert_eq!(text.parse::<Neo4jAddress>().unwrap().to_string(), shown);
        };
        check("neo4j://db.example.org", "neo4j://db.example.org:7687");
        check("bolt://127.0.0.1:17687/", "bolt://127.0.0.1:17687");
        check("bolt+s://[::1]:9/memory", "bolt+s://[::1]:9/memory");
        check("neo4j+s://[::1]", "neo4j+s://[::1]:7687");
    }

    #[test]
    fn other_addresses_are_refused_without_quoting_them() {
        for text in [
            "http://host",
            "host:7687",
            "neo4j://",
            "neo4j://host:port",
            "bolt://host/a/b",
            "bolt+ssc://host",
            "neo4j://neo4j:secret@host",
            "neo4j://host?password=secret",
        ] {
            let error = text.parse::<Neo4jAddress>().unwrap_err().to_string();
            assert!(!error.contains("secret") && error.contains("neo4j://127"), "{error}");
        }
    }
}
