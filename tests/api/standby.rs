//! Reads on a hot standby: never from behind a cursor, never a refusal that only the primary can judge, and
//! never a head below one that was shown.

use std::time::{Duration, Instant};

use scroll::store::PostgresSettings;

use super::support::cluster::{Machine, Stop};
use super::support::{Bed, Options, TestServer, at_once, eventually};

/// A primary, its standby, and a server that reads from the standby.
struct Pair {
    standby: Machine,
    primary: Machine,
    bed: Bed,
}

impl Pair {
    fn new() -> Option<Pair> {
        let primary = Machine::primary(&[])?;
        let standby = primary.standby();
        let bed = Bed::at(primary.url());
        Some(Pair { standby, primary, bed })
    }

    fn options(&self) -> Options {
        let read_url = Some(self.standby.url());
        Options {
            postgres: PostgresSettings { accepts_data_loss: true, read_url, ..PostgresSettings::default() },
            ..Options::default()
        }
    }

    /// A server whose reads go to the standby by now.
    fn start(&self) -> TestServer {
        let server = self.bed.start_with(self.options());
        eventually("reads go to the standby", || server.metrics.standby_usable.get() == 1);
        server
    }
}

fn put(server: &TestServer, number: u64) -> u64 {
    let answer = server.client.put(&format!("/v1/entities/note/n{number}"), &format!(r#"{{"n":{number}}}"#));
    answer.expect(201).number("scroll-seq")
}

/// The head that a read without a cursor shows.
fn shown(server: &TestServer) -> u64 {
    server.client.get("/v1/changes?since=0").expect(200).number("scroll-head")
}

#[test]
fn a_standby_that_lags_is_never_answered_from_behind_a_cursor() {
    let Some(pair) = Pair::new() else { return };
    let server = pair.start();
    for number in 1..=3 {
        put(&server, number);
    }
    let lines = server.client.get("/v1/changes?since=0&min_head=3").expect(200).lines();
    assert_eq!(lines.len(), 3);
    pair.standby.pause_replay();
    assert_eq!(put(&server, 4), 4);
    let fallbacks = server.metrics.standby_fallbacks.get();
    // What the standby shows is an answer; what it does not show yet is waited for, then refused.
    assert_eq!(shown(&server), 3);
    let cursors =
        ["since=4", "since=0&min_head=4", "since=1&until=4", "since=4&compact=true", "since=4&limit=1&min_head=1"];
    let entities = ["/v1/entities/note/n4?min_head=4", "/v1/entities/note?min_head=4"];
    let targets: Vec<String> = cursors.iter().map(|cursor| format!("/v1/changes?{cursor}")).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).chain(entities).collect();
    at_once(targets.len(), |number| {
        let began = Instant::now();
        let refused = server.client.get(targets[number]).expect(503);
        assert_eq!(refused.json()["type"], "/problems/replica-behind", "{}", targets[number]);
        assert!(refused.header("retry-after").is_some());
        assert!(began.elapsed() >= Duration::from_secs(5), "it did not wait: {}", targets[number]);
    });
    assert_eq!(server.metrics.standby_fallbacks.get(), fallbacks, "the primary answered reads");
    // Who waits is answered as soon as the standby has come so far.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.client.get("/v1/changes?since=3&min_head=4").expect(200));
        let cursor = scope.spawn(|| server.client.get("/v1/changes?since=4").expect(200));
        pair.standby.resume_replay();
        assert_eq!(waiting.join().unwrap().lines()[0].seq, 4);
        assert_eq!(cursor.join().unwrap().number("scroll-next"), 4);
    });
    // Only the primary knows that a cursor is ahead of everything.
    let began = Instant::now();
    let refused = server.client.get("/v1/changes?since=99").expect(409);
    assert_eq!((&refused.json()["type"], &refused.json()["head"]), (&"/problems/cursor-ahead".into(), &4.into()));
    assert!(began.elapsed() < Duration::from_secs(4), "a typo need not wait");
}

