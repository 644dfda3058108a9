//! The inputs that lie beside the repository: every one is kept exactly, or refused without a trace.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use scroll::entity::types::Catalog;
use serde_json::Value;

use super::support::{Bed, Entry, Options, data, on_every_engine};

on_every_engine![
    every_file_of_the_corpus_is_kept_byte_for_byte_or_refused_without_a_trace,
    every_object_of_a_billing_api_comes_back_through_the_feed,
    every_real_webhook_payload_comes_back_through_the_feed,
];

fn target(resource: &str, id: &str) -> String {
    format!("/v1/entities/{resource}/{}", utf8_percent_encode(id, NON_ALPHANUMERIC))
}

/// JSON as section 2 sends it, worked out from the text alone: blanks outside strings go, digits and order
/// stay, strings are decoded and written anew.
fn compacted(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text.chars().peekable());
    while let Some(character) = rest.next() {
        match character {
            ' ' | '\t' | '\n' | '\r' => {}
            '"' => string(&mut out, &mut rest),
            other => out.push(other),
        }
    }
    out
}

fn string(out: &mut String, rest: &mut impl Iterator<Item = char>) {
    out.push('"');
    let mut units: Vec<u16> = Vec::new();
    loop {
        match rest.next().unwrap() {
            '"' => break,
            '\\' => units.push(match rest.next().unwrap() {
                'n' => 10,
                't' => 9,
                'r' => 13,
                'b' => 8,
                'f' => 12,
                'u' => {
                    let digits: String = rest.take(4).collect();
                    u16::from_str_radix(&digits, 16).unwrap()
                }
                plain => plain as u16,
            }),
            plain => units.extend(plain.encode_utf16(&mut [0; 2]).iter()),
        }
    }
    for character in String::from_utf16(&units).unwrap().chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", character as u32).unwrap();
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[test]
fn the_expectation_of_the_corpus_is_worked_out_rightly() {
    let text = " {\"b\" : [ 1.00e5 ,\"\\u00e9 \\/ \\ud83d\\ude00 \\u2028\" ],\"a\":\"\\\"\\n\"}\n";
    assert_eq!(compacted(text), "{\"b\":[1.00e5,\"é / 😀 \\u2028\"],\"a\":\"\\\"\\n\"}");
}

/// No resource of these tests is declared.
fn undeclared() -> Options {
    Options { catalog: Catalog::from_toml("[resource.unused]\nprefix = \"u_\"\n").unwrap(), ..Options::default() }
}

/// What was kept, by the name of its file.
struct Kept {
    name: String,
    data: String,
}

impl Kept {
    #[track_caller]
    fn compare(&self, entry: &Entry, place: &str) {
        assert_eq!(entry.data_text(), self.data, "{} {place}", self.name);
    }
}

fn every_file_of_the_corpus_is_kept_byte_for_byte_or_refused_without_a_trace(bed: Bed) {
    let Some(folder) = data::folder() else { return };
    let index = fs::read_to_string(folder.join("json/index.tsv")).unwrap();
    let rows: Vec<Vec<&str>> = index.lines().map(|line| line.split('\t').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let (file, expected) = (column("file"), column("expected"));
    let rows: Vec<_> = rows[1..].iter().filter(|row| row[file].starts_with("entity/")).collect();
    let listed: BTreeSet<_> = rows.iter().map(|row| row[file].strip_prefix("entity/").unwrap().to_owned()).collect();
    assert_eq!(listed, files(&folder.join("json/entity")), "the index names every file");
    assert!(listed.len() >= 50);

    let server = bed.start_with(undeclared());
    let client = server.client.clone();
    let mut kept = Vec::new();
    for row in rows {
        let body = fs::read(folder.join("json").join(row[file])).unwrap();
        let head = client.log_head();
        let answer = client
            .ask("PUT", &target("corpus", row[file]))
            .header("Content-Type", "application/json")
            .body(body.clone())
            .send();
        let is_allowed = match row[expected] {
            "KEEP" => answer.status == 201,
            "KEEP|422" => [201, 422].contains(&answer.status),
            "400" => answer.status == 400,
            "400|422" => [400, 422].contains(&answer.status),
            other => panic!("what does {other:?} expect of {}?", row[file]),
        };
        assert!(is_allowed, "{} expects {}: {}", row[file], row[expected], answer.told());
        if answer.status == 201 {
            let one = Kept { name: row[file].to_owned(), data: compacted(std::str::from_utf8(&body).unwrap()) };
            one.compare(&answer.line(), "in the answer");
            one.compare(&client.get(&target("corpus", row[file])).expect(200).line(), "in GET");
            kept.push(one);
        } else {
            assert_eq!(client.log_head(), head, "{} left a trace", row[file]);
            client.get(&target("corpus", row[file])).refused(404, "not-found");
            refused_in_a_batch_too(&client, &body);
        }
    }
    assert!(kept.len() >= 17);
    compare_feed(&client, &kept, "in the feed");
    client.get("/v1/log").expect(200);
    drop(client);
    server.stop();
    let server = bed.start_with(undeclared());
    compare_feed(&server.client, &kept, "in the feed after a restart");
    let compact = server.client.get("/v1/changes?compact=true&limit=1000").expect(200).lines();
    compact.iter().zip(&kept).for_each(|(entry, one)| one.compare(entry, "in a compact bootstrap"));
    assert_eq!(compact.len(), kept.len());
}

fn refused_in_a_batch_too(client: &super::support::Client, data: &[u8]) {
    let mut line = br#"[{"op":"put","resource":"corpus","id":"x","data":"#.to_vec();
    line.extend_from_slice(data);
    line.extend_from_slice(b"}]");
    let answer = client.ask("POST", "/v1/batch").header("Content-Type", "application/json").body(line).send();
    // A comma and a second object after it are members or operations of the batch; still nothing valid.
    assert!([400, 422].contains(&answer.status), "{}", answer.told());
}

fn compare_feed(client: &super::support::Client, kept: &[Kept], place: &str) {
    let lines = client.all_lines();
    assert_eq!(lines.len(), kept.len(), "{place}");
    lines.iter().zip(kept).for_each(|(entry, one)| one.compare(entry, place));
}

fn files(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Writes each object under its resource and reads all of them back.
fn write_and_read_back(bed: &Bed, objects: &[(String, String, String)]) {
    let server = bed.start_with(undeclared());
    for (resource, id, text) in objects {
        let written = server.client.put(&target(resource, id), text).expect(201).line();
        assert_eq!(written.data_text(), compacted(text), "{resource}/{id} in the answer");
    }
    let lines = server.client.all_lines();
    assert_eq!(lines.len(), objects.len());
    for (line, (resource, id, text)) in lines.iter().zip(objects) {
        assert_eq!((&line.resource, &line.id, line.deleted), (resource, id, false));
        assert_eq!(line.data, serde_json::from_str::<Value>(text).unwrap(), "{resource}/{id}");
        assert_eq!(line.data_text(), compacted(text), "{resource}/{id} in the feed");
    }
}

fn every_object_of_a_billing_api_comes_back_through_the_feed(bed: Bed) {
    let Some(folder) = data::folder() else { return };
    let fixtures: Value = serde_json::from_slice(&fs::read(folder.join("stripe/fixtures3.json")).unwrap()).unwrap();
    let resources = fixtures["resources"].as_object().unwrap();
    let objects: Vec<_> = resources
        .iter()
        .map(|(name, object)| {
            let id = object["id"].as_str().filter(|id| !id.is_empty()).unwrap_or(name).to_owned();
            (name.replace('/', "."), id, serde_json::to_string_pretty(object).unwrap())
        })
        .collect();
    assert_eq!(objects.len(), 176);
    write_and_read_back(&bed, &objects);
}

fn every_real_webhook_payload_comes_back_through_the_feed(bed: Bed) {
    let Some(folder) = data::folder() else { return };
    let names = files(&folder.join("github"));
    let objects: Vec<_> = names
        .iter()
        .map(|name| {
            let event = name.split("__").next().unwrap().split('.').next().unwrap();
            (event.to_owned(), name.clone(), fs::read_to_string(folder.join("github").join(name)).unwrap())
        })
        .collect();
    assert!(objects.len() >= 90);
    write_and_read_back(&bed, &objects);
}
