//! `scroll tail` as a process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::support::process::{Process, make_key, scroll};
use crate::support::{Bed, PATIENCE, on_every_engine, seed};

on_every_engine![
    it_shows_what_is_there_and_what_comes,
    it_goes_on_by_itself_when_the_server_comes_back_and_says_so,
    what_does_not_pass_by_itself_ends_it,
];

/// A running tail.
struct Tail {
    child: Child,
    lines: Receiver<String>,
    words: Receiver<String>,
}

impl Tail {
    fn start(address: &str, key: &str, arguments: &[&str]) -> Tail {
        let mut command = Tail::command(address, key, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (to_lines, lines) = channel();
        let (to_words, words) = channel();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| drop(to_lines.send(line)));
        });
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| drop(to_words.send(line)));
        });
        Tail { child, lines, words }
    }

    fn command(address: &str, key: &str, arguments: &[&str]) -> Command {
        let mut command = scroll(&["tail", &format!("http://{address}")]);
        command.args(arguments).env("SCROLL_KEY", key);
        command
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn it_shows_what_is_there_and_what_comes(bed: Bed) {
    let server = bed.start();
    let lines = seed(&server.client);
    let (address, key) = (server.client.address().to_string(), server.client.key());
    let json = Tail::start(&address, &key, &["--since", "0", "--json"]);
    lines.iter().for_each(|line| assert_eq!(json.line(), line.raw, "byte for byte"));
    let people = Tail::start(&address, &key, &["--since", "0", "--resource", "customer", "--resource", "plan,note"]);
    // A resource that nobody has seen is the server's to refuse.
    assert!(people.words.recv_timeout(PATIENCE).unwrap().contains("plan"));
    let people = Tail::start(&address, &key, &["--since", "12", "--resource", "note", "--id", "b"]);
    assert_eq!(people.line(), r#"      15  updated     note/b  {"n":2}"#);
    server.client.put("/v1/entities/note/b", r#"{"n":3}"#).expect(200);
    assert_eq!(people.line(), r#"      16  updated     note/b  {"n":3}"#);
    assert!(json.line().starts_with(r#"{"seq":16,"#));
    let mut limited = Tail::start(&address, &key, &["--since", "0", "--json", "--limit", "3"]);
    assert_eq!((0..3).map(|_| limited.line()).collect::<Vec<_>>().len(), 3);
    assert!(limited.child.wait().unwrap().success());
    assert!(limited.lines.recv_timeout(PATIENCE).is_err(), "nothing after the limit");
}

fn it_goes_on_by_itself_when_the_server_comes_back_and_says_so(bed: Bed) {
    let process = Process::serve(&bed.url());
    let (address, key) = (process.address, make_key(&bed.url()));
    let client = process.client(&key);
    client.put("/v1/entities/note/1", "{}").expect(201);
    let tail = Tail::start(&address.to_string(), &key, &["--since", "0", "--json"]);
    assert!(tail.line().starts_with(r#"{"seq":1,"#));
    client.put("/v1/entities/note/2", "{}").expect(201);
    assert!(tail.line().starts_with(r#"{"seq":2,"#));
    process.terminate();
    let words = tail.words.recv_timeout(PATIENCE).unwrap();
    assert!(words.contains("drain") && words.contains("going on after 2"), "{words}");
    let (status, log) = process.ended();
    assert!(status.success(), "{log}");
    // While nobody listens there it tries again and again.
    assert!(tail.words.recv_timeout(PATIENCE).unwrap().contains("cannot be reached"));
    let address = address.to_string();
    let again = ["serve", "--listen", &address, "--database-url", &bed.url(), "--log-format", "json"];
    let process = Process::start(&mut scroll(&again));
    process.client(&key).put("/v1/entities/note/3", "{}").expect(201);
    assert!(tail.line().starts_with(r#"{"seq":3,"#), "nothing twice, nothing left out");
    process.kill();
    let words = std::iter::repeat_with(|| tail.words.recv_timeout(PATIENCE).unwrap());
    let words = words.take(20).find(|words| words.contains("going on after 3"));
    assert!(words.is_some());
}

fn what_does_not_pass_by_itself_ends_it(bed: Bed) {
    let server = bed.start();
    let (address, key) = (server.client.address().to_string(), server.client.key());
    for (key, arguments, words) in [
        ("scroll_nobody", &[] as &[&str], "401"),
        (key.as_str(), &["--since", "5"], "409"),
        (key.as_str(), &["--since", "x"], "400"),
        (key.as_str(), &["--log", "nobody"], "404"),
    ] {
        let output = Tail::command(&address, key, arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(words) && !told.contains(key), "{told}");
    }
    for arguments in
        [["tail", "nonsense", "--key", "k"], ["tail", "ftp://x", "--key", "k"], ["tail", "http://x", "--key", ""]]
    {
        assert_eq!(scroll(&arguments).output().unwrap().status.code(), Some(2), "{arguments:?}");
    }
}
