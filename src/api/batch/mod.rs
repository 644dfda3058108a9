//! `POST /v1/batch`: several writes, all or nothing.

mod operation;

use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;

use self::operation::{Envelope, resource_named};
use super::App;
use super::extract::{Body, Caller, RequestId};
use super::problem::Problem;
use super::writes::Intake;
use crate::access::Scope;
use crate::change::Json;
use crate::change::json::{self, MAX_DEPTH};
use crate::entity::types::Violation;
use crate::entity::{Refusal, Refused, Work};

const ARRAY: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const TYPES: &[&str] = &[ARRAY, LINES];
/// Levels of the envelope above `data`: the operation, and the array around it.
const LEVELS_IN_LINES: u32 = 1;
const LEVELS_IN_ARRAY: u32 = 2;

/// Carries out a batch.
pub async fn write(
    app: web::Data<App>,
    caller: Caller,
    request_id: RequestId,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Write)?;
    let intake = Intake::of(app.clone(), &caller, &request, request_id)?.for_batch();
    let body = Body::of(&request, payload);
    let media_type = body.media_type(TYPES)?;
    let bytes = body.read(app.limits.batch_bytes).await?;
    let items = parsed_aside(media_type, bytes.clone()).await?;
    if let Ok(items) = &items {
        check_count(items, app.limits.batch_operations)?;
        check_access(&caller, items)?;
    }
    let work = match items {
        Ok(items) => commands(&app, items)?,
        Err(refused) => Err(refused),
    };
    intake.submit(&bytes, work).await
}

/// As [`parsed`], on a thread where it keeps nobody waiting: 16 MiB of JSON take a while.
async fn parsed_aside(media_type: &'static str, bytes: Bytes) -> Result<Result<Vec<Json>, Refused>, Problem> {
    let parsing = tokio::task::spawn_blocking(move || parsed(media_type, &bytes));
    parsing.await.map_err(|error| Problem::internal(&error))
}

/// The operations as they were written.
fn parsed(media_type: &str, bytes: &Bytes) -> Result<Vec<Json>, Refused> {
    let invalid = |detail: String| Refusal::InvalidBody { detail };
    if media_type == LINES {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let parse = |line: &[u8]| json::parse_with_depth(line, MAX_DEPTH + LEVELS_IN_LINES);
        let items = lines
            .enumerate()
            .map(|(index, line)| parse(line).map_err(|malformed| invalid(malformed.to_string()).at(index)));
        return items.collect();
    }
    match json::parse_with_depth(bytes, MAX_DEPTH + LEVELS_IN_ARRAY) {
        Ok(Json::Array(items)) => Ok(items),
        Ok(other) => Err(invalid(format!("an array of operations is due, and this is {}", other.kind())).into()),
        Err(malformed) => Err(invalid(malformed.to_string()).into()),
    }
}

fn check_count(items: &[Json], most: usize) -> Result<(), Problem> {
    if items.len() > most { Err(Problem::TooLarge { limit: format!("{most} operations") }) } else { Ok(()) }
}

/// A resource that the key does not cover is an answer about access: it comes before every other, and is
/// not remembered.
fn check_access(caller: &Caller, items: &[Json]) -> Result<(), Problem> {
    items.iter().filter_map(resource_named).try_for_each(|resource| caller.require_resource(&resource))
}

/// The work; `Err` when an id could not be made, which is no answer to remember.
fn commands(app: &App, items: Vec<Json>) -> Result<Result<Work, Refused>, Problem> {
    if items.is_empty() {
        let errors = vec![Violation { pointer: String::new(), reason: "a batch has at least one operation".into() }];
        return Ok(Err(Refusal::SchemaViolation { errors }.into()));
    }
    let mut commands = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        match Envelope::read(item).and_then(Envelope::addressed) {
            Ok(addressed) => commands.push(addressed.command(|resource| super::entities::new_id(app, resource))?),
            Err(refusal) => return Ok(Err(refusal.at(index))),
        }
    }
    Ok(Ok(Work::Batch(commands)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(media_type: &str, text: &str) -> Option<usize> {
        parsed(media_type, &Bytes::copy_from_slice(text.as_bytes())).unwrap_err().index
    }

    #[test]
    fn lines_and_arrays_hold_the_same_operations() {
        let array = parsed(ARRAY, &Bytes::from_static(b"[{\"op\":\"put\"},\n{}]")).unwrap();
        let lines = parsed(LINES, &Bytes::from_static(b"{\"op\":\"put\"}\r\n\n{}")).unwrap();
        assert_eq!(array, lines);
        assert_eq!(index(LINES, "{}\n{\n{}"), Some(1));
        assert_eq!(index(ARRAY, "[{},{]"), None);
        assert_eq!(index(ARRAY, "{}"), None);
    }

    #[test]
    fn the_envelope_does_not_count_as_depth_of_the_data() {
        let data = format!("{}1{}", "[".repeat(127), "]".repeat(127));
        let array = Bytes::from(format!("[{{\"data\":{data}}}]"));
        assert!(parsed(ARRAY, &array).is_ok());
        let lines = Bytes::from(format!("{{\"data\":{data}}}\n"));
        assert!(parsed(LINES, &lines).is_ok());
        let deep = "[".repeat(200);
        for (media_type, text) in [(ARRAY, format!("[{{\"data\":{deep}")), (LINES, format!("{{\"data\":{deep}"))] {
            let refused = parsed(media_type, &text.into()).unwrap_err();
            assert!(matches!(&refused.refusal, Refusal::InvalidBody { detail } if detail.contains("than 128 levels")));
        }
    }
}