#[test]
fn a_standby_that_lags_refuses_nothing_that_the_primary_knows() {
    let Some(pair) = Pair::new() else { return };
    let server = pair.start();
    put(&server, 1);
    assert_eq!(server.client.get("/v1/changes?since=0&min_head=1").expect(200).lines().len(), 1);
    let old = server.client.get("/v1/changes?since=0").expect(200).header("scroll-epoch").unwrap().to_owned();
    pair.standby.pause_replay();
    server.client.put("/v1/entities/fresh/1", "{}").expect(201);
    // A resource that the standby never heard of is no mistake.
    assert!(server.client.get("/v1/changes?since=0&resource=fresh").expect(200).lines().is_empty());
    server.client.get("/v1/changes?since=0&resource=freshh").expect(400);
    // An epoch that the standby does not know yet is not another one; the old one is.
    pair.primary.shell().execute("UPDATE scroll.logs SET epoch = 'new'");
    let changed = server.client.get(&format!("/v1/changes?since=1&epoch={old}"));
    // The standby still shows the history that this client holds, and answers it.
    assert_eq!(changed.expect(200).header("scroll-epoch"), Some(old.as_str()));
    let refused = server.client.get("/v1/changes?since=1&epoch=other").expect(409);
    assert_eq!(refused.json()["epoch"], "new");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.client.get("/v1/changes?since=1&epoch=new").expect(200));
        pair.standby.resume_replay();
        assert_eq!(waiting.join().unwrap().lines().len(), 1);
    });
    server.client.get(&format!("/v1/changes?since=1&epoch={old}")).expect(409);
}

#[test]
fn a_standby_that_is_down_hands_its_reads_to_the_primary_until_it_has_caught_up() {
    let Some(mut pair) = Pair::new() else { return };
    let server = pair.start();
    put(&server, 1);
    assert_eq!(server.client.get("/v1/changes?since=0&min_head=1").expect(200).lines().len(), 1);
    assert_eq!(server.metrics.standby_fallbacks.get(), 0, "the standby answers");
    pair.standby.set("recovery_min_apply_delay", "1h");
    pair.standby.stop(Stop::Fast);
    put(&server, 2);
    let began = Instant::now();
    let answer = server.client.get("/v1/changes?since=0&min_head=2").expect(200);
    assert_eq!(answer.lines().len(), 2);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(server.metrics.standby_fallbacks.get() > 0 && server.metrics.standby_usable.get() == 0);
    server.client.get("/readyz").expect(200);
    put(&server, 3);
    assert_eq!(shown(&server), 3);
    // It comes back behind: what was shown stays shown.
    pair.standby.start();
    pair.standby.wait_for("the server looks how far it is", |shell| {
        shell.get::<i64>("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'scroll'") > 0
    });
    for _ in 0..20 {
        assert_eq!(shown(&server), 3, "a head went back");
    }
    pair.standby.set("recovery_min_apply_delay", "0");
    eventually("reads go to the standby again", || {
        assert!(shown(&server) >= 3, "a head went back");
        server.metrics.standby_usable.get() == 1
    });
    let fallbacks = server.metrics.standby_fallbacks.get();
    assert_eq!(server.client.get("/v1/changes?since=3").expect(200).number("scroll-head"), 3);
    assert_eq!(server.metrics.standby_fallbacks.get(), fallbacks);
}

#[test]
fn a_server_starts_without_its_standby_and_refuses_a_stranger() {
    let Some(mut pair) = Pair::new() else { return };
    pair.standby.stop(Stop::Fast);
    let server = pair.bed.start_with(pair.options());
    put(&server, 1);
    assert_eq!(shown(&server), 1);
    server.stop();
    let stranger = Machine::primary(&[]).unwrap();
    let read_url = Some(stranger.url());
    let postgres = PostgresSettings { accepts_data_loss: true, read_url, ..PostgresSettings::default() };
    let refused = pair.bed.try_start(Options { postgres, ..Options::default() }).err().unwrap();
    assert!(refused.to_string().contains("is not a standby"), "{refused}");
}
