//! What `scroll serve` says on stdout once it listens: on the first start the key, inside lines that work
//! as pasted; later only the address and how to make another key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::terminal::shell_word;
use crate::access::Secret;
use crate::change::LogName;
use crate::config::{DatabaseUrl, Types};

/// What the text is about.
pub struct Welcome<'a> {
    /// Where the server listens.
    pub address: SocketAddr,
    /// Where it keeps its data.
    pub database: &'a DatabaseUrl,
    /// The log that the first key is for.
    pub log: &'a LogName,
    /// The resource of the example.
    pub resource: &'a str,
}

impl Welcome<'_> {
    /// The text of the first start, the only one that shows a key.
    pub fn first(&self, secret: &Secret) -> String {
        let base = reachable(self.address);
        let entity = format!("{base}/v1/entities/{}/1", self.resource);
        let key = format!("-H 'Authorization: Bearer {}'", secret.reveal());
        let json = "-H 'Content-Type: application/json'";
        format!(
            "SCROLL serves {base} and keeps its data in {database}.\n\
             \n\
             This database is new. It has one log, \"{log}\", and one key for it (read, write, admin).\n\
             The key stands in these lines; it is shown only this once. Paste them in another terminal:\n\
             \n\
             # create an entity\n\
             curl -sS -X PUT {entity} {key} {json} -d '{{\"name\":\"Ada\"}}'\n\
             \n\
             # read every change from the beginning\n\
             curl -sS '{base}/v1/changes?since=0' {key}\n\
             \n\
             # delete it\n\
             curl -sS -X DELETE {entity} {key}\n\
             \n\
             # read on after change 1: the delete is a change, too\n\
             curl -sS '{base}/v1/changes?since=1' {key}\n\
             \n\
             The contract is at {base}/docs. Ctrl-C stops the server.",
            database = self.database,
            log = self.log,
        )
    }

    /// The text of every later start.
    pub fn again(&self) -> String {
        let base = reachable(self.address);
        let database = match self.database.is_default() {
            true => String::new(),
            false => format!(" --database-url {}", shell_word(self.database.as_str())),
        };
        format!(
            "SCROLL serves {base} and keeps its data in {}. The contract is at {base}/docs.\n\
             Another key: scroll keys create --log {} --scope read --scope write{database}",
            self.database, self.log
        )
    }
}

/// A resource that the lines of the first start can write: `customer` of the built-in example; with a file
/// one without rules, or where only declared ones are accepted the first that is declared.
pub fn example_resource(types: &Types) -> String {
    const FREE: &str = "note";
    let mut declared = types.catalog.resources().map(|resource| resource.as_str());
    if types.file.is_none() {
        return "customer".into();
    }
    if types.catalog.is_strict() {
        return declared.next().unwrap_or(FREE).into();
    }
    let is_taken = declared.any(|name| name == FREE);
    if is_taken { "scroll.example".into() } else { FREE.into() }
}

/// The URL that works on this machine: an address that means "everywhere" cannot be called.
fn reachable(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_welcome<T>(address: &str, url: &str, tell: impl FnOnce(Welcome<'_>) -> T) -> T {
        let (database, log) = (DatabaseUrl::parse(url).unwrap(), LogName::parse("default").unwrap());
        tell(Welcome { address: address.parse().unwrap(), database: &database, log: &log, resource: "customer" })
    }

    #[test]
    fn the_first_start_shows_the_key_in_lines_that_work() {
        let secret = Secret::generate().unwrap();
        let text = with_welcome("127.0.0.1:8081", "sqlite:scroll.db", |welcome| welcome.first(&secret));
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("curl ")).collect();
        assert_eq!(lines.len(), 4);
        for line in lines {
            assert!(line.contains(&format!("-H 'Authorization: Bearer {}'", secret.reveal())), "{line}");
            assert!(line.contains("http://127.0.0.1:8081/v1/"), "{line}");
            assert_eq!(line.matches('\'').count() % 2, 0, "{line}");
        }
        assert!(text.contains(r#"-d '{"name":"Ada"}'"#), "{text}");
        assert!(text.contains("/v1/entities/customer/1 ") && !text.contains("  "), "{text}");
    }

    #[test]
    fn later_starts_show_no_key_and_how_to_make_one() {
        let plain = with_welcome("[::]:80", "sqlite:scroll.db", |welcome| welcome.again());
        assert!(plain.contains("http://[::1]:80 "), "{plain}");
        assert!(plain.ends_with("scroll keys create --log default --scope read --scope write"), "{plain}");
        let moved = with_welcome("0.0.0.0:80", "sqlite:/a b.db", |welcome| welcome.again());
        assert!(moved.contains("http://127.0.0.1:80 "), "{moved}");
        assert!(moved.ends_with("--database-url 'sqlite:/a b.db'"), "{moved}");
    }

    #[test]
    fn the_example_is_a_resource_that_can_be_written() {
        let builtin = Types::load(None, true).unwrap();
        assert_eq!(example_resource(&builtin), "customer");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("types.toml");
        std::fs::write(&file, "[resource.order]\nprefix = \"ord_\"\n").unwrap();
        assert_eq!(example_resource(&Types::load(Some(&file), false).unwrap()), "note");
        assert_eq!(example_resource(&Types::load(Some(&file), true).unwrap()), "order");
    }
}
