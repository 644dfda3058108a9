//! Sections 1, 7 and 8 as far as nothing is purged: copies that are begun, continued and checked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::pages::follow;
use super::support::{Bed, Client, Entry, at_once, fingerprint, fold, model, on_every_engine};

on_every_engine![
    the_vectors_of_the_protocol_come_out_of_a_real_log,
    snapshots_and_tails_under_writing_give_what_the_log_gives,
    a_reader_that_polls_while_others_write_misses_nothing,
    the_last_line_of_an_entity_is_its_state_under_forty_writers,
    a_batch_of_ten_thousand_shows_whole_or_not_at_all,
    numbers_are_never_used_again_after_a_restart,
];

/// What a consumer holds.
type Copy = BTreeMap<(String, String), Entry>;

fn the_vectors_of_the_protocol_come_out_of_a_real_log(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    let at =
        |seq: u64| client.get(&format!("/v1/changes?until={seq}")).expect(200).must("scroll-checkpoint").to_owned();
    assert_eq!(at(0), "seq=0, count=0, fingerprint=\"0000000000000000\"");
    client.put("/v1/entities/subscription/sub_1", r#"{"status":"active"}"#).expect(201);
    client.put("/v1/entities/subscription/sub_2", r#"{"status":"active"}"#).expect(201);
    client.patch("/v1/entities/subscription/sub_1", r#"{"plan":"x"}"#).expect(200);
    assert_eq!(at(1), "seq=1, count=1, fingerprint=\"9326c70c13fec656\"");
    assert_eq!(at(2), "seq=2, count=2, fingerprint=\"093ecc7df62e6ee3\"");
    assert_eq!(at(3), "seq=3, count=2, fingerprint=\"1d27163658377b8a\"");
    let log = client.get("/v1/log").expect(200).json();
    assert_eq!((&log["count"], &log["fingerprint"]), (&2.into(), &"1d27163658377b8a".into()));
    assert_eq!(log["resources"]["subscription"]["fingerprint"], "1d27163658377b8a");
}

/// Writes as fast as it can until told to stop: creates, updates, deletes and re-creations.
fn churn(client: &Client, writer: usize, stop: &AtomicBool) -> usize {
    let mut acknowledged = 0;
    for number in 0..400 {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let target = format!("/v1/entities/note/{}", (writer * 7 + number * 3) % 25);
        let answer = match number % 3 {
            0 => client.delete(&target),
            _ => client.put(&target, &format!("{{\"w\":{writer},\"n\":{number}}}")),
        };
        acknowledged += usize::from(answer.status < 300);
    }
    acknowledged
}

/// C075.
fn snapshots_and_tails_under_writing_give_what_the_log_gives(bed: Bed) {
    let server = bed.start();
    let stop = AtomicBool::new(false);
    let mut copies: Vec<(Copy, u64)> = Vec::new();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (client, stop) = (server.client_with(&server.client.key()), &stop);
                scope.spawn(move || churn(&client, writer, stop))
            })
            .collect();
        // However slow the disk is, a hundred changes come in between.
        while copies.len() < 20 || copies.last().is_none_or(|(_, cursor)| *cursor <= 100) {
            let mut copy = BTreeMap::new();
            let mut target = format!("/v1/changes?since=0&compact=true&limit={}", 3 + copies.len());
            let cursor = loop {
                let answer = server.client.get(&target).expect(200);
                answer.lines().into_iter().for_each(|line| apply(&mut copy, line));
                if let Some(checkpoint) = answer.header("scroll-checkpoint") {
                    let next = answer.number("scroll-next");
                    let own =
                        format!("seq={next}, count={}, fingerprint=\"{}\"", copy.len(), fingerprint(copy.values()));
                    assert_eq!(checkpoint, own, "the copy is what the log says");
                    break next;
                }
                target = answer.next_link();
            };
            copies.push((copy, cursor));
        }
        stop.store(true, Ordering::SeqCst);
        assert!(writers.into_iter().map(|writer| writer.join().unwrap()).sum::<usize>() > 100);
    });
    let log = server.client.all_lines();
    model::assert_dense(&log);
    let expected = fold(&log);
    for (mut copy, cursor) in copies {
        follow(&server.client, &format!("/v1/changes?since={cursor}&limit=50"))
            .0
            .into_iter()
            .for_each(|line| apply(&mut copy, line));
        assert_eq!(copy, expected, "begun at {cursor}");
    }
    let listed = model::listed(&server.client, "note", 7);
    assert_eq!(listed, expected.values().map(|entry| entry.raw.clone()).collect::<Vec<_>>());
}

fn apply(copy: &mut BTreeMap<(String, String), Entry>, line: Entry) {
    if line.deleted {
        copy.remove(&line.name());
    } else {
        copy.insert(line.name(), line);
    }
}

