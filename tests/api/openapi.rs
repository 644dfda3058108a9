//! openapi.yaml and the server say the same, in both directions.

use std::collections::BTreeSet;

use scroll::api::problem::kind;
use scroll::api::routes::routes;
use serde_json::Value;

use super::support::contract::{DOCUMENT, PROBLEMS};
use super::support::{Bed, on_every_engine, parse_lines};

on_every_engine![the_file_lists_exactly_the_parameters_that_the_server_takes, the_file_is_served_as_it_is];

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Follows `$ref`.
fn resolved(value: &'static Value) -> &'static Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(pointer) => {
            let pointer = pointer.strip_prefix('#').unwrap();
            resolved(DOCUMENT.pointer(pointer).unwrap_or_else(|| panic!("{pointer} points to nothing")))
        }
        None => value,
    }
}

fn operations() -> Vec<(&'static str, &'static str, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let of_path = |(path, item): (&'static String, &'static Value)| {
        METHODS.iter().filter_map(move |method| Some((path.as_str(), *method, item.get(method)?)))
    };
    paths.iter().flat_map(of_path).collect()
}

#[test]
fn routes_and_file_are_equal_in_both_directions() {
    let of_file: BTreeSet<_> =
        operations().iter().map(|(path, method, _)| (path.to_string(), method.to_uppercase())).collect();
    let of_server: BTreeSet<_> =
        routes().iter().map(|endpoint| (endpoint.path.to_owned(), endpoint.method.to_string())).collect();
    assert!(of_server.len() > 20);
    assert_eq!(of_file, of_server);
}

#[test]
fn problems_are_equal_in_protocol_server_and_file() {
    let of_protocol: BTreeSet<_> = PROBLEMS.iter().map(|(slug, status, ..)| (slug.to_string(), *status)).collect();
    let of_server: BTreeSet<_> = kind::ALL.iter().map(|kind| (kind.slug.to_owned(), kind.status)).collect();
    assert_eq!(of_protocol, of_server);
    let slugs = DOCUMENT["components"]["schemas"]["ProblemSlug"]["enum"].as_array().unwrap();
    let of_file: BTreeSet<_> = slugs.iter().map(|slug| slug.as_str().unwrap().to_owned()).collect();
    assert_eq!(of_file, of_server.iter().map(|(slug, _)| slug.clone()).collect());
}

#[test]
fn members_of_problems_are_those_of_their_pages() {
    for (slug, _, required, allowed) in PROBLEMS {
        let of_protocol: BTreeSet<&str> = required.iter().chain(*allowed).copied().collect();
        let members = kind::Kind::of(slug).unwrap().members;
        let of_page: BTreeSet<&str> = members.iter().map(|(member, _)| *member).filter(|m| *m != "index").collect();
        let of_protocol: BTreeSet<&str> = of_protocol.into_iter().filter(|member| *member != "index").collect();
        assert_eq!(of_page, of_protocol, "{slug}");
    }
}

/// Calls `see` with every object of the file and the path to it.
fn walk(value: &'static Value, path: &str, see: &mut impl FnMut(&str, &'static Value)) {
    see(path, value);
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| walk(value, &format!("{path}/{name}"), see));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| walk(value, &format!("{path}/{index}"), see));
        }
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let mut count = 0;
    walk(&DOCUMENT, "", &mut |_, value| {
        if value.get("$ref").is_some_and(Value::is_string) {
            resolved(value);
            count += 1;
        }
    });
    assert!(count > 100);
}

#[test]
fn every_operation_explains_itself_and_refuses_as_every_operation_does() {
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations() {
        let named = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{named}");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{named}");
        let statuses: BTreeSet<&str> = operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
        for status in ["400", "405", "414", "431", "500"] {
            assert!(statuses.contains(status), "{named} {status}");
        }
        let is_public = operation["security"].as_array().is_some_and(Vec::is_empty);
        assert_eq!(statuses.contains("401"), !is_public, "{named}");
    }
}

