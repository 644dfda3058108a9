//! What every test stands on: a server of its own, clients, an independent model of the log.

pub mod answer;
pub mod bed;
pub mod client;
#[path = "../../support/cluster.rs"]
pub mod cluster;
pub mod contract;
pub mod data;
#[path = "../../support/database.rs"]
pub mod database;
pub mod model;
#[path = "../../support/pgbouncer.rs"]
pub mod pgbouncer;
#[path = "../../support/postgres.rs"]
pub mod postgres;
pub mod process;
#[path = "../../support/proxy.rs"]
pub mod proxy;
pub mod raw;

use std::time::{Duration, Instant};

pub use answer::Answer;
pub use bed::{Bed, Engine, Options, TestServer};
pub use client::Client;
pub use model::{Entry, fingerprint, fold, parse_lines};

/// Longest that anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long to let others work between two looks at something that has no event.
pub const POLL: Duration = Duration::from_millis(2);

/// Makes one test per engine of every function in the list; each gets an empty database.
macro_rules! on_every_engine {
    ($($name:ident),* $(,)?) => {
        $crate::support::tests_on!(sqlite, Sqlite, $($name),*);
        $crate::support::tests_on!(postgres, Postgres, $($name),*);
    };
}
macro_rules! tests_on {
    ($module:ident, $engine:ident, $($name:ident),*) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    let engine = $crate::support::Engine::$engine;
                    if engine.is_there() {
                        super::$name($crate::support::Bed::new(engine));
                    }
                }
            )*
        }
    };
}
pub(crate) use {on_every_engine, tests_on};

/// Asks again and again until the answer is yes; gives up after [`PATIENCE`].
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::park_timeout(POLL);
    }
}

/// Runs one closure per number on threads of their own and gives what they return, in order.
pub fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Fifteen lines of every kind: creates, updates, a re-creation, an action, a batch, tombstones with and
/// without data. Gives the lines as the feed sends them.
pub fn seed(client: &Client) -> Vec<Entry> {
    client.put("/v1/entities/customer/cus_1", r#"{"name":"Ada"}"#).expect(201);
    client.put("/v1/entities/subscription/sub_1", r#"{"status":"active","customer":"cus_1"}"#).expect(201);
    client.patch("/v1/entities/subscription/sub_1", r#"{"plan":"pro"}"#).expect(200);
    client.put("/v1/entities/note/a", r#"{"n":1}"#).expect(201);
    client.put("/v1/entities/note/b", r#"{"n":1}"#).expect(201);
    client.delete("/v1/entities/note/a").expect(200);
    client.put("/v1/entities/note/a", r#"{"n":2}"#).expect(201);
    client.ask("POST", "/v1/entities/subscription/sub_1/cancel").send().expect(200);
    let put = |id: &str| format!(r#"{{"op":"put","resource":"note","id":"{id}","data":{{"n":1}}}}"#);
    client.ask("POST", "/v1/batch").ndjson(&[put("c"), put("d"), put("e")].join("\n")).send().expect(200);
    client.delete("/v1/entities/note/c").expect(200);
    client.put("/v1/entities/subscription/sub_2", r#"{"status":"trialing"}"#).expect(201);
    client.ask("POST", "/v1/entities/subscription/sub_2/expire").send().expect(200);
    client.put("/v1/entities/note/b", r#"{"n":2}"#).expect(200);
    let lines = client.all_lines();
    assert_eq!(lines.len(), 15);
    lines
}

/// One NDJSON body of puts.
pub fn puts<'a>(resource: &str, ids: impl IntoIterator<Item = &'a str>, data: &str) -> String {
    let put = |id| format!(r#"{{"op":"put","resource":"{resource}","id":"{id}","data":{data}}}"#);
    ids.into_iter().map(put).collect::<Vec<_>>().join("\n")
}
