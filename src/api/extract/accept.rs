//! `Accept` (RFC 9110 section 12.5.1): the most specific range that fits an offer decides its weight; of
//! the heaviest offers the first is chosen. What cannot be read counts as not said.

use actix_web::HttpRequest;

use super::joined_header;
use crate::api::problem::Problem;

/// What nearly every answer is offered as.
pub const JSON_ONLY: &[&str] = &["application/json"];

/// The media ranges of a request.
#[derive(Debug, Clone)]
pub struct Accept {
    /// Empty when everything is welcome.
    ranges: Vec<Range>,
    is_present: bool,
}

#[derive(Debug, Clone)]
struct Range {
    kind: String,
    subtype: String,
    /// Weight in thousandths.
    weight: u16,
}

impl Accept {
    /// The ranges of this request.
    pub fn of(request: &HttpRequest) -> Accept {
        let text = joined_header(request, "accept").unwrap_or(Some("?".to_owned()));
        Accept::parse(text.as_deref().unwrap_or_default())
    }

    fn parse(text: &str) -> Accept {
        let ranges = text.split(',').filter_map(Range::parse).collect();
        Accept { ranges, is_present: !text.trim_matches([' ', '\t', ',']).is_empty() }
    }

    /// The offer that suits best; offers stand in the order of preference of the server.
    pub fn choose(&self, offers: &'static [&'static str]) -> Result<&'static str, Problem> {
        let mut best: Option<(u16, &'static str)> = None;
        for offer in offers {
            let weight = self.weight(offer);
            if weight > best.map_or(0, |(heaviest, _)| heaviest) {
                best = Some((weight, offer));
            }
        }
        best.map(|(_, offer)| offer).ok_or(Problem::NotAcceptable { offers })
    }

    fn weight(&self, offer: &str) -> u16 {
        if !self.is_present {
            return 1000;
        }
        let (kind, subtype) = offer.split_once('/').unwrap_or((offer, ""));
        let fitting = self.ranges.iter().filter_map(|range| Some((range.specificity(kind, subtype)?, range.weight)));
        fitting.max().map_or(0, |(_, weight)| weight)
    }
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        let mut parts = text.split(';').map(|part| part.trim_matches([' ', '\t']));
        let (kind, subtype) = parts.next()?.split_once('/')?;
        if kind.is_empty() || subtype.is_empty() || (kind == "*" && subtype != "*") {
            return None;
        }
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let weight = weight.map_or(Some(1000), parse_weight)?;
        Some(Range { kind: kind.to_ascii_lowercase(), subtype: subtype.to_ascii_lowercase(), weight })
    }

    fn specificity(&self, kind: &str, subtype: &str) -> Option<u8> {
        match (self.kind.as_str(), self.subtype.as_str()) {
            ("*", "*") => Some(0),
            (k, "*") if k == kind => Some(1),
            (k, s) if k == kind && s == subtype => Some(2),
            _ => None,
        }
    }
}

/// `0`, `1`, `0.5`, `0.125`: at most three decimals, in thousandths.
fn parse_weight(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let well_formed =
        matches!(whole, "0" | "1") && decimals.len() <= 3 && decimals.bytes().all(|byte| byte.is_ascii_digit());
    if !well_formed {
        return None;
    }
    let thousandths: u16 = format!("{decimals:0<3}").parse().ok()?;
    let weight = if whole == "1" { 1000 + thousandths } else { thousandths };
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERS: &[&str] = &["application/x-ndjson", "application/json"];

    fn chosen(text: &str) -> Option<&'static str> {
        Accept::parse(text).choose(OFFERS).ok()
    }

    #[test]
    fn whoever_says_nothing_gets_the_first_offer() {
        for text in ["", " ", "*/*", "application/*", "text/html, */*;q=0.1", "application/x-ndjson, application/json"]
        {
            assert_eq!(chosen(text), Some("application/x-ndjson"), "{text}");
        }
    }

    #[test]
    fn weights_and_the_most_specific_range_decide() {
        for text in [
            "application/json",
            "APPLICATION/JSON; charset=utf-8",
            "application/json;q=0.9, application/x-ndjson;q=0.8",
            "*/*, application/x-ndjson;q=0",
            "application/json;q=0.5, application/*;q=0.4",
            "application/x-ndjson;q=2, application/json;q=0.001",
        ] {
            assert_eq!(chosen(text), Some("application/json"), "{text}");
        }
    }

    #[test]
    fn what_is_not_offered_is_refused() {
        for text in ["text/html", "application/xml", "application/json;q=0", "*/*;q=0", "nonsense", "*/json", "a/b;q=x"]
        {
            assert_eq!(chosen(text), None, "{text}");
        }
    }
}
