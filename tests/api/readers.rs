//! Real programs read the feed: every line of nasty content is one line and one JSON value to each.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::support::{Bed, data, on_every_engine};

on_every_engine![programs_read_every_line_of_a_nasty_feed];

/// Prints each line's seq and the length of its text in UTF-16 units, however the program splits lines.
const PYTHON: &str = r#"
import json, sys
text = sys.stdin.buffer.read().decode("utf-8")
for line in text.splitlines():
    value = json.loads(line, parse_float=str, parse_int=int)
    print(value["seq"], len(value["data"]["t"].encode("utf-16-le", "surrogatepass")) // 2)
"#;
const NODE: &str = r#"
const lines = require("readline").createInterface({ input: process.stdin, crlfDelay: Infinity });
lines.on("line", line => { const value = JSON.parse(line); console.log(value.seq, value.data.t.length); });
"#;
const JQ: &str = r#""\(.seq) \(.data.t | explode | map(if . > 65535 then 2 else 1 end) | add // 0)""#;

/// C032 and its kind.
fn programs_read_every_line_of_a_nasty_feed(bed: Bed) {
    let server = bed.start();
    let texts = [
        "\u{2028}",
        "\u{2029}",
        "\u{85}",
        "\r\n",
        "\u{b}\u{c}\u{1c}\u{1d}\u{1e}",
        "\u{feff}",
        "\0",
        "\\u0000",
        "\"\\/",
        "</script>",
        "😀\u{10ffff}",
        "a\u{308}",
        "\u{7f}\u{9f}",
        "",
        "}{\"seq\":1}",
        "\u{200b}\u{202e}",
        "data: x\n\n",
    ];
    for (number, text) in texts.iter().enumerate() {
        let body = format!(
            "{{\"t\":{},\"big\":123456789012345678901234567890,\"exp\":1e400}}",
            serde_json::to_string(text).unwrap()
        );
        server.client.put(&format!("/v1/entities/note/{number}"), &body).expect(201);
    }
    let feed = server.client.get("/v1/changes").expect(200).body;
    let expected: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| format!("{} {}", index + 1, text.encode_utf16().count()))
        .collect();
    for (name, arguments) in [("python3", ["-c", PYTHON]), ("node", ["-e", NODE]), ("jq", ["-r", JQ])] {
        let Some(program) = data::program(name) else { continue };
        let mut child =
            Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&feed).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}");
        let told: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(told, expected, "{name}");
    }
}
