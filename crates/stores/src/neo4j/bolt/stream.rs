//! The stream below a connection: TCP, or TLS over TCP.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{BoltError, Neo4jAddress, Result};

/// Maximum time to connect, and for each answer until the user is known.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects to the first address of the host that answers.
    pub(super) fn connect(address: &Neo4jAddress) -> Result<Self> {
        let unreachable = |error: &dyn std::fmt::Display| BoltError::Unreachable(error.to_string());
        let resolved = (address.host.as_str(), address.port).to_socket_addrs();
        let mut failure = unreachable(&"the host has no address");
        for socket_address in resolved.map_err(|error| unreachable(&error))? {
            match TcpStream::connect_timeout(&socket_address, CONNECT_TIMEOUT) {
                Ok(tcp) => {
                    return Self::over(tcp, address).map_err(|error| unreachable(&error));
                }
                Err(error) => failure = unreachable(&error),
            }
        }
        Err(failure)
    }

    fn over(tcp: TcpStream, address: &Neo4jAddress) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        tcp.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        if !address.is_encrypted {
            return Ok(Self::Plain(tcp));
        }
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Ok(Self::Encrypted(Box::new(StreamOwned::new(session, tcp))))
    }

    /// Sets the maximum time for reading and writing.
    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Encrypted(stream) => stream.get_ref(),
        };
        tcp.set_read_timeout(Some(timeout))?;
        tcp.set_write_timeout(Some(timeout))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}
