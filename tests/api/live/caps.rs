//! How many streams there may be.

use scroll::access::Scope;
use scroll::api::Limits;

use crate::support::{Bed, Options, Stream, TestServer, eventually, on_every_engine};

on_every_engine![
    one_stream_too_many_is_refused_and_the_others_run_on,
    a_key_cannot_take_the_places_of_others,
    pages_are_read_however_many_streams_there_are,
];

fn start(bed: &Bed, streams: usize, streams_per_key: usize) -> TestServer {
    bed.start_with(Options { limits: Limits { streams, streams_per_key, ..Limits::default() }, ..Options::default() })
}

const TARGET: &str = "/v1/changes?feed=continuous";
const EVENTS: &[(&str, &str)] = &[("Accept", "text/event-stream")];

fn one_stream_too_many_is_refused_and_the_others_run_on(bed: Bed) {
    let server = start(&bed, 4, 100);
    let mut streams: Vec<Stream> = (0..4).map(|_| Stream::open(&server.client, TARGET)).collect();
    let other = server.client_for("default", &[Scope::Read], None);
    let mut waits = std::collections::BTreeSet::new();
    for (target, headers) in
        [(TARGET, &[] as &[(&str, &str)]), ("/v1/changes", EVENTS), ("/v1/changes?wait=5", &[])].repeat(5)
    {
        let refused = Stream::ask(&other, target, headers).refusal();
        refused.refused(503, "too-many-streams");
        waits.insert(refused.number("retry-after"));
    }
    assert!(waits.len() > 3 && waits.iter().all(|wait| (5..=30).contains(wait)), "{waits:?}");
    server.client.put("/v1/entities/note/n", "{}").expect(201);
    streams.iter_mut().for_each(|stream| assert_eq!(stream.change().seq, 1));
    drop(streams.pop());
    let open = server.metrics.streams.with_label_values(&["continuous"]);
    eventually("a place is free", || open.get() == 3);
    assert_eq!(Stream::open(&other, TARGET).change().seq, 1);
}

fn a_key_cannot_take_the_places_of_others(bed: Bed) {
    let server = start(&bed, 100, 2);
    let _both = (Stream::open(&server.client, TARGET), Stream::events(&server.client, "/v1/changes", &[]));
    Stream::ask(&server.client, TARGET, &[]).refusal().refused(503, "too-many-streams");
    let other = server.client_for("default", &[Scope::Read], None);
    Stream::open(&other, TARGET);
    let published = server.client.get("/v1/log").expect(200).json();
    assert_eq!((&published["limits"]["streams"], &published["limits"]["streams_per_key"]), (&100.into(), &2.into()));
}

fn pages_are_read_however_many_streams_there_are(bed: Bed) {
    let server = start(&bed, 1, 1);
    let _stream = Stream::open(&server.client, TARGET);
    server.client.put("/v1/entities/note/n", "{}").expect(201);
    assert_eq!(server.client.get("/v1/changes").expect(200).lines().len(), 1);
    assert_eq!(server.client.get("/v1/changes?wait=5").expect(200).lines().len(), 1, "nothing to wait for");
    server.client.head("/v1/changes?wait=5&since=now").expect(200);
}
