//! TOML values as JSON values: numbers keep their digits, and what JSON cannot say is a fault.

use indexmap::IndexMap;
use toml::de::{DeFloat, DeInteger, DeValue};

use super::file::Faults;
use super::table::{Entry, Section};
use crate::change::Json;

impl Entry<'_> {
    /// The value as JSON. Every part that JSON cannot say is reported at its own place.
    pub(super) fn json(&self, faults: &mut Faults) -> Option<Json> {
        match self.value {
            DeValue::String(text) => Some(Json::String(text.to_string())),
            DeValue::Boolean(value) => Some(Json::Bool(*value)),
            DeValue::Integer(number) => self.number(integer_digits(number), faults),
            DeValue::Float(number) => self.number(float_digits(number), faults),
            DeValue::Datetime(_) => {
                faults.at(&self.path, "JSON has no dates; write a string in quotes");
                None
            }
            DeValue::Array(_) => self.json_items(faults),
            DeValue::Table(_) => self.json_members(faults),
        }
    }

    fn number(&self, digits: Option<String>, faults: &mut Faults) -> Option<Json> {
        if digits.is_none() {
            faults.at(&self.path, "JSON has no such number");
        }
        digits.map(|digits| Json::Number(digits.into()))
    }

    fn json_items(&self, faults: &mut Faults) -> Option<Json> {
        // All items are read before the first fault decides, so that each one is reported.
        let items: Vec<_> = self.elements().iter().map(|item| item.json(faults)).collect();
        items.into_iter().collect::<Option<_>>().map(Json::Array)
    }

    fn json_members(&self, faults: &mut Faults) -> Option<Json> {
        let section = Section::of(self)?;
        let members: Vec<_> = section
            .into_entries()
            .into_iter()
            .map(|(name, entry)| Some((name.to_owned(), entry.json(faults)?)))
            .collect();
        members.into_iter().collect::<Option<IndexMap<_, _>>>().map(Json::Object)
    }
}

/// The parser has taken underscores out; JSON knows neither a plus sign nor another radix than ten.
fn integer_digits(number: &DeInteger<'_>) -> Option<String> {
    if number.radix() == 10 {
        return Some(number.as_str().trim_start_matches('+').to_owned());
    }
    u64::from_str_radix(number.as_str(), number.radix()).ok().map(|value| value.to_string())
}

fn float_digits(number: &DeFloat<'_>) -> Option<String> {
    let digits = number.as_str().trim_start_matches('+');
    let finite = !digits.ends_with("inf") && !digits.ends_with("nan");
    finite.then(|| digits.to_owned())
}
