//! Several servers on one PostgreSQL: what one writes, followers of the other have at once, and the connection
//! that tells them of it may break.

use std::time::{Duration, Instant};

use crate::support::raw::End;
use crate::support::{Bed, Stream, at_once, eventually, tests_on};

tests_on!(
    postgres,
    Postgres,
    what_another_server_writes_arrives_live_in_every_mode,
    both_servers_write_and_every_follower_has_every_change_once,
    a_killed_connection_between_servers_loses_nothing_and_heals,
    many_followers_cost_one_read_of_what_another_server_wrote,
    a_log_that_went_back_breaks_its_followers_off
);

const EVENTS: &[(&str, &str)] = &[("Accept", "text/event-stream")];
/// What PROTOCOL section 5 promises.
const PROMISED: Duration = Duration::from_secs(1);

fn what_another_server_writes_arrives_live_in_every_mode(bed: Bed) {
    let (writer, reader) = (bed.start(), bed.start());
    let mut lines = Stream::open(&reader.client, "/v1/changes?feed=continuous&control=true");
    let mut events = Stream::events(&reader.client, "/v1/changes", &[]);
    let mut slowest = Duration::ZERO;
    for number in 1..=30u64 {
        std::thread::scope(|scope| {
            let poll = scope.spawn(|| reader.client.get(&format!("/v1/changes?wait=20&since={}", number - 1)));
            let held = || reader.metrics.streams.with_label_values(&["long-poll"]).get() == 1;
            eventually("the request waits", held);
            let began = Instant::now();
            writer.client.put(&format!("/v1/entities/note/{number}"), "{}").expect(201);
            assert_eq!(lines.change().seq, number);
            assert_eq!(events.next_event("change").id, Some(number.to_string()));
            assert_eq!(poll.join().unwrap().expect(200).lines()[0].seq, number);
            slowest = slowest.max(began.elapsed());
        });
    }
    println!("slowest of 30: {slowest:?}");
    assert!(slowest < PROMISED, "{slowest:?}");
}

fn both_servers_write_and_every_follower_has_every_change_once(bed: Bed) {
    let servers = [bed.start(), bed.start()];
    let (writers, each) = (4, 150);
    let total = 2 * writers * each;
    let mut followers: Vec<Stream> = servers
        .iter()
        .flat_map(|server| (0..5).map(|_| Stream::open(&server.client, "/v1/changes?feed=continuous&fields=tx")))
        .collect();
    at_once(2 * writers, |writer| {
        let client = &servers[writer % 2].client;
        for number in 0..each {
            client.put(&format!("/v1/entities/note/{writer}-{number}"), "{}").expect(201);
        }
    });
    let all = servers[0].client.get("/v1/changes?limit=100000&fields=tx").expect(200).lines();
    assert_eq!(all.len(), total);
    for follower in &mut followers {
        assert_eq!(follower.changes(total), all);
    }
}

fn a_killed_connection_between_servers_loses_nothing_and_heals(bed: Bed) {
    let (writer, reader) = (bed.start(), bed.start());
    let mut stream = Stream::open(&reader.client, "/v1/changes?feed=continuous");
    let mut seq = 0;
    let mut write = |count: u64| {
        for _ in 0..count {
            seq += 1;
            writer.client.put(&format!("/v1/entities/note/{seq}"), "{}").expect(201);
        }
        seq
    };
    for _ in 0..3 {
        let before = reader.metrics.listen_reconnects.get();
        // The one that listens among them.
        bed.number(
            "SELECT count(pg_terminate_backend(pid)) AS number FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
        let last = write(20);
        let began = Instant::now();
        while stream.change().seq < last {}
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        eventually("it is opened again", || reader.metrics.listen_reconnects.get() > before);
    }
    // Healed: a hint is enough again, most of the time.
    let mut quick = 0;
    for _ in 0..20 {
        let began = Instant::now();
        let last = write(1);
        assert_eq!(stream.change().seq, last);
        quick += u32::from(began.elapsed() < Duration::from_millis(500));
    }
    assert!(quick >= 10, "{quick}");
}

fn many_followers_cost_one_read_of_what_another_server_wrote(bed: Bed) {
    let (writer, reader) = (bed.start(), bed.start());
    let mut followers: Vec<Stream> =
        (0..60).map(|_| Stream::open_with(&reader.client, "/v1/changes", EVENTS)).collect();
    writer.client.put("/v1/entities/note/first", "{}").expect(201);
    followers.iter_mut().for_each(|follower| drop(follower.next_event("change")));
    // Statements of the reading server are counted where they all pass: a pool with few connections makes
    // whoever reads beside others wait.
    let waits = || reader.metrics.database_waits.with_label_values(&["read"]).get();
    let before = waits();
    for number in 0..50 {
        writer.client.put(&format!("/v1/entities/note/{number}"), "{}").expect(201);
        followers.iter_mut().for_each(|follower| drop(follower.next_event("change")));
    }
    assert_eq!(waits(), before, "sixty readers at once would not have found sixty connections");
}

/// A failover that loses commits: the numbers of the lost lines come again with other lines. Nobody may go on
/// from the lost ones as if nothing had happened.
fn a_log_that_went_back_breaks_its_followers_off(bed: Bed) {
    let server = bed.start();
    for id in 1..=5 {
        server.client.put(&format!("/v1/entities/note/{id}"), "{}").expect(201);
    }
    let epoch = server.client.get("/v1/log").expect(200).json()["epoch"].clone();
    let mut lines = Stream::open(&server.client, "/v1/changes?feed=continuous");
    let mut events = Stream::events(&server.client, "/v1/changes", &[]);
    assert_eq!(lines.changes(5).last().unwrap().seq, 5);
    (1..=5).for_each(|_| drop(events.next_event("change")));
    std::thread::scope(|scope| {
        let poll = scope.spawn(|| server.client.get("/v1/changes?since=5&wait=30"));
        eventually("the request waits", || server.metrics.streams.with_label_values(&["long-poll"]).get() == 1);
        bed.execute("BEGIN; DELETE FROM entities WHERE seq > 3; DELETE FROM changes WHERE seq > 3; COMMIT");
        poll.join().unwrap().refused(409, "epoch-changed");
    });
    assert!(lines.finish() == End::CutOff && events.finish() == End::CutOff, "a stream of a lost history ended well");
    assert_ne!(server.client.get("/v1/log").expect(200).json()["epoch"], epoch);
    // Whoever comes back follows the history that is.
    let mut lines = Stream::open(&server.client, "/v1/changes?feed=continuous");
    assert_eq!(lines.changes(3).last().unwrap().seq, 3);
    let next = server.client.put("/v1/entities/note/after", "{}").expect(201).line();
    assert_eq!((next.seq, lines.change()), (4, next));
}
