//! The outermost layer. Whatever happens inside, the answer has a request id, the headers that every answer
//! has, and, when it is a refusal, a problem document.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, Method, StatusCode, Version};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpResponse, ResponseError, web};
use futures::FutureExt as _;

use super::access_log::Entry;
use super::cors::{self, Cors};
use crate::api::App;
use crate::api::body::Watched;
use crate::api::extract::{Caller, RequestId};
use crate::api::problem::{Cause, Problem};
use crate::metrics::Metrics;

const REQUEST_ID: HeaderName = HeaderName::from_static("scroll-request-id");
const VARY: HeaderValue = HeaderValue::from_static("Authorization, Accept, Accept-Encoding");
const VARY_WITH_ORIGIN: HeaderValue = HeaderValue::from_static("Authorization, Accept, Accept-Encoding, Origin");
/// Methods that label a metric by name; clients may invent others without end.
const COUNTED_METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// Frames one request.
pub async fn frame(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let frame = Frame::of(&request);
    request.extensions_mut().insert(frame.request_id.clone());
    if frame.is_granted_preflight {
        let response = frame.finish(cors::preflight(), None);
        return Ok(request.into_response(response));
    }
    let answered = AssertUnwindSafe(async move { next.call(request).await }).catch_unwind().await;
    match answered {
        Ok(Ok(response)) => {
            let (request, response) = response.into_parts();
            let caller = request.extensions().get::<Caller>().cloned();
            let response = frame.finish(response.map_into_boxed_body(), caller);
            Ok(ServiceResponse::new(request, response))
        }
        Ok(Err(error)) => Err(Unframed { frame, problem: problem_of(&error) }.into()),
        Err(panic) => {
            let cause = Cause::from(format!("a panic: {}", words_of(&*panic)));
            Err(Unframed { frame, problem: Problem::Internal(cause) }.into())
        }
    }
}

/// What is known of a request before it is looked into.
#[derive(Debug)]
struct Frame {
    began: Instant,
    request_id: RequestId,
    method: Method,
    version: Version,
    path: String,
    origin: Option<HeaderValue>,
    is_granted_preflight: bool,
    vary: HeaderValue,
    metrics: Option<Arc<Metrics>>,
}

impl Frame {
    fn of(request: &ServiceRequest) -> Frame {
        let cors = request.app_data::<web::Data<Cors>>();
        let origin = cors.and_then(|cors| cors.origin(request.headers()));
        let is_preflight = cors::is_preflight(request.method(), request.headers());
        let depends_on_origin = cors.is_some_and(|cors| cors.is_on());
        Frame {
            began: Instant::now(),
            request_id: RequestId::generate(),
            method: request.method().clone(),
            version: request.version(),
            path: request.uri().path().to_owned(),
            is_granted_preflight: is_preflight && origin.is_some(),
            origin,
            vary: if depends_on_origin { VARY_WITH_ORIGIN } else { VARY },
            metrics: request.app_data::<web::Data<App>>().map(|app| app.metrics.clone()),
        }
    }

    /// Gives a response what every response has.
    fn finish(&self, response: HttpResponse<BoxBody>, caller: Option<Caller>) -> HttpResponse<BoxBody> {
        let mut response = self.rendered(response);
        let status = response.status();
        self.dress(response.headers_mut());
        self.count(status);
        let is_sent = self.method != Method::HEAD;
        self.fix_length(&mut response);
        let entry =
            Entry::new(self.began, self.request_id.clone(), self.method.clone(), self.path.clone(), status).by(caller);
        response.map_body(|_, body| BoxBody::new(Watched::new(body, is_sent, entry)))
    }

    /// An answer to HEAD says how long the body would be and sends nothing of it; actix must not chunk it,
    /// since with pipelining it forgets which request was a HEAD. HTTP/1.0 knows no chunks: there the end
    /// of the connection is the end of the body.
    fn fix_length(&self, response: &mut HttpResponse<BoxBody>) {
        let size = response.body().size();
        if self.method == Method::HEAD {
            response.head_mut().no_chunking(true);
            if let BodySize::Sized(length) = size {
                response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            }
        } else if self.version < Version::HTTP_11 && size == BodySize::Stream {
            response.head_mut().no_chunking(true);
            response.head_mut().set_connection_type(ConnectionType::Close);
        }
    }

    /// The problem document in place of a response that is none yet.
    fn rendered(&self, response: HttpResponse<BoxBody>) -> HttpResponse<BoxBody> {
        let Some(error) = response.error() else {
            return response;
        };
        let problem = problem_of(error);
        problem.log(self.request_id.as_str());
        problem.render(self.request_id.as_str())
    }

