//! A throw-away certificate authority, and one certificate for the hosts the server knows.

use std::{io, net::TcpStream, path::Path, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{ServerConfig, ServerConnection, pki_types::PrivatePkcs8KeyDer};
use tempfile::TempDir;

use super::http::Connection;

const HOSTS: [&str; 6] = [
    "github.com",
    "*.github.com",
    "*.githubcopilot.com",
    "*.individual.githubcopilot.com",
    "*.githubusercontent.com",
    "localhost",
];

/// Ends TLS for the tunnels of the proxy.
pub(super) struct Tls {
    folder: TempDir,
    config: Arc<ServerConfig>,
}

impl Tls {
    pub(super) fn new() -> Tls {
        let ca_key = KeyPair::generate().expect("a key can be made");
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "stub authority");
        let ca_cert = ca.self_signed(&ca_key).expect("the authority signs itself");
        let issuer = Issuer::new(ca, ca_key);

        let key = KeyPair::generate().expect("a key can be made");
        let hosts: Vec<String> = HOSTS.iter().map(|host| (*host).to_owned()).collect();
        let mut leaf = CertificateParams::new(hosts).expect("the host names are valid");
        leaf.distinguished_name.push(DnType::CommonName, "stub");
        let cert = leaf.signed_by(&key, &issuer).expect("the authority signs");

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .expect("the key fits the certificate");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];

        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("ca.pem"), ca_cert.pem())
            .expect("the temporary folder is writable");
        Tls { folder, config: Arc::new(config) }
    }

    pub(super) fn ca_path(&self) -> std::path::PathBuf {
        Path::join(self.folder.path(), "ca.pem")
    }

    pub(super) fn accept(&self, stream: TcpStream) -> io::Result<Connection> {
        let session = ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        Ok(Connection::tls(session, stream))
    }
}