/// C001.
fn a_reader_that_polls_while_others_write_misses_nothing(bed: Bed) {
    const WRITERS: usize = 40;
    let server = bed.start();
    let is_done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (client, mut seen, mut since) = (server.client_with(&server.client.key()), Vec::new(), 0);
            loop {
                let was_done = is_done.load(Ordering::SeqCst);
                let answer = client.get(&format!("/v1/changes?since={since}&limit=7")).expect(200);
                let lines = answer.lines();
                assert_eq!(answer.must("scroll-dense"), "true");
                lines.iter().enumerate().for_each(|(index, line)| assert_eq!(line.seq, since + index as u64 + 1));
                since = answer.number("scroll-next");
                seen.extend(lines);
                if was_done && answer.must("scroll-up-to-date") == "true" {
                    return seen;
                }
            }
        });
        at_once(WRITERS, |writer| {
            let client = server.client_with(&server.client.key());
            // Every fifth sends a large body, so that it takes longer than those around it.
            let filler = "x".repeat(if writer % 5 == 0 { 200_000 } else { 1 });
            (0..5).for_each(|number| {
                drop(
                    client
                        .put(&format!("/v1/entities/note/{writer}-{number}"), &format!("{{\"f\":\"{filler}\"}}"))
                        .expect(201),
                )
            });
        });
        is_done.store(true, Ordering::SeqCst);
        reader.join().unwrap()
    });
    assert_eq!(seen.len(), WRITERS * 5);
    assert_eq!(seen, server.client.all_lines());
}

/// C007.
fn the_last_line_of_an_entity_is_its_state_under_forty_writers(bed: Bed) {
    let server = bed.start();
    server.client.put("/v1/entities/subscription/sub-1", r#"{"status":"active","n":-1}"#).expect(201);
    let tags = at_once(40, |writer| {
        let client = server.client_with(&server.client.key());
        (0..10)
            .map(|number| {
                let answer = client
                    .patch("/v1/entities/subscription/sub-1", &format!("{{\"n\":{}}}", writer * 100 + number))
                    .expect(200);
                assert_eq!(answer.must("etag"), format!("\"{}\"", answer.line().seq));
                (answer.line().seq, answer.line().data["n"].clone())
            })
            .collect::<Vec<_>>()
    });
    let lines = server.client.all_lines();
    model::assert_dense(&lines);
    assert_eq!(lines.len(), 401);
    for (seq, number) in tags.into_iter().flatten() {
        assert_eq!(lines[seq as usize - 1].data["n"], number);
    }
    assert_eq!(server.client.get("/v1/entities/subscription/sub-1").expect(200).line(), *lines.last().unwrap());
}

/// C018.
fn a_batch_of_ten_thousand_shows_whole_or_not_at_all(bed: Bed) {
    let server = bed.start();
    let ids: Vec<String> = (0..10_000).map(|id| id.to_string()).collect();
    let body = super::support::puts("import", ids.iter().map(String::as_str), r#"{"name":"some imported entity"}"#);
    let is_done = AtomicBool::new(false);
    let singles = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (client, mut since, mut imported) = (server.client_with(&server.client.key()), 0, 0);
                    loop {
                        let was_done = is_done.load(Ordering::SeqCst);
                        let answer = client.get(&format!("/v1/changes?since={since}&limit=20000")).expect(200);
                        let count = answer.lines().iter().filter(|line| line.resource == "import").count();
                        assert!(count == 0 || count == 10_000, "{count} lines of a batch of 10,000");
                        imported += count;
                        since = answer.number("scroll-next");
                        if was_done && answer.must("scroll-up-to-date") == "true" {
                            return imported;
                        }
                    }
                })
            })
            .collect();
        let writer = scope.spawn(|| {
            let client = server.client_with(&server.client.key());
            let mut written = 0;
            while !is_done.load(Ordering::SeqCst) {
                client.put(&format!("/v1/entities/note/{written}"), "{}").expect(201);
                written += 1;
            }
            written
        });
        let answer = server.client.ask("POST", "/v1/batch").ndjson(&body).send().expect(200);
        assert_eq!(answer.json()["changes"].as_array().unwrap().len(), 10_000);
        is_done.store(true, Ordering::SeqCst);
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 10_000));
        writer.join().unwrap()
    });
    let lines = server.client.all_lines();
    model::assert_dense(&lines);
    assert!(singles > 0 && lines.len() == 10_000 + singles, "{singles}");
}

fn numbers_are_never_used_again_after_a_restart(bed: Bed) {
    let server = bed.start();
    server.client.put("/v1/entities/note/a", "{}").expect(201);
    server.client.delete("/v1/entities/note/a").expect(200);
    let before = server.client.get("/v1/changes").expect(200);
    server.stop();
    let server = bed.start();
    let after = server.client.get("/v1/changes").expect(200);
    assert_eq!((after.lines(), after.must("scroll-epoch")), (before.lines(), before.must("scroll-epoch")));
    assert_eq!(server.client.put("/v1/entities/note/a", "{}").expect(201).number("scroll-seq"), 3);
}
