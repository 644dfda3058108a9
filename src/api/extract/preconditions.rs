//! `If-Match` and `If-None-Match`: several lines of one are one list; malformed is refused.

use actix_web::HttpRequest;

use super::joined_header;
use crate::api::problem::Problem;
use crate::entity::Preconditions;
use crate::entity::precondition::EtagCondition;

const EXPECTED: &str = "* or a comma list of entity tags in double quotes";

/// The conditions of a write.
pub fn preconditions(request: &HttpRequest) -> Result<Preconditions, Problem> {
    Ok(Preconditions { if_match: condition(request, "if-match", "If-Match")?, if_none_match: if_none_match(request)? })
}

/// The condition of a read.
pub fn if_none_match(request: &HttpRequest) -> Result<Option<EtagCondition>, Problem> {
    condition(request, "if-none-match", "If-None-Match")
}

fn condition(request: &HttpRequest, name: &str, shown: &'static str) -> Result<Option<EtagCondition>, Problem> {
    let malformed = || Problem::header(shown, EXPECTED);
    let Some(text) = joined_header(request, name).map_err(|()| malformed())? else {
        return Ok(None);
    };
    EtagCondition::parse(&text).map(Some).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn lines_are_joined_and_malformed_ones_refused() {
        let request = TestRequest::default()
            .append_header(("If-Match", "\"1\""))
            .append_header(("If-Match", "\"2\""))
            .to_http_request();
        assert_eq!(preconditions(&request).unwrap().if_match, EtagCondition::parse("\"1\",\"2\""));
        for bad in ["", "5", "\"5", "*, \"5\""] {
            let request = TestRequest::default().append_header(("If-None-Match", bad)).to_http_request();
            assert_eq!(preconditions(&request).unwrap_err().kind().slug, "malformed-header", "{bad:?}");
        }
    }
}
