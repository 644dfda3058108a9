//! What is written comes back as it went in: digits, member order, text, and names of every kind.

use serde_json::Value;

use crate::support::bed::Bed;
use crate::support::commands::{json, key, one, put, submission};
use crate::support::desk::{Desk, written};
use crate::support::{on_every_engine, real_data};

/// The data of a line as it stands there.
fn data_of(raw: &str) -> &str {
    raw.split_once(r#","data":"#).unwrap().1.strip_suffix('}').unwrap()
}

async fn digits_order_and_text_are_kept(bed: Bed) {
    let desk = Desk::open(&bed).await;
    for (number, data) in [
        r#"{"b":1,"a":2,"10":3,"9":4}"#,
        r#"{"n":[9007199254740993,9223372036854775807,18446744073709551616,123456789012345678901234567890]}"#,
        r#"{"n":[1.0,1.50,1e2,1E+5,-0,0.1,1e400,-1e-400]}"#,
        r#"{"s":["","\u0000","\\u0000","\u0085\u2028\u2029","é😀","</script>&","\"\\"]}"#,
        r#"{"seq":1,"deleted":true,"type":"deleted","id":"other","data":null}"#,
        r#"{"\u0000":1,"$serde_json::private::Number":"1","":{}}"#,
        "{}",
    ]
    .into_iter()
    .enumerate()
    {
        let entry = desk.ok(put("note", &format!("n{number}"), data)).await.entry;
        assert_eq!(data_of(&entry.raw), data);
        assert_eq!(desk.entity("note", &format!("n{number}")).await, Some(entry.clone()));
        assert_eq!(desk.lines().await.last(), Some(&entry));
        assert!(!entry.deleted);
    }
}

async fn odd_names_are_entities_of_their_own(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let long = "ü".repeat(127);
    let ids =
        ["a/b", "a%2Fb", "..", ".", "a b", "a+b", "a?b#c", "ä", "a\u{308}", "A", "a", "\"", "\\", "\u{2028}", &long];
    for (number, id) in ids.iter().enumerate() {
        let written = desk.ok(put("note", id, &format!(r#"{{"n":{number}}}"#))).await;
        assert!(written.is_created, "{id:?} met another entity");
        assert_eq!(written.entry.id, *id);
    }
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(desk.entity("note", id).await.unwrap().data["n"], number);
    }
}

async fn a_line_of_several_megabytes_comes_whole(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let data = format!(r#"{{"x":"{}"}}"#, "é".repeat(1 << 20));
    let mut large = one(put("note", "large", &data));
    large.size_bytes = data.len();
    assert_eq!(data_of(&written(desk.submit(large).await).entry.raw), data);
    for number in 0..10 {
        desk.ok(put("note", &format!("n{number}"), "{}")).await;
    }
    let lines = desk.lines().await;
    assert_eq!((lines.len(), data_of(&lines[0].raw).len()), (11, data.len()));
}

/// Each body that is JSON and an object is kept to the letter of its values; each other one is refused.
async fn the_payload_pitfalls_are_kept_or_refused(bed: Bed) {
    let Some(folder) = real_data() else { return };
    let desk = Desk::open(&bed).await;
    let index = std::fs::read_to_string(folder.join("json/index.tsv")).unwrap();
    let (mut kept, mut refused) = (0, 0);
    for line in index.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        if !columns[0].starts_with("entity/") {
            continue;
        }
        let bytes = std::fs::read(folder.join("json").join(columns[0])).unwrap();
        let parsed = scroll::change::json::parse(&bytes);
        let expected =
            columns.iter().find(|column| matches!(**column, "KEEP" | "KEEP|422" | "400" | "422" | "400|422"));
        match expected.copied() {
            Some("KEEP" | "KEEP|422") => {
                let mut write = one(put("pitfall", columns[0], "{}"));
                write.work = submission(scroll::entity::Work::One(scroll::entity::Command {
                    key: key("pitfall", columns[0]),
                    operation: scroll::entity::Operation::Put(parsed.unwrap().into()),
                    preconditions: Default::default(),
                }))
                .work;
                let entry = written(desk.submit(write).await).entry;
                let sent: Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(entry.data, sent, "{}", columns[0]);
                kept += 1;
            }
            Some(_) => {
                let is_object = parsed.as_ref().is_ok_and(|json| json.as_object().is_some());
                assert!(!is_object, "{} would be stored", columns[0]);
                refused += 1;
            }
            None => panic!("{line:?}"),
        }
    }
    assert!(kept >= 10 && refused >= 20, "{kept} kept, {refused} refused");
    assert_eq!(desk.head().await, kept);
}

async fn real_objects_are_read_back_equal(bed: Bed) {
    let Some(folder) = real_data() else { return };
    let desk = Desk::open_with(&bed, crate::support::bed::Options::types("[resource.none]\nprefix = \"n\"")).await;
    let mut sent: Vec<(String, String, Value)> = Vec::new();
    let fixtures: Value =
        serde_json::from_slice(&std::fs::read(folder.join("stripe/fixtures3.json")).unwrap()).unwrap();
    for (name, value) in fixtures["resources"].as_object().unwrap() {
        sent.push((name.to_lowercase(), "x".into(), value.clone()));
    }
    assert_eq!(sent.len(), 176);
    for file in std::fs::read_dir(folder.join("github")).unwrap() {
        let file = file.unwrap();
        let value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
        sent.push(("hook".into(), file.file_name().into_string().unwrap(), value));
    }
    assert!(sent.len() > 260);
    let commands = sent.iter().map(|(resource, id, value)| put(resource, id, &value.to_string())).collect();
    desk.batch(commands).await;
    let lines = desk.lines().await;
    assert_eq!(lines.len(), sent.len());
    for (entry, (resource, id, value)) in lines.iter().zip(&sent) {
        assert_eq!((&entry.resource, &entry.id, &entry.data), (resource, id, value));
        assert_eq!(json(data_of(&entry.raw)).to_string(), data_of(&entry.raw));
    }
}

on_every_engine! {
    digits_order_and_text_are_kept,
    odd_names_are_entities_of_their_own,
    a_line_of_several_megabytes_comes_whole,
    the_payload_pitfalls_are_kept_or_refused,
    real_objects_are_read_back_equal,
}
