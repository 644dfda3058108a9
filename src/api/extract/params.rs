//! The query, strictly: every parameter is known, stands once, and has its form, or the request is refused.
//!
//! Names are judged before values, so that a misspelt `since` is named even beside a wrong `limit`. The
//! value of an unknown parameter is never repeated: it may be a key that somebody put there.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use actix_web::HttpRequest;

use super::percent_decoded;
use crate::api::problem::Problem;
use crate::change::{Resource, Seq};

/// The query of a request as it was sent.
#[derive(Debug, Clone)]
pub struct Query(String);

/// The parameters of a request, each known and standing once; values are judged when they are asked for.
#[derive(Debug)]
pub struct Params {
    /// Raw values by name.
    values: BTreeMap<&'static str, String>,
}

impl Query {
    /// The query of this request.
    pub fn of(request: &HttpRequest) -> Query {
        Query(request.query_string().to_owned())
    }

    /// Every resource that a parameter asks for by a well-formed name. For the access check, which comes
    /// before any value is judged.
    pub fn resources_named(&self, parameter: &str) -> Vec<Resource> {
        let named = self.pairs().filter(|(name, _)| decoded(name).as_deref() == Some(parameter));
        let values = named.filter_map(|(_, value)| decoded(value));
        let parse = |value: String| value.split(',').filter_map(|item| Resource::parse(item).ok()).collect::<Vec<_>>();
        values.flat_map(parse).collect()
    }

    /// True when a parameter stands there, whatever its value. For what is decided before any value is judged.
    pub fn mentions(&self, parameter: &str) -> bool {
        self.pairs().any(|(name, _)| decoded(name).as_deref() == Some(parameter))
    }

