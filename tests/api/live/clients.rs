//! The programs of README's chapter "Live", run as they stand there, and the standard libraries for server-sent
//! events: each behind a proxy that cuts, killed and begun again, while changes are written.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::proxies::cutting_proxy;
use crate::support::{Bed, Client, TestServer, data, eventually, fold, on_every_engine};

on_every_engine![
    the_python_program_of_the_readme_keeps_an_exact_copy,
    the_node_program_of_the_readme_keeps_an_exact_copy,
    eventsource_for_node_misses_nothing_and_repeats_nothing,
    httpx_sse_for_python_misses_nothing_and_repeats_nothing,
    the_shell_lines_of_the_readme_work,
];

const README: &str = include_str!("../../../README.md");

/// The code of README that begins with this line.
fn program_of_readme(first_line: &str) -> &'static str {
    let from = README.find(first_line).unwrap_or_else(|| panic!("README has no {first_line:?}"));
    README[from..].split("\n```").next().unwrap()
}

/// A program that runs until it is killed.
struct Running(Child);

impl Running {
    fn start(server: &TestServer, address: std::net::SocketAddr, command: &mut Command) -> Running {
        let command = command.env("SCROLL", format!("http://{address}")).env("KEY", server.client.key());
        Running(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates, updates, deletes and re-creations.
fn churn(client: &Client, from: u64, to: u64) {
    for number in from..to {
        let target = format!("/v1/entities/note/{}", number * 7 % 13);
        match number % 4 {
            0 => client.delete(&target),
            _ => client.put(&target, &format!(r#"{{"n":{number},"text":"of some length 😀"}}"#)),
        };
    }
}

/// Starts a program that keeps a copy, kills it, starts it again, and waits until the copy is the log's.
fn keeps_a_copy(server: &TestServer, mut command: impl FnMut() -> Command, copy: impl Fn() -> BTreeMap<String, u64>) {
    let proxy = cutting_proxy(server.client.address(), 3_000);
    churn(&server.client, 0, 40);
    for round in 1..4 {
        let running = Running::start(server, proxy, &mut command());
        churn(&server.client, round * 40, round * 40 + 40);
        eventually("a part of it is copied", || !copy().is_empty());
        drop(running);
    }
    churn(&server.client, 160, 200);
    let live = fold(server.client.all_lines().iter());
    let expected: BTreeMap<String, u64> =
        live.values().map(|entry| (format!("{}/{}", entry.resource, entry.id), entry.seq)).collect();
    assert!(expected.len() > 5);
    let _running = Running::start(server, proxy, &mut command());
    eventually("the copy is the log's", || copy() == expected);
}

const DUMP: &str = "import json, sqlite3, sys
copy = sqlite3.connect(sys.argv[1])
try:
    rows = copy.execute('SELECT resource, id, seq FROM entity').fetchall()
except sqlite3.OperationalError:
    rows = []
print(json.dumps({f'{resource}/{id}': seq for resource, id, seq in rows}))";

fn the_python_program_of_the_readme_keeps_an_exact_copy(bed: Bed) {
    let Some(python) = data::program("python3") else { return };
    let server = bed.start();
    let (program, file) = (bed.folder().join("follow.py"), bed.folder().join("copy.db"));
    std::fs::write(&program, program_of_readme("# usage: SCROLL=http://… KEY=scroll_… python3 follow.py")).unwrap();
    let command = || {
        let mut command = Command::new(&python);
        command.arg(&program).arg(&file);
        command
    };
    let copy = || {
        let dumped = Command::new(&python).args(["-c", DUMP]).arg(&file).output().unwrap();
        serde_json::from_slice(&dumped.stdout).unwrap_or_default()
    };
    keeps_a_copy(&server, command, copy);
    // A refusal stops it, loudly.
    let refused = command().env("SCROLL", format!("http://{}", server.client.address())).env("KEY", "nobody").output();
    let refused = refused.unwrap();
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("unauthorized"));
}

fn the_node_program_of_the_readme_keeps_an_exact_copy(bed: Bed) {
    let Some(node) = data::program("node") else { return };
    let server = bed.start();
    let (program, file) = (bed.folder().join("copy.mjs"), bed.folder().join("copy.json"));
    std::fs::write(bed.folder().join("follow.mjs"), program_of_readme("// follow.mjs. Calls apply(change)")).unwrap();
    std::fs::write(&program, program_of_readme("// usage: SCROLL=http://… KEY=scroll_… node copy.mjs")).unwrap();
    let command = || {
        let mut command = Command::new(&node);
        command.arg(&program).arg(&file);
        command
    };
    let copy = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let copy: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        serde_json::from_value(copy["entities"].clone()).unwrap_or_default()
    };
    keeps_a_copy(&server, command, copy);
    let refused = command().env("SCROLL", format!("http://{}", server.client.address())).env("KEY", "nobody").output();
    let refused = refused.unwrap();
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("unauthorized"));
}

/// Prints the id of every change; everything else about the connection is the library's own business.
const EVENTSOURCE: &str = r#"
import { createRequire } from "node:module";
const { EventSource } = createRequire(process.env.NODE_FOLDER + "/")("eventsource");
const withKey = (url, init) => fetch(url, { ...init, headers: { ...init.headers, Authorization: `Bearer ${process.env.KEY}` } });
const source = new EventSource(process.env.SCROLL + "/v1/changes", { fetch: withKey });
source.addEventListener("change", event => console.log(event.lastEventId, JSON.parse(event.data).seq));
"#;

/// The library reads events; it says itself that coming back is left to its user.
const HTTPX_SSE: &str = r#"
import httpx, json, os, time
from httpx_sse import connect_sse
last, retry = "", 1.0
with httpx.Client(timeout=45, trust_env=False) as client:
    while True:
        headers = {"Authorization": "Bearer " + os.environ["KEY"], "Last-Event-ID": last}
        try:
            with connect_sse(client, "GET", os.environ["SCROLL"] + "/v1/changes", headers=headers) as source:
                for event in source.iter_sse():
                    retry = event.retry / 1000 if event.retry else retry
                    last = event.id or last
                    if event.event == "change":
                        print(event.id, json.loads(event.data)["seq"], flush=True)
        except httpx.TransportError:
            pass
        time.sleep(retry)
"#;

/// A folder or program that a setting names; said loudly where it is not set.
fn named(setting: &str, what: &str) -> Option<PathBuf> {
    let named = std::env::var_os(setting).map(PathBuf::from);
    if named.is_none() {
        let is_required = std::env::var_os("SCROLL_TEST_REQUIRE_CLIENTS").is_some_and(|value| value == "1");
        assert!(!is_required, "{setting} must name {what}");
        println!("NOT TESTED: set {setting} to {what}");
    }
    named
}

/// Every change once and in order, whatever cuts.
fn prints_every_change_once(server: &TestServer, command: &mut Command) {
    let proxy = cutting_proxy(server.client.address(), 6_000);
    churn(&server.client, 0, 40);
    let mut running = Running::start(server, proxy, command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("1 1"));
    churn(&server.client, 40, 160);
    let last = server.client.log_head();
    for seq in 2..=last {
        assert_eq!(lines.next(), Some(format!("{seq} {seq}")));
    }
    std::thread::park_timeout(Duration::from_millis(50));
    server.client.put("/v1/entities/note/last", "{}").expect(201);
    assert_eq!(lines.next(), Some(format!("{0} {0}", last + 1)));
}

fn eventsource_for_node_misses_nothing_and_repeats_nothing(bed: Bed) {
    let Some(node) = data::program("node") else { return };
    let Some(folder) = named("SCROLL_TEST_NPM", "a folder where the npm package eventsource is installed") else {
        return;
    };
    let program = bed.folder().join("events.mjs");
    std::fs::write(&program, EVENTSOURCE).unwrap();
    prints_every_change_once(&bed.start(), Command::new(node).arg(&program).env("NODE_FOLDER", folder));
}

fn httpx_sse_for_python_misses_nothing_and_repeats_nothing(bed: Bed) {
    let Some(python) = named("SCROLL_TEST_PYTHON", "a python that has the package httpx-sse") else { return };
    prints_every_change_once(&bed.start(), Command::new(python).args(["-c", HTTPX_SSE]));
}

fn the_shell_lines_of_the_readme_work(bed: Bed) {
    let Some(curl) = data::program("curl") else { return };
    let server = bed.start();
    churn(&server.client, 0, 30);
    let lines = program_of_readme("scroll tail $SCROLL --since 0");
    let curls: Vec<&str> = lines.lines().filter(|line| line.starts_with("curl")).collect();
    assert_eq!(curls.len(), 3);
    let folder = Path::new(crate::support::process::PROGRAM).parent().unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", folder.display(), curl.parent().unwrap().display());
    for line in lines.lines() {
        // The endless ones are cut off once they have shown the history.
        let mut shell = Command::new("timeout");
        shell.args(["-s", "KILL", "3", "sh", "-c", line]).env_clear().env("PATH", &path);
        shell.env("SCROLL", format!("http://{}", server.client.address())).env("SCROLL_KEY", server.client.key());
        shell.env("AUTH", format!("Authorization: Bearer {}", server.client.key()));
        let output = shell.stdin(Stdio::null()).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(
            shown.contains("note") && shown.contains("updated"),
            "{line}: {shown} {output:?}",
            output = output.stderr
        );
    }
}
