//! Reads of the feed: every selection, depth, range and limit shows what a look at every line shows.

use scroll::change::{Fields, Selection, Seq};
use scroll::store::{ChunkSize, Depth, Extent, Scan};

use crate::support::bed::Bed;
use crate::support::commands::{action, create, delete, entity_id, put, resource, seq};
use crate::support::desk::{Desk, USUAL};
use crate::support::model::{Count, Entry, fold, naive_scan};
use crate::support::on_every_engine;

/// A short log with everything in it: lives, deaths, second lives, a cascade, an action that deletes.
async fn short_log(desk: &Desk) -> Vec<Entry> {
    for command in [
        create("customer", "c1", "{}"),
        create("customer", "c2", "{}"),
        create("subscription", "s1", r#"{"status":"active","customer":"c1"}"#),
        create("subscription", "s2", r#"{"status":"active","customer":"c2"}"#),
        put("note", "n,1", r#"{"a":1}"#),
        put("note", "n,1", r#"{"a":2}"#),
        delete("note", "n,1"),
        action("subscription", "s1", "cancel"),
        delete("customer", "c1"),
        put("note", "n,1", r#"{"a":3}"#),
        put("customer", "c1", r#"{"life":2}"#),
        action("subscription", "s2", "expire"),
        put("note", "n2", "{}"),
        delete("note", "n2"),
        put("customer", "c2", r#"{"name":"x"}"#),
    ] {
        desk.ok(command).await;
    }
    let lines = desk.lines().await;
    assert_eq!(lines.len(), 16);
    lines
}

fn selections() -> Vec<Selection> {
    let resources = |names: &[&str]| Selection::resources(names.iter().map(|name| resource(name)).collect());
    let entities =
        |name: &str, ids: &[&str]| Selection::entities(resource(name), ids.iter().map(|id| entity_id(id)).collect());
    vec![
        Selection::All,
        resources(&["customer"]),
        resources(&["note", "subscription"]),
        resources(&["never"]),
        resources(&["customer", "never", "note", "subscription"]),
        entities("note", &["n,1"]),
        entities("note", &["n,1", "n2", "n"]),
        entities("customer", &["s1"]),
        entities("subscription", &["s1", "s2"]),
    ]
}

fn depths(until: i64, head: i64) -> Vec<Depth> {
    let newest = |at: i64, skips_tombstones: bool| Depth::Newest { at: seq(at), skips_tombstones };
    let mut depths = vec![Depth::All];
    for at in until..=head {
        depths.extend([newest(at, false), newest(at, true)]);
    }
    depths
}

async fn extents_and_chunks_are_what_a_look_at_every_line_shows(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let log = short_log(&desk).await;
    let head = log.len() as i64;
    let mut compared = 0;
    for selection in selections() {
        for (after, until) in (0..=head).flat_map(|after| (after..=head).map(move |until| (after, until))) {
            // Every range with every depth would be a hundred thousand; a regular part of them.
            if (after + until) % 5 != 0 {
                continue;
            }
            for depth in depths(until, head) {
                let expected = naive_scan(&log, after, until, &selection, depth);
                let scan = Scan { after: seq(after), until: seq(until), selection: selection.clone(), depth };
                assert_eq!(desk.scanned(scan.clone(), USUAL).await, expected, "{scan:?}");
                let limit = 1 + (after + until) as usize % 5;
                let reach = &expected[..limit.min(expected.len())];
                let extent = Extent { matched: reach.len() as u64, last: reach.last().map(|entry| seq(entry.seq)) };
                assert_eq!(desk.extent(&scan, limit as u64).await, extent, "{scan:?} limit {limit}");
                compared += usize::from(!expected.is_empty());
            }
        }
    }
    assert!(compared > 1_000, "only {compared} scans showed anything");
}

async fn pages_of_any_size_put_together_are_the_log(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let log = short_log(&desk).await;
    let head = seq(log.len() as i64);
    for selection in selections() {
        for depth in depths(log.len() as i64, log.len() as i64) {
            for limit in [1, 2, 3, 7, 100, u64::MAX] {
                let (mut after, mut pages) = (Seq::ZERO, Vec::new());
                loop {
                    let scan = Scan { after, until: head, selection: selection.clone(), depth };
                    let extent = desk.extent(&scan, limit).await;
                    let Some(last) = extent.last else { break };
                    let page = desk.scanned(Scan { until: last, ..scan }, ChunkSize { lines: 2, bytes: 1 << 20 }).await;
                    assert_eq!(page.len() as u64, extent.matched);
                    pages.extend(page);
                    after = last;
                }
                let expected = naive_scan(&log, 0, head.get(), &selection, depth);
                assert_eq!(pages, expected, "{selection:?} {depth:?} limit {limit}");
            }
        }
    }
}

async fn a_limit_beyond_every_integer_is_no_limit(bed: Bed) {
    let desk = Desk::open(&bed).await;
    short_log(&desk).await;
    let scan = desk.whole().await;
    for limit in [16, 17, u64::from(u32::MAX) + 1, i64::MAX as u64, u64::MAX] {
        assert_eq!(desk.extent(&scan, limit).await, Extent { matched: 16, last: Some(seq(16)) }, "{limit}");
    }
}

async fn chunks_end_at_their_bounds_and_a_longer_line_comes_whole(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let filler = |bytes: usize| format!(r#"{{"x":"{}"}}"#, "y".repeat(bytes));
    let mut commands: Vec<_> = (0..30).map(|n| put("note", &format!("n{n}"), &filler(50 + n))).collect();
    commands.insert(10, put("note", "long", &filler(1 << 17)));
    desk.batch(commands).await;
    let log = desk.lines().await;
    let newest = Depth::Newest { at: seq(31), skips_tombstones: true };
    for (selection, depth) in [
        (Selection::All, Depth::All),
        (Selection::resources(vec![resource("note")]), Depth::All),
        (Selection::All, newest),
    ] {
        for size in [
            ChunkSize { lines: 5_000, bytes: 1 },
            ChunkSize { lines: 5_000, bytes: 500 },
            ChunkSize { lines: 3, bytes: 1 << 30 },
            ChunkSize { lines: 7, bytes: 700 },
        ] {
            let mut scan = Scan { after: Seq::ZERO, until: seq(31), selection: selection.clone(), depth };
            let mut read = Vec::new();
            loop {
                let chunk = desk.chunk(&scan, Fields::default(), size).await;
                let Some(last) = chunk.last else { break };
                let last_line = log[(last.get() - 1) as usize].raw.len() + 1;
                assert!(chunk.bytes.len() - last_line < size.bytes, "a line more than needed: {size:?}");
                let is_full = chunk.bytes.len() >= size.bytes || chunk.lines == u64::from(size.lines);
                assert!(is_full || last == seq(31), "stopped early: {size:?}");
                read.extend(crate::support::model::parse_page(&chunk.bytes));
                scan.after = last;
            }
            assert_eq!(read, log, "{size:?}");
        }
    }
}

async fn extra_members_stand_after_data_in_their_order(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    bed.clock.step(std::time::Duration::from_micros(1_500_001));
    desk.batch(vec![put("note", "m", "{}"), put("note", "n", r#"{"a":1}"#), delete("note", "n")]).await;
    let expected = [
        ("2023-11-14T22:13:20.000000Z", "null", 1),
        ("2023-11-14T22:13:21.500001Z", "null", 2),
        ("2023-11-14T22:13:21.500001Z", "1", 2),
        ("2023-11-14T22:13:21.500001Z", "3", 2),
    ];
    let log = desk.lines().await;
    for (time, prev, tx) in
        [(true, true, true), (true, false, false), (false, true, false), (false, false, true), (true, false, true)]
    {
        let mut text = String::new();
        for (entry, (at, previous, first)) in log.iter().zip(expected) {
            text.push_str(entry.raw.strip_suffix('}').unwrap());
            text.push_str(&if time { format!(r#","time":"{at}""#) } else { String::new() });
            text.push_str(&if prev { format!(r#","prev":{previous}"#) } else { String::new() });
            text.push_str(&if tx { format!(r#","tx":{first}"#) } else { String::new() });
            text.push_str("}\n");
        }
        let bytes = desk.read(desk.whole().await, Fields { time, prev, tx }, USUAL).await;
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }
}

async fn stamps_follow_the_clock_and_order_does_not(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "a", "{}")).await;
    bed.clock.step_back(std::time::Duration::from_secs(3_600));
    desk.ok(put("note", "b", "{}")).await;
    let stored = desk.store.audit_changes(desk.log, Seq::ZERO, 10).await.unwrap();
    assert_eq!(stored.iter().map(|change| change.seq.get()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(stored[0].time.as_micros() - stored[1].time.as_micros(), 3_600_000_000);
    assert_eq!(desk.lines().await.len(), 2);
}

async fn tallies_at_every_seq_are_those_of_the_lines_up_to_it(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let log = short_log(&desk).await;
    for at in 0..=log.len() {
        let live = fold(&log[..at]);
        assert_eq!(Count::from(desk.tally_at(at as i64).await), Count::of(live.values()), "at {at}");
    }
}

/// A compact read that began at `at` shows the entities as they were then, however much is written since:
/// a little (from the live entities) or very much (from the history).
async fn a_compact_read_stays_at_its_moment_while_writing_goes_on(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let names: Vec<String> = (0..40).map(|n| format!("n{n:02}")).collect();
    let note = |name: &String, version: usize| put("note", name, &format!(r#"{{"v":{version}}}"#));
    desk.batch(names.iter().map(|name| note(name, 0)).collect()).await;
    desk.batch(names[..10].iter().map(|name| delete("note", name)).collect()).await;
    desk.batch(names[5..20].iter().map(|name| note(name, 1)).collect()).await;
    let at = desk.head().await;
    let moments = [at, at - 7, at - 15, at - 20, 45, 1];
    let later: [Vec<_>; 3] = [
        // Superseded, deleted, deleted and made again, new.
        names[12..16].iter().map(|name| note(name, 2)).collect(),
        vec![delete("note", "n16"), delete("note", "n17"), note(&names[17], 3), put("late", "x", "{}")],
        names[20..30].iter().map(|name| delete("note", name)).collect(),
    ];
    for commands in later {
        desk.batch(commands).await;
        compact_is_exact(&desk, &moments).await;
    }
    // Far more than the bound of 10,000 beyond which the history is walked.
    for round in 0..3 {
        let many = (0..3_400).map(|n| note(&names[30 + n % 10], 1_000 + 3_400 * round + n)).collect();
        desk.batch(many).await;
        compact_is_exact(&desk, &moments).await;
    }
    assert!(desk.head().await - at > 10_000);
}

async fn compact_is_exact(desk: &Desk, moments: &[i64]) {
    let log = desk.scanned(Scan { until: seq(moments[0]), ..desk.whole().await }, USUAL).await;
    let whole = fold(&log[..moments[0] as usize]).len();
    for &at in moments {
        let known = &log[..at as usize];
        for selection in [
            Selection::All,
            Selection::resources(vec![resource("note")]),
            Selection::entities(resource("note"), ["n03", "n06", "n13", "n17", "n25", "n35"].map(entity_id).to_vec()),
        ] {
            for (after, skips_tombstones) in [(0, true), (0, false), (at / 2, true), (at / 2, false)] {
                let depth = Depth::Newest { at: seq(at), skips_tombstones };
                let scan = Scan { after: seq(after), until: seq(at), selection: selection.clone(), depth };
                let expected = naive_scan(known, after, at, &selection, depth);
                // Small chunks: each is a read of its own.
                let shown = desk.scanned(scan.clone(), ChunkSize { lines: 7, bytes: 1 << 20 }).await;
                assert_eq!(shown, expected, "{scan:?}");
                let extent = desk.extent(&scan, 5).await;
                assert_eq!(extent.matched, expected.len().min(5) as u64, "{scan:?}");
            }
        }
    }
    assert!(whole >= 30);
}

async fn a_selection_may_name_very_many(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let count = 700;
    desk.batch((0..count).map(|n| put(&format!("r{n}"), "x", "{}")).collect()).await;
    let log = desk.lines().await;
    let many = Selection::resources((0..count).filter(|n| n % 7 != 0).map(|n| resource(&format!("r{n}"))).collect());
    let hundred = Selection::entities(resource("r1"), (0..100).map(|n| entity_id(&format!("x{n}"))).collect());
    let newest = Depth::Newest { at: seq(count), skips_tombstones: false };
    for selection in [many, hundred] {
        for depth in [Depth::All, newest] {
            let scan = Scan { after: seq(5), until: seq(count), selection: selection.clone(), depth };
            let expected = naive_scan(&log, 5, count, &selection, depth);
            assert_eq!(desk.extent(&scan, u64::MAX).await.matched, expected.len() as u64);
            assert_eq!(desk.scanned(scan, USUAL).await, expected);
        }
    }
}

async fn a_rare_resource_in_a_long_log_is_found_whole(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let mut commands: Vec<_> =
        (0..5_000).map(|n| put("invoice", &format!("i{}", n % 50), &format!(r#"{{"n":{n}}}"#))).collect();
    for at in [0, 1_700, 4_999] {
        commands.insert(at, put("subscription", &format!("s{at}"), r#"{"status":"active"}"#));
    }
    desk.batch(commands).await;
    let rare = Selection::resources(vec![resource("subscription")]);
    let scan = Scan { selection: rare, ..desk.whole().await };
    let found: Vec<_> = desk.scanned(scan, USUAL).await.into_iter().map(|entry| entry.id).collect();
    assert_eq!(found, ["s0", "s1700", "s4999"]);
    let common = Scan { selection: Selection::resources(vec![resource("invoice")]), ..desk.whole().await };
    assert_eq!(desk.scanned(common, USUAL).await.len(), 5_000, "more than one look-up of candidates");
}

on_every_engine! {
    extents_and_chunks_are_what_a_look_at_every_line_shows,
    pages_of_any_size_put_together_are_the_log,
    a_limit_beyond_every_integer_is_no_limit,
    chunks_end_at_their_bounds_and_a_longer_line_comes_whole,
    extra_members_stand_after_data_in_their_order,
    stamps_follow_the_clock_and_order_does_not,
    tallies_at_every_seq_are_those_of_the_lines_up_to_it,
    a_compact_read_stays_at_its_moment_while_writing_goes_on,
    a_selection_may_name_very_many,
    a_rare_resource_in_a_long_log_is_found_whole,
}
