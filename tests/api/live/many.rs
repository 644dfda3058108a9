//! Many followers in mixed modes, cut off and resumed at random while writes go on: each has every change
//! exactly once and in order.
//!
//! `SCROLL_TEST_FOLLOWERS` says how many there are, `SCROLL_TEST_FOLLOWED_CHANGES` of how many changes.

use std::sync::atomic::{AtomicU64, Ordering};

use scroll::api::Limits;

use crate::support::{Bed, Client, Options, Stream, at_once, eventually, on_every_engine};

on_every_engine![every_follower_has_every_change_exactly_once];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}

/// One follower: its mode and what it has seen.
struct Reader<'a> {
    client: &'a Client,
    mode: usize,
    last: u64,
    cuts: u64,
}

impl Reader<'_> {
    fn take(&mut self, seq: u64) {
        assert_eq!(seq, self.last + 1, "mode {}", self.mode);
        self.last = seq;
    }

    /// Opens an answer, takes at most so many lines of it, and leaves.
    fn visit(&mut self, lines: u64, total: u64) {
        let end = (self.last + lines).min(total);
        match self.mode {
            0 => {
                let target = format!("/v1/changes?wait=5&limit={lines}&since={}", self.last);
                let answer = self.client.get(&target).expect(200);
                answer.lines().iter().for_each(|line| self.take(line.seq));
            }
            1 => {
                let target = format!("/v1/changes?feed=continuous&since={}", self.last);
                let mut stream = Stream::open(self.client, &target);
                while self.last < end {
                    let seq = stream.change().seq;
                    self.take(seq);
                }
            }
            _ => {
                let mut headers = vec![("Accept", "text/event-stream")];
                let last = self.last.to_string();
                if self.last > 0 {
                    headers.push(("Last-Event-ID", &last));
                }
                let mut stream = Stream::open_with(self.client, "/v1/changes", &headers);
                while self.last < end {
                    let id = stream.next_event("change").id.unwrap();
                    self.take(id.parse().unwrap());
                }
            }
        }
        self.cuts += 1;
    }
}

fn every_follower_has_every_change_exactly_once(bed: Bed) {
    let (followers, total) = (setting("SCROLL_TEST_FOLLOWERS", 200), setting("SCROLL_TEST_FOLLOWED_CHANGES", 800));
    let many = usize::try_from(followers * 2).unwrap();
    let limits = Limits { streams: many, streams_per_key: many, ..Limits::default() };
    let server = bed.start_with(Options { limits, ..Options::default() });
    let (cuts, begun) = (AtomicU64::new(0), AtomicU64::new(0));
    let client = &server.client;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("all have begun", || begun.load(Ordering::SeqCst) == followers);
            at_once(4, |writer| {
                for number in 0..total / 4 {
                    client.put(&format!("/v1/entities/note/{writer}-{number}"), "{}").expect(201);
                }
            });
        });
        for number in 0..followers {
            let (cuts, begun) = (&cuts, &begun);
            let follow = move || {
                let client = Client::new(client.address()).with_key(&client.key());
                let mut reader =
                    Reader { client: &client, mode: usize::try_from(number % 3).unwrap(), last: 0, cuts: 0 };
                let mut random = number * 2 + 1;
                begun.fetch_add(1, Ordering::SeqCst);
                while reader.last < total {
                    // A generator of Lehmer, seeded by the follower's number.
                    random = random * 48_271 % 0x7fff_ffff;
                    reader.visit(1 + random % (total / 3), total);
                }
                cuts.fetch_add(reader.cuts, Ordering::SeqCst);
            };
            std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, follow).unwrap();
        }
    });
    assert!(cuts.load(Ordering::SeqCst) > 3 * followers, "they were cut off again and again");
    let open = || {
        ["long-poll", "continuous", "sse"]
            .iter()
            .map(|mode| server.metrics.streams.with_label_values(&[mode]).get())
            .sum::<i64>()
    };
    eventually("nobody follows any more", || open() == 0);
    eventually("no task is left", || server.metrics.tasks.with_label_values(&["tail"]).get() == 0);
}
