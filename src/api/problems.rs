//! `/problems`: the page behind the `type` of every problem document.

use std::fmt::Write as _;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};

use super::extract::{Query, Segments};
use super::problem::{Kind, Problem, kind};

/// The pages are text and styles, nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}\
                     code{background:#eee;padding:0 .2em}dt{font-weight:600}dd{margin:0 0 .8rem}";

/// `GET /problems`: all of them.
pub async fn index(request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request).only(&[])?;
    let mut items = String::new();
    for kind in kind::ALL {
        let Kind { slug, status, title, .. } = kind;
        // Writing into a String cannot fail.
        let _ = write!(items, "<li>{status} <a href=\"/problems/{slug}\"><code>{slug}</code></a> {title}</li>");
    }
    Ok(html("Problems", &format!("<h1>Problems</h1><ul>{items}</ul>")))
}

/// `GET /problems/{slug}`: one of them.
pub async fn page(request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request).only(&[])?;
    let slug = Segments::of(&request).last("slug");
    let kind = slug.ok().and_then(|slug| Kind::of(&slug)).ok_or_else(|| Problem::not_found("this problem"))?;
    Ok(html(kind.slug, &explained(kind)))
}

fn explained(kind: &Kind) -> String {
    let Kind { slug, status, title, when, remedy, members } = kind;
    let mut body = format!(
        "<p><a href=\"/problems\">Problems</a></p><h1><code>{slug}</code></h1><p>{title} (status {status})</p>\
         <h2>When</h2><p>{}</p><h2>What to do</h2><p>{}</p>",
        marked_up(when),
        marked_up(remedy)
    );
    if !members.is_empty() {
        body.push_str("<h2>Members</h2><dl>");
        for (name, meaning) in *members {
            // Writing into a String cannot fail.
            let _ = write!(body, "<dt><code>{name}</code></dt><dd>{}</dd>", marked_up(meaning));
        }
        body.push_str("</dl>");
    }
    body
}

/// The words of this server as HTML: escaped, with what stands in backticks as code.
fn marked_up(words: &str) -> String {
    let escaped = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut html = String::new();
    for (index, piece) in escaped.split('`').enumerate() {
        match index % 2 {
            0 => html.push_str(piece),
            _ => drop(write!(html, "<code>{piece}</code>")),
        }
    }
    html
}

fn html(title: &str, body: &str) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    response.content_type("text/html; charset=utf-8").insert_header((header::CONTENT_SECURITY_POLICY, POLICY));
    response.body(format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>{body}</body></html>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_explain_every_problem_in_clean_html() {
        for kind in kind::ALL {
            let page = explained(kind);
            assert!(page.contains(kind.slug) && page.contains(&kind.status.to_string()));
            assert!(!page.contains('`'), "{page}");
            assert_eq!(page.matches("<code>").count(), page.matches("</code>").count());
        }
        assert_eq!(marked_up("`Bearer <key>` & more"), "<code>Bearer &lt;key&gt;</code> &amp; more");
    }
}