#[test]
fn every_example_parses_and_fits_the_status_it_stands_under() {
    let mut count = 0;
    for (path, method, operation) in operations() {
        let bodies =
            operation["responses"].as_object().unwrap().iter().map(|(status, response)| (status.as_str(), response));
        let asked = operation.get("requestBody").map(|body| ("request", body));
        for (status, response) in bodies.chain(asked) {
            let Some(content) = resolved(response).get("content").and_then(Value::as_object) else { continue };
            for (media_type, described) in content {
                let named = format!("{method} {path} {status} {media_type}");
                let examples = described.get("examples").and_then(Value::as_object);
                let examples: Vec<&'static Value> = match examples {
                    Some(examples) => examples.values().map(|example| &resolved(example)["value"]).collect(),
                    None => described.get("example").into_iter().collect(),
                };
                let is_for_machines = media_type.contains("json");
                assert!(!examples.is_empty() || !is_for_machines, "{named} has no example");
                for example in examples {
                    check_example(&named, status, media_type, example);
                    count += 1;
                }
            }
        }
    }
    assert!(count > 100, "{count}");
}

fn check_example(named: &str, status: &str, media_type: &str, example: &Value) {
    match media_type {
        "application/problem+json" => {
            assert_eq!(example["status"].as_u64().unwrap().to_string(), status, "{named}");
            let slug = example["type"].as_str().unwrap().strip_prefix("/problems/").unwrap();
            let (_, known, required, allowed) =
                PROBLEMS.iter().find(|(known, ..)| *known == slug).unwrap_or_else(|| panic!("{named}: {slug}"));
            assert_eq!(known.to_string(), status, "{named}");
            let members = example.as_object().unwrap();
            required.iter().for_each(|member| assert!(members.contains_key(*member), "{named}: {slug} lacks {member}"));
            for member in members.keys().skip(5) {
                let is_known = required.contains(&member.as_str()) || allowed.contains(&member.as_str());
                assert!(is_known, "{named}: {slug} has {member}");
            }
        }
        "application/x-ndjson" if status == "request" => {
            let text = example.as_str().unwrap();
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            assert!(lines.count() > 0, "{named}");
        }
        "application/x-ndjson" => drop(parse_lines(example.as_str().unwrap().as_bytes())),
        "application/json" | "application/merge-patch+json" | "application/yaml" => {
            assert!(example.is_object() || example.is_array(), "{named}: {example}");
        }
        _ => assert!(example.is_string(), "{named}: {example}"),
    }
}

fn the_file_lists_exactly_the_parameters_that_the_server_takes(bed: Bed) {
    let server = bed.start();
    server.client.put("/v1/entities/note/n", "{}").expect(201);
    let mut asked = 0;
    for (path, method, operation) in operations() {
        let of_path = DOCUMENT["paths"][path].get("parameters").and_then(Value::as_array);
        let own = operation.get("parameters").and_then(Value::as_array);
        let parameters: Vec<_> = own.into_iter().chain(of_path).flatten().map(resolved).collect();
        let in_query = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let of_file: BTreeSet<&str> = in_query.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        let target = path.replace("{resource}", "note").replace("{id}", "n").replace("{action}", "x");
        let target = target.replace("{file}", "swagger-ui.css").replace("{slug}", "internal");
        let answer = server.client.ask(&method.to_uppercase(), &format!("{target}?nonsense=1"));
        let answer = if ["post", "put"].contains(&method) {
            answer.json("{}")
        } else if method == "patch" {
            answer.merge_patch("{}")
        } else {
            answer
        }
        .send();
        if answer.status == 403 && path == "/v1/admin/logs" {
            continue;
        }
        let expected = answer.refused_parameter("nonsense")["expected"].as_str().unwrap().to_owned();
        let of_server: BTreeSet<&str> = match expected.strip_prefix("one of the parameters ") {
            Some(list) => list.split(", ").collect(),
            None => BTreeSet::new(),
        };
        assert_eq!(of_file, of_server, "{method} {path}");
        asked += 1;
    }
    assert!(asked > 20);
}

fn the_file_is_served_as_it_is(bed: Bed) {
    let server = bed.start();
    let answer = super::support::Client::new(server.client.address()).get("/openapi.yaml").expect(200);
    assert_eq!(answer.text(), super::support::contract::TEXT);
}
