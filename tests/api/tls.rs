//! TLS to the database: encrypted when it was asked for, and the right database when that was.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use scroll::store::OpenError;

use super::support::cluster::Machine;
use super::support::{Bed, Options};

/// An authority of our own.
struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    /// The authority, and the file with its certificate.
    fn new(folder: &Path, name: &str) -> (Authority, PathBuf) {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let path = folder.join(name);
        std::fs::write(&path, parameters.self_signed(&key).unwrap().pem()).unwrap();
        (Authority(Issuer::new(parameters, key)), path)
    }

    /// Gives a server a certificate for this host, and turns TLS on.
    fn certify(&self, machine: &Machine, host: &str) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        let owner = std::fs::metadata(machine.folder().join("data")).unwrap();
        for (name, content) in [("cert", certificate.pem()), ("key", key.serialize_pem())] {
            let path = machine.folder().join(format!("{host}.{name}"));
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        let path = |name: &str| format!("{}/{host}.{name}", machine.folder().display());
        let shell = machine.shell();
        shell.execute(&format!("ALTER SYSTEM SET ssl_cert_file = '{}'", path("cert")));
        shell.execute(&format!("ALTER SYSTEM SET ssl_key_file = '{}'", path("key")));
        machine.set("ssl", "on");
        machine.wait_for("the certificate is in force", |shell| {
            shell.get::<String>("SELECT current_setting('ssl_cert_file')") == path("cert")
        });
    }
}

/// Opens the database; whether its connections are encrypted, or the whole chain of causes.
fn open(machine: &Machine, query: &str) -> Result<bool, String> {
    let server =
        Bed::at(format!("{}?{query}", machine.url())).try_start(Options::default()).map_err(|error| told(&error))?;
    let sql =
        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'scroll'";
    let is_encrypted = machine.shell().get(sql);
    server.client.put("/v1/entities/note/n", "{}");
    server.stop();
    Ok(is_encrypted)
}

fn told(error: &OpenError) -> String {
    let chain = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[track_caller]
fn assert_refused(opened: Result<bool, String>, words: &str) {
    let refused = opened.unwrap_err();
    assert!(refused.contains(words), "{refused}");
}

#[test]
fn a_database_without_tls_serves_those_who_only_prefer_it() {
    let Some(machine) = Machine::primary(&[]) else { return };
    assert_eq!(open(&machine, ""), Ok(false));
    assert_eq!(open(&machine, "sslmode=prefer"), Ok(false));
    for mode in ["require", "verify-full"] {
        assert_refused(open(&machine, &format!("sslmode={mode}")), "server does not support TLS");
    }
}

#[test]
fn a_database_with_tls_is_who_it_says_when_that_is_asked_for() {
    let Some(machine) = Machine::primary(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (authority, known) = Authority::new(folder.path(), "known ca.pem");
    let (_, stranger) = Authority::new(folder.path(), "stranger.pem");
    let verify = |roots: &Path| {
        let roots = roots.to_str().unwrap().replace(' ', "%20");
        format!("sslmode=verify-full&sslrootcert={roots}")
    };
    authority.certify(&machine, "127.0.0.1");
    assert_eq!(open(&machine, "sslmode=disable"), Ok(false));
    assert_eq!(open(&machine, ""), Ok(true));
    assert_eq!(open(&machine, "sslmode=require"), Ok(true));
    assert_eq!(open(&machine, &verify(&known)), Ok(true));
    let unknown = "no known authority signed the certificate of the database";
    assert_refused(open(&machine, &verify(&stranger)), unknown);
    // The authorities of the system do not know this one, or there are none.
    assert!(open(&machine, "sslmode=verify-full").is_err());
    authority.certify(&machine, "db.example.com");
    assert_eq!(open(&machine, "sslmode=require"), Ok(true));
    assert_refused(open(&machine, &verify(&known)), "the certificate of the database is for another host");
    assert_refused(open(&machine, "sslmode=sometimes"), "sslmode is none of");
}
