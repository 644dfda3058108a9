//! The contract for machines, and a page that renders it without loading anything from outside.

use std::sync::Arc;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use utoipa_swagger_ui::{Config, SwaggerFile};

use super::extract::{Query, Segments};
use super::problem::{Cause, Problem};

const CONTRACT: &str = include_str!("../../openapi.yaml");
/// Everything comes from this server; the page sets styles of its own and shows images that it holds.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
/// The contract and the page change with a new version of the server only.
const CACHE: &str = "no-cache";
const INDEX: &str = "index.html";

/// `GET /openapi.yaml`.
pub async fn contract(request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request).only(&[])?;
    let mut response = HttpResponse::Ok();
    response.content_type("application/yaml").insert_header((header::CACHE_CONTROL, CACHE));
    Ok(response.body(CONTRACT))
}

/// `GET /docs`.
pub async fn page(request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request).only(&[])?;
    asset(INDEX)
}

/// `GET /docs/{file}`: what the page consists of.
pub async fn file(request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request).only(&[])?;
    let name = Segments::of(&request).last("file")?;
    asset(&name)
}

fn asset(name: &str) -> Result<HttpResponse, Problem> {
    let found = utoipa_swagger_ui::serve(name, Arc::new(config()));
    let found = found.map_err(|error| Problem::Internal(Cause::of(&*error)))?;
    let SwaggerFile { bytes, content_type, gzpipped, .. } = found.ok_or_else(|| Problem::not_found("this file"))?;
    let mut response = HttpResponse::Ok();
    response
        .content_type(content_type)
        .insert_header((header::CACHE_CONTROL, CACHE))
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY));
    if gzpipped {
        response.insert_header((header::CONTENT_ENCODING, "gzip"));
    }
    if name == INDEX {
        // The page stands at /docs, one level above what its relative links expect.
        return Ok(response.body(
            String::from_utf8_lossy(&bytes).replace("\"./", "\"/docs/").replace("\"index.css\"", "\"/docs/index.css\""),
        ));
    }
    Ok(response.body(bytes.into_owned()))
}

/// Without the validator: it would send the address of the contract to a server of somebody else.
fn config() -> Config<'static> {
    Config::from("/openapi.yaml").validator_url("none").try_it_out_enabled(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::body::MessageBody as _;

    fn text(name: &str) -> String {
        let bytes = asset(name).unwrap().into_body().try_into_bytes().unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn the_page_loads_nothing_from_outside_and_all_its_files_are_here() {
        let page = text(INDEX);
        assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
        let links = page.split(['"', '\'']).filter(|piece| piece.ends_with(".css") || piece.ends_with(".js"));
        let links: Vec<&str> = links.collect();
        assert!(links.len() >= 3, "{page}");
        for link in links {
            assert!(asset(link.strip_prefix("/docs/").unwrap()).is_ok(), "{link}");
        }
        let start = text("swagger-initializer.js");
        assert!(start.contains("\"/openapi.yaml\"") && start.contains("\"none\""), "{start}");
        assert!(!start.contains("http"), "{start}");
    }

    #[test]
    fn other_files_are_not_found() {
        assert_eq!(asset("nonsense.js").unwrap_err().kind().slug, "not-found");
    }
}