    fn dress(&self, headers: &mut HeaderMap) {
        if let Ok(id) = HeaderValue::from_str(self.request_id.as_str()) {
            headers.insert(REQUEST_ID, id);
        }
        if !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        headers.insert(header::VARY, self.vary.clone());
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        for (name, value) in self.origin.iter().flat_map(cors::headers) {
            headers.insert(name, value);
        }
    }

    fn count(&self, status: StatusCode) {
        let method = if COUNTED_METHODS.contains(&self.method) { self.method.as_str() } else { "other" };
        if let Some(metrics) = &self.metrics {
            metrics.requests.with_label_values(&[method, status.as_str()]).inc();
        }
    }
}

/// What an error means; anything that is not ours is a fault of ours.
fn problem_of(error: &Error) -> Problem {
    match error.as_error::<Problem>() {
        Some(problem) => problem.clone(),
        None => Problem::Internal(Cause::from(format!("an error without a problem: {error}"))),
    }
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}

/// A failure that took the request with it, so that only the frame is left to answer.
#[derive(Debug)]
struct Unframed {
    frame: Frame,
    problem: Problem,
}

impl fmt::Display for Unframed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl ResponseError for Unframed {
    fn status_code(&self) -> StatusCode {
        self.problem.status_code()
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        self.frame.finish(HttpResponse::from_error(self.problem.clone()), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::middleware::from_fn;
    use actix_web::test::{TestRequest, init_service, try_call_service};

    async fn answer(request: TestRequest) -> HttpResponse<BoxBody> {
        async fn lost() -> Result<HttpResponse, Problem> {
            Err(Problem::not_found("this"))
        }
        async fn broken() -> Result<HttpResponse, Problem> {
            panic!("at the disco")
        }
        async fn fine() -> &'static str {
            "four"
        }
        let cors = web::Data::new(Cors::new(vec!["https://app.example".into()]));
        let app = actix_web::App::new()
            .app_data(cors)
            .route("/lost", web::to(lost))
            .route("/broken", web::to(broken))
            .route("/fine", web::to(fine))
            .wrap(from_fn(frame));
        match try_call_service(&init_service(app).await, request.to_request()).await {
            Ok(response) => response.into_parts().1,
            Err(error) => error.error_response(),
        }
    }

    fn text(response: HttpResponse<BoxBody>) -> serde_json::Value {
        let id = response.headers().get(REQUEST_ID).unwrap().to_str().unwrap().to_owned();
        assert_eq!(response.headers().get(header::CONTENT_TYPE).unwrap(), "application/problem+json");
        assert_eq!(response.headers().get(header::CACHE_CONTROL).unwrap(), "no-store");
        let mut body = Box::pin(response.into_body());
        let bytes = std::future::poll_fn(|context| body.as_mut().poll_next(context)).now_or_never();
        let document: serde_json::Value = serde_json::from_slice(&bytes.unwrap().unwrap().unwrap()).unwrap();
        assert_eq!(document["instance"], format!("urn:uuid:{id}"));
        document
    }

    #[actix_web::test]
    async fn refusals_are_documents_named_after_their_request() {
        let response = answer(TestRequest::with_uri("/lost")).await;
        assert_eq!(response.status(), 404);
        assert_eq!(text(response)["type"], "/problems/not-found");
    }

    #[actix_web::test]
    async fn a_panic_is_a_document_too_and_says_nothing_of_itself() {
        let response = answer(TestRequest::with_uri("/broken")).await;
        assert_eq!(response.status(), 500);
        let document = text(response);
        assert_eq!(document["type"], "/problems/internal");
        assert!(!document.to_string().contains("disco"));
    }

    #[actix_web::test]
    async fn head_keeps_the_length_and_sends_nothing() {
        let response = answer(TestRequest::with_uri("/fine").method(Method::HEAD)).await;
        assert_eq!(response.headers().get(header::CONTENT_LENGTH).unwrap(), "4");
        let mut body = Box::pin(response.into_body());
        let sent = std::future::poll_fn(|context| body.as_mut().poll_next(context)).now_or_never();
        assert!(sent.unwrap().is_none());
    }

    #[actix_web::test]
    async fn preflights_of_named_origins_are_answered_here() {
        let asked = |origin| {
            let request = TestRequest::with_uri("/lost").method(Method::OPTIONS);
            request.insert_header(("Origin", origin)).insert_header(("Access-Control-Request-Method", "PUT"))
        };
        let granted = answer(asked("https://app.example")).await;
        assert_eq!(granted.status(), 204);
        assert_eq!(granted.headers().get("access-control-allow-origin").unwrap(), "https://app.example");
        let refused = answer(asked("https://evil.example")).await;
        assert_eq!(refused.status(), 404);
        assert!(!refused.headers().contains_key("access-control-allow-origin"));
    }
}
