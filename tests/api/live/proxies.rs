//! Followers behind proxies: one that cuts inside lines, and a real nginx with its defaults.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{Bed, Client, PATIENCE, Stream, data, on_every_engine};

on_every_engine![
    a_follower_behind_a_proxy_that_cuts_inside_lines_misses_nothing,
    behind_nginx_each_change_arrives_within_a_second
];

/// Hands bytes on in both directions and cuts each connection after about so many bytes of the answer.
pub fn cutting_proxy(server: SocketAddr, bytes: usize) -> SocketAddr {
    counted_proxy(server, bytes, Arc::default())
}

/// The same; it counts its connections.
fn counted_proxy(server: SocketAddr, bytes: usize, cuts: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
            let cuts = cuts.clone();
            std::thread::spawn(move || {
                // A prime number, so that the cut falls everywhere in a line sooner or later.
                let mut left = bytes + 37 * (cuts.fetch_add(1, Ordering::SeqCst) % 23);
                let mut buffer = [0; 512];
                while left > 0 {
                    let most = left.min(buffer.len());
                    let Ok(count @ 1..) = server.read(&mut buffer[..most]) else { break };
                    left -= count;
                    if client.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                let _ = client.shutdown(std::net::Shutdown::Both);
                let _ = server.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

fn a_follower_behind_a_proxy_that_cuts_inside_lines_misses_nothing(bed: Bed) {
    let cuts = Arc::new(AtomicUsize::new(0));
    let server = bed.start();
    let proxy = Client::new(counted_proxy(server.client.address(), 700, cuts.clone())).with_key(&server.client.key());
    let total = 300;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut seen, mut cursor): (Vec<u64>, u64) = (Vec::new(), 0);
            while seen.len() < total {
                let target = format!("/v1/changes?feed=continuous&heartbeat=1&since={cursor}");
                let mut stream = Stream::ask(&proxy, &target, &[]);
                // Only a line that came with its line feed counts.
                while seen.len() < total
                    && let Some(line) = stream.try_change()
                {
                    cursor = line.seq;
                    seen.push(line.seq);
                }
            }
            seen
        });
        for number in 0..total {
            server.client.put(&format!("/v1/entities/note/{number}"), r#"{"some":"text of some length"}"#).expect(201);
        }
        assert_eq!(reader.join().unwrap(), (1..=total as u64).collect::<Vec<_>>());
    });
    assert!(cuts.load(Ordering::SeqCst) > 20, "the proxy has cut");
}

/// A running nginx; killed when it goes.
struct Nginx {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Nginx {
    /// With nothing set beyond what it takes to pass requests on; `None`, loudly, where it is not installed.
    fn start(server: SocketAddr) -> Option<Nginx> {
        // It is seldom on the path of those who are not root.
        let usual = Path::new("/usr/sbin/nginx");
        let program = if usual.is_file() { usual.to_owned() } else { data::program("nginx")? };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|name| format!("{name}_temp_path {path}/{name};"))
            .collect();
        let config = format!(
            "daemon off; pid {path}/pid; error_log {path}/error.log; events {{}} \
             http {{ access_log off; {temp} server {{ listen {address}; location / {{ proxy_pass http://{server}; }} }} }}"
        );
        std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
        let child = Command::new(program)
            .args(["-p", &path, "-c", &format!("{path}/nginx.conf"), "-e", &format!("{path}/error.log")])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < PATIENCE, "{:?}", std::fs::read_to_string(folder.path().join("error.log")));
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Some(Nginx { child, address, _folder: folder })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it: it is asked, not killed.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// C054.
fn behind_nginx_each_change_arrives_within_a_second(bed: Bed) {
    let server = bed.start();
    let Some(nginx) = Nginx::start(server.client.address()) else { return };
    let client = Client::new(nginx.address).with_key(&server.client.key());
    let accept = [("Accept-Encoding", "gzip, deflate, br")];
    let mut lines = Stream::ask(&client, "/v1/changes?feed=continuous", &accept);
    let mut events = Stream::ask(&client, "/v1/changes", &[("Accept", "text/event-stream"), accept[0]]);
    assert_eq!((lines.head.status, events.head.status), (200, 200));
    for number in 1..=20u64 {
        let began = Instant::now();
        server.client.put(&format!("/v1/entities/note/{number}"), "{}").expect(201);
        assert_eq!(lines.change().seq, number);
        assert_eq!(events.next_event("change").id, Some(number.to_string()));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    let poll = std::thread::spawn(move || Stream::ask(&client, "/v1/changes?wait=20&since=20", &[]));
    let held = || server.metrics.streams.with_label_values(&["long-poll"]).get() == 1;
    crate::support::eventually("the request waits", held);
    let began = Instant::now();
    server.client.put("/v1/entities/note/polled", "{}").expect(201);
    assert_eq!(poll.join().unwrap().change().seq, 21);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // Whoever leaves nginx leaves the server.
    drop((lines, events));
    let open = || {
        ["continuous", "sse"].iter().map(|mode| server.metrics.streams.with_label_values(&[mode]).get()).sum::<i64>()
    };
    crate::support::eventually("nobody follows any more", || open() == 0);
}
