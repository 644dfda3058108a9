//! TLS to the database: which of it a URL asks for, with the words of libpq.
//!
//! | `sslmode` | encrypted | the database is who it says |
//! |---|---|---|
//! | `disable` | no | no |
//! | `prefer`, the default | where the database can | no |
//! | `require` | yes | no |
//! | `verify-full` | yes | yes: a known authority signed its certificate for this host |
//!
//! `sslrootcert=PATH` names the authorities for `verify-full`; without it those of the system count.

use std::path::Path;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// What a URL asks for, and the URL without it: the driver knows neither `verify-full` nor `sslrootcert`.
pub struct Asked {
    /// The rest of the URL.
    pub url: String,
    /// Whether to encrypt.
    pub mode: SslMode,
    /// How.
    pub tls: MakeRustlsConnect,
}

impl Asked {
    /// Takes it out of a URL; the error is a sentence.
    pub fn take(url: &str) -> Result<Asked, String> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = || percent_decode_str(value).decode_utf8_lossy().into_owned();
            match name {
                "sslmode" => mode = Some(value()),
                "sslrootcert" => roots = Some(value()),
                _ => rest.push(pair),
            }
        }
        let url = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        let (mode, verifies) = match mode.as_deref().unwrap_or("prefer") {
            "disable" => (SslMode::Disable, false),
            "prefer" => (SslMode::Prefer, false),
            "require" => (SslMode::Require, false),
            "verify-full" => (SslMode::Require, true),
            _ => return Err("sslmode is none of disable, prefer, require and verify-full".into()),
        };
        let config = match (verifies, roots) {
            (true, roots) => verifying(roots.as_deref())?,
            (false, None) => trusting()?,
            (false, Some(_)) => return Err("sslrootcert needs sslmode=verify-full, which looks at it".into()),
        };
        Ok(Asked { url, mode, tls: MakeRustlsConnect::new(config) })
    }
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    builder.with_safe_default_protocol_versions().map_err(|error| format!("TLS cannot be used: {error}"))
}

/// Looks at the certificate.
fn verifying(roots: Option<&str>) -> Result<ClientConfig, String> {
    let roots = match roots {
        Some("") => return Err("sslrootcert names no file".into()),
        Some(path) => roots_of_file(Path::new(path))?,
        None => roots_of_system()?,
    };
    Ok(builder()?.with_root_certificates(roots).with_no_client_auth())
}

fn roots_of_file(path: &Path) -> Result<RootCertStore, String> {
    let unusable = |what: &dyn std::fmt::Display| format!("sslrootcert {} cannot be used: {what}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))? {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    if roots.is_empty() { Err(unusable(&"there is no certificate in it")) } else { Ok(roots) }
}

fn roots_of_system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // Some of the many may be of a kind that is not known here.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("the system has no root certificates; name some with sslrootcert=PATH".into());
    }
    Ok(roots)
}

/// Encrypts, whoever is at the other end.
fn trusting() -> Result<ClientConfig, String> {
    let verifier = Arc::new(Trusting(ring::default_provider()));
    Ok(builder()?.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Takes every certificate, as `require` does.
#[derive(Debug)]
struct Trusting(CryptoProvider);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a certificate was refused, as a sentence; `None` when it was something else.
pub fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let refused = causes.filter_map(|cause| {
        let inner = cause.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()).or_else(|| cause.downcast_ref())
    });
    let rustls::Error::InvalidCertificate(why) = refused.into_iter().next()? else {
        return None;
    };
    Some(match why {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate of the database is for another host"
        }
        // The second: an authority of a known name, with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no known authority signed the certificate of the database"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate of the database has expired"
        }
        _ => "the certificate of the database is not valid",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_tls_is_taken_out_of_a_url() {
        for (url, rest, mode) in [
            ("postgres://db/s", "postgres://db/s", SslMode::Prefer),
            ("postgres://db/s?sslmode=disable", "postgres://db/s", SslMode::Disable),
            ("postgres://db/s?a=b&sslmode=require&c=d", "postgres://db/s?a=b&c=d", SslMode::Require),
        ] {
            let asked = Asked::take(url).unwrap();
            assert_eq!((asked.url.as_str(), asked.mode), (rest, mode));
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        for (query, part) in [
            ("sslmode=verify-ca", "none of"),
            ("sslmode=Require", "none of"),
            ("sslrootcert=/ca.pem", "verify-full"),
            ("sslmode=require&sslrootcert=/ca.pem", "verify-full"),
            ("sslmode=verify-full&sslrootcert=", "names no file"),
            ("sslmode=verify-full&sslrootcert=/none%20such.pem", "/none such.pem"),
        ] {
            let refused = Asked::take(&format!("postgres://u:hunter2@db/s?{query}")).err().unwrap();
            assert!(refused.contains(part) && !refused.contains("hunter2"), "{query}: {refused}");
        }
    }
}
