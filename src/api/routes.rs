//! Every path and method of the server, in one table. The routing, the `Allow` headers and the test that
//! holds openapi.yaml against the server are made from it.

use std::collections::BTreeMap;

use actix_web::http::Method;
use actix_web::web::{self, ServiceConfig};
use actix_web::{FromRequest, Handler, HttpResponse, Responder, Route, guard};

use super::problem::Problem;
use super::{admin, batch, changes, docs, entities, health, log, metrics, problems};

/// First segments of the paths that need no key, whatever follows them.
const PUBLIC: [&str; 5] = ["healthz", "readyz", "openapi.yaml", "docs", "problems"];

/// One path with one method.
pub struct Endpoint {
    /// The path as openapi.yaml writes it.
    pub path: &'static str,
    /// The method; a GET answers HEAD as well.
    pub method: Method,
    route: Route,
}

/// The table.
pub fn routes() -> Vec<Endpoint> {
    vec![
        get("/v1/changes", changes::read),
        get("/v1/log", log::read),
        get("/v1/entities/{resource}", entities::list),
        post("/v1/entities/{resource}", entities::create),
        get("/v1/entities/{resource}/{id}", entities::read),
        put("/v1/entities/{resource}/{id}", entities::put),
        patch("/v1/entities/{resource}/{id}", entities::patch),
        delete("/v1/entities/{resource}/{id}", entities::delete),
        post("/v1/entities/{resource}/{id}/{action}", entities::act),
        post("/v1/batch", batch::write),
        get("/v1/admin/logs", admin::logs::list),
        post("/v1/admin/logs", admin::logs::create),
        get("/v1/admin/keys", admin::keys::list),
        post("/v1/admin/keys", admin::keys::create),
        delete("/v1/admin/keys/{id}", admin::keys::revoke),
        get("/openapi.yaml", docs::contract),
        get("/docs", docs::page),
        get("/docs/{file}", docs::file),
        get("/problems", problems::index),
        get("/problems/{slug}", problems::page),
        get("/healthz", health::alive),
        get("/readyz", health::ready),
        get("/metrics", metrics::read),
    ]
}

/// What the listener for metrics answers; it asks for no key.
pub fn metrics_routes() -> Vec<Endpoint> {
    vec![get("/metrics", metrics::read_without_key)]
}

/// The methods of every path, HEAD included.
pub fn methods(table: &[Endpoint]) -> BTreeMap<&'static str, Vec<Method>> {
    let mut paths: BTreeMap<&'static str, Vec<Method>> = BTreeMap::new();
    for endpoint in table {
        let methods = paths.entry(endpoint.path).or_default();
        methods.push(endpoint.method.clone());
        if endpoint.method == Method::GET {
            methods.push(Method::HEAD);
        }
    }
    paths
}

/// True when a path, known or not, is answered without a key.
pub fn is_public(path: &str) -> bool {
    let first = path.strip_prefix('/').and_then(|path| path.split('/').next());
    first.is_some_and(|first| PUBLIC.contains(&first))
}

/// Sets up the routing of a table.
pub fn configure(table: Vec<Endpoint>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        let allowed = methods(&table);
        let mut resources: BTreeMap<&'static str, actix_web::Resource> = BTreeMap::new();
        for endpoint in table {
            let resource = resources.remove(endpoint.path).unwrap_or_else(|| {
                let allow = allowed.get(endpoint.path).cloned().unwrap_or_default();
                web::resource(pattern(endpoint.path)).default_service(web::to(move || wrong_method(allow.clone())))
            });
            resources.insert(endpoint.path, resource.route(endpoint.route));
        }
        for resource in resources.into_values() {
            config.service(resource);
        }
        config.default_service(web::to(unknown_path));
    }
}

/// The path as the router reads it. A part of it may be empty: then it is refused by its name, with 400.
fn pattern(path: &str) -> String {
    path.replace('}', ":[^/]*}")
}

async fn unknown_path() -> Result<HttpResponse, Problem> {
    Err(Problem::not_found("this path"))
}

async fn wrong_method(allow: Vec<Method>) -> Result<HttpResponse, Problem> {
    Err(Problem::MethodNotAllowed { allow })
}

fn get<F, Args>(path: &'static str, handler: F) -> Endpoint
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    let route = web::route().guard(guard::Any(guard::Get()).or(guard::Head())).to(handler);
    Endpoint { path, method: Method::GET, route }
}

macro_rules! writing {
    ($name:ident, $method:ident) => {
        fn $name<F, Args>(path: &'static str, handler: F) -> Endpoint
        where
            F: Handler<Args>,
            Args: FromRequest + 'static,
            F::Output: Responder + 'static,
        {
            Endpoint { path, method: Method::$method, route: web::route().method(Method::$method).to(handler) }
        }
    };
}

writing!(post, POST);
writing!(put, PUT);
writing!(patch, PATCH);
writing!(delete, DELETE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_and_method_stands_once_and_get_brings_head() {
        let table = routes();
        for (path, methods) in methods(&table) {
            let mut sorted = methods.clone();
            sorted.sort_by_key(|method| method.as_str().to_owned());
            sorted.dedup();
            assert_eq!(sorted.len(), methods.len(), "{path}");
            assert_eq!(methods.contains(&Method::GET), methods.contains(&Method::HEAD), "{path}");
        }
    }

    #[test]
    fn only_what_the_protocol_lists_is_public() {
        for path in
            ["/healthz", "/readyz", "/openapi.yaml", "/docs", "/docs/", "/docs/a.css", "/problems/x", "/docs/a/b"]
        {
            assert!(is_public(path), "{path}");
        }
        for path in ["/", "", "/v1/log", "/metrics", "/healthzz", "//healthz", "/v1/docs", "/nonsense", "*"] {
            assert!(!is_public(path), "{path}");
        }
    }

    #[test]
    fn parts_of_a_path_may_be_empty_and_never_hold_a_slash() {
        assert_eq!(pattern("/v1/entities/{resource}/{id}"), "/v1/entities/{resource:[^/]*}/{id:[^/]*}");
        assert_eq!(pattern("/v1/log"), "/v1/log");
    }
}
