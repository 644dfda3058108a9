//! Continuous and server-sent events: an answer without an end (PROTOCOL section 5).

use actix_web::HttpResponse;
use actix_web::body::BodySize;
use actix_web::http::header;
use tokio::time::Instant;

use super::live_body::LiveBody;
use super::query::Endless;
use super::{Reading, headers, problem};
use crate::api::body::Unsent;
use crate::api::problem::Problem;
use crate::api::streams::Mode;
use crate::feed::PageRequest;
use crate::feed::follow::{self, FollowRequest, Lifetime, Source};
use crate::feed::form::{Form, Framing};
use crate::jitter;

/// Answers with the first byte of a stream; HEAD with its headers.
pub async fn answer(reading: Reading, page: PageRequest, endless: Endless) -> Result<HttpResponse, Problem> {
    let app = &reading.app;
    let Endless { framing, heartbeat, has_control } = endless;
    let form = Form { framing, fields: page.fields };
    let (store, tails, tasks) = (app.store.clone(), app.tails.clone(), app.tasks.clone());
    let source = Source { store, tails, tasks, log: reading.log.id };
    let request = FollowRequest { page, form, heartbeat, has_control };
    let place = follow::open(source, &app.catalog, request).await.map_err(problem)?;
    let mut response = HttpResponse::Ok();
    response
        .insert_header(("Scroll-Head", place.position.head.to_string()))
        .insert_header(("Scroll-Floor", place.position.floor.to_string()))
        .insert_header(("Scroll-Epoch", place.position.epoch.to_string()))
        .insert_header((header::CACHE_CONTROL, "no-store, no-transform"))
        .insert_header(headers::UNBUFFERED)
        .insert_header((header::CONTENT_TYPE, reading.form));
    if reading.is_head() {
        return Ok(response.body(Unsent(BodySize::Stream)));
    }
    let mode = match framing {
        Framing::Lines => Mode::Continuous,
        Framing::Events => Mode::Events,
    };
    let pass = app.streams.admit(&reading.caller, mode)?;
    let times = &app.stream_times;
    let until = Instant::now() + jitter::between(&times.max_age);
    let follower = place.follow(Lifetime { until, ending: pass.ending.clone() });
    let signs = reading.signs();
    signs.expect(times.max_stall);
    let request_id = reading.request_id.clone();
    Ok(response.body(LiveBody::new(follower, pass, signs, app.metrics.clone(), request_id)))
}