    /// The parameters, when all of them are known and none stands twice.
    pub fn only(&self, known: &[&'static str]) -> Result<Params, Problem> {
        let mut values = BTreeMap::new();
        for (raw_name, value) in self.pairs() {
            let Some(name) = decoded(raw_name) else {
                return Err(Problem::parameter_unseen("", "parameter names in percent-encoded UTF-8"));
            };
            let Some(name) = known.iter().find(|known| **known == name) else {
                return Err(Problem::parameter_unseen(&name, expected_one_of(known)));
            };
            if values.insert(*name, value.to_owned()).is_some() {
                return Err(Problem::parameter_unseen(name, "the parameter to stand once"));
            }
        }
        Ok(Params { values })
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let segments = self.0.split('&').filter(|segment| !segment.is_empty());
        segments.map(|segment| segment.split_once('=').unwrap_or((segment, "")))
    }
}

fn expected_one_of(known: &[&'static str]) -> String {
    match known {
        [] => "no parameters here".to_owned(),
        known => format!("one of the parameters {}", known.join(", ")),
    }
}

/// In a query `+` is a blank.
fn decoded(text: &str) -> Option<String> {
    percent_decoded(&text.replace('+', " "))
}

impl Params {
    /// True when the parameter was sent, whatever its value.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The parameter as text.
    pub fn text(&self, name: &'static str) -> Result<Option<String>, Problem> {
        self.parsed(name, "text in percent-encoded UTF-8", |text| Some(text.to_owned()))
    }

    /// The parameter as whatever `parse` makes of its text; `expected` says the form in words.
    pub fn parsed<T>(
        &self,
        name: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(raw) = self.values.get(name) else {
            return Ok(None);
        };
        let text = decoded(raw).ok_or_else(|| Problem::parameter(name, raw, "text in percent-encoded UTF-8"))?;
        parse(&text).map(Some).ok_or_else(|| Problem::parameter(name, &text, expected))
    }

    /// A position in a log.
    pub fn seq(&self, name: &'static str) -> Result<Option<Seq>, Problem> {
        self.parsed(name, "digits without sign or leading zero, up to 9223372036854775807", Seq::parse)
    }

    /// A whole number of seconds within bounds.
    pub fn seconds(&self, name: &'static str, bounds: RangeInclusive<u64>) -> Result<Option<Duration>, Problem> {
        let expected = format!("whole seconds from {} to {}, digits only", bounds.start(), bounds.end());
        self.parsed(name, &expected, |text| {
            let seconds = u64::try_from(Seq::parse(text)?.get()).ok()?;
            bounds.contains(&seconds).then(|| Duration::from_secs(seconds))
        })
    }

    /// A number of things, at least 1, without a maximum of its own.
    pub fn limit(&self, name: &'static str) -> Result<Option<u64>, Problem> {
        self.parsed(name, "an integer from 1 to 9223372036854775807, digits only", |text| {
            let number = u64::try_from(Seq::parse(text)?.get()).ok()?;
            (number >= 1).then_some(number)
        })
    }

    /// `true` or `false`.
    pub fn boolean(&self, name: &'static str) -> Result<Option<bool>, Problem> {
        self.parsed(name, "true or false", |text| match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// A comma list of words that can hold no comma, so that an encoded comma separates as well: that is how
    /// browsers and many libraries write a list.
    pub fn words<T>(
        &self,
        name: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Problem> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let items = text.split(',').map(|item| parse(item).ok_or_else(|| Problem::parameter(name, item, expected)));
        items.collect::<Result<_, _>>().map(Some)
    }

    /// A comma list. It is split before it is decoded, so `%2C` is a comma inside an item; a list has at
    /// least one item, and every item has the form that `parse` wants.
    pub fn list<T>(
        &self,
        name: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Problem> {
        let Some(raw) = self.values.get(name) else {
            return Ok(None);
        };
        let mut items = Vec::new();
        for item in raw.split(',') {
            let text = decoded(item).ok_or_else(|| Problem::parameter(name, item, "percent-encoded UTF-8"))?;
            items.push(parse(&text).ok_or_else(|| Problem::parameter(name, &text, expected))?);
        }
        Ok(Some(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["since", "limit", "compact", "id", "resource"];

    fn params(query: &str) -> Result<Params, Problem> {
        Query(query.to_owned()).only(KNOWN)
    }

    fn document(problem: Problem) -> serde_json::Value {
        problem.document("r")
    }

    #[test]
    fn unknown_parameters_are_named_but_their_value_is_not_repeated() {
        for (query, name) in [
            ("sincce=hunter2", "sincce"),
            ("since[]=hunter2", "since[]"),
            ("limit=0&Since=hunter2", "Since"),
            ("key=hunter2&limit=x", "key"),
            ("=hunter2", ""),
        ] {
            let document = document(params(query).unwrap_err());
            assert_eq!((&document["status"], &document["parameter"]), (&400.into(), &name.into()), "{query}");
            assert!(!document.to_string().contains("hunter2"), "{query}");
        }
    }

    #[test]
    fn a_parameter_stands_once_however_it_is_spelt() {
        for query in ["since=5&since=0", "since=5&%73ince=5", "limit&limit"] {
            assert_eq!(document(params(query).unwrap_err())["type"], "/problems/invalid-parameter", "{query}");
        }
        assert!(params("since=5&&limit=1&").is_ok());
    }

    #[test]
    fn values_are_read_strictly() {
        for bad in ["", "0", "-1", "+1", "1.5", "1e3", "abc", "01", "%201", "1+", "9223372036854775808", "%zz", "%ff"] {
            let refused = params(&format!("limit={bad}")).unwrap().limit("limit");
            assert_eq!(document(refused.unwrap_err())["parameter"], "limit", "{bad}");
        }
        assert_eq!(params("limit=4294967297").unwrap().limit("limit").unwrap(), Some(4_294_967_297));
        assert!(params("since").unwrap().seq("since").is_err());
        assert_eq!(params("limit=1").unwrap().seq("since").unwrap(), None);
        assert_eq!(params("compact=true").unwrap().boolean("compact").unwrap(), Some(true));
        assert!(params("compact=TRUE").unwrap().boolean("compact").is_err());
    }

    #[test]
    fn lists_are_split_before_they_are_decoded() {
        let ids = |query: &str| params(query).unwrap().list("id", "an id", |id| Some(id.to_owned()));
        assert_eq!(ids("id=a%2Cb,c+d,e%2Bf").unwrap().unwrap(), ["a,b", "c d", "e+f"]);
        assert_eq!(ids("id=a,").unwrap().unwrap(), ["a", ""]);
        assert!(ids("id=a,%f").is_err());
    }

    #[test]
    fn words_are_separated_by_a_comma_in_either_form() {
        let words = |query: &str| params(query).unwrap().words("resource", "a name", |name| Some(name.to_owned()));
        assert_eq!(words("resource=a%2Cb,c%2c%64").unwrap().unwrap(), ["a", "b", "c", "d"]);
        assert_eq!(words("since=1").unwrap(), None);
        assert!(words("resource=a%2C%f").is_err());
        let never =
            params("resource=a%2C").unwrap().words("resource", "a name", |name| (!name.is_empty()).then_some(()));
        assert!(never.is_err());
    }

    #[test]
    fn resources_are_seen_before_anything_is_judged() {
        let query = Query("bad=%zz&limit=0&resource=plan,Nonsense%2Ccustomer".into());
        let names: Vec<String> = query.resources_named("resource").iter().map(ToString::to_string).collect();
        assert_eq!(names, ["plan", "customer"]);
    }
}
