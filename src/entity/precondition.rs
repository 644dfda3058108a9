//! `If-Match` and `If-None-Match` (RFC 9110 sections 8.8.3 and 13.1), for writes and for reads.

use crate::change::Seq;

/// The conditions a request came with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preconditions {
    /// `If-Match`.
    pub if_match: Option<EtagCondition>,
    /// `If-None-Match`.
    pub if_none_match: Option<EtagCondition>,
}

/// `*`, or a list of entity tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtagCondition {
    /// `*`: any current state.
    Any,
    /// Any of these.
    Tags(Vec<EntityTag>),
}

/// One entity tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag {
    /// `W/` stood before it.
    pub is_weak: bool,
    /// What stands between the quotes.
    pub opaque: String,
}

/// The ETag of an entity whose last line is `seq`, quotes included.
pub fn etag(seq: Seq) -> String {
    format!("\"{seq}\"")
}

impl Preconditions {
    /// True when the request came with any condition.
    pub fn is_present(&self) -> bool {
        self.if_match.is_some() || self.if_none_match.is_some()
    }

    /// Do the conditions of a write hold for an entity whose last line is `current` (`None`: absent)?
    pub fn hold_for(&self, current: Option<Seq>) -> bool {
        let current = current.map(|seq| seq.to_string());
        let match_holds = self.if_match.as_ref().is_none_or(|condition| match (condition, &current) {
            (_, None) => false,
            (EtagCondition::Any, Some(_)) => true,
            (EtagCondition::Tags(tags), Some(current)) => tags.iter().any(|tag| tag.strongly_matches(current)),
        });
        let none_match_holds = self.if_none_match.as_ref().is_none_or(|condition| match (condition, &current) {
            (_, None) => true,
            (EtagCondition::Any, Some(_)) => false,
            (EtagCondition::Tags(tags), Some(current)) => !tags.iter().any(|tag| tag.weakly_matches(current)),
        });
        match_holds && none_match_holds
    }
}

impl EtagCondition {
    /// Does any tag match weakly, as `If-None-Match` on a read wants it?
    pub fn weakly_matches(&self, opaque: &str) -> bool {
        match self {
            EtagCondition::Any => true,
            EtagCondition::Tags(tags) => tags.iter().any(|tag| tag.weakly_matches(opaque)),
        }
    }

    /// Reads a header value; `None` when it is malformed.
    pub fn parse(text: &str) -> Option<EtagCondition> {
        let text = text.trim_matches([' ', '\t']);
        if text == "*" {
            return Some(EtagCondition::Any);
        }
        let mut tags = Vec::new();
        let mut rest = text;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                break;
            }
            let (tag, after) = EntityTag::parse_prefix(rest)?;
            tags.push(tag);
            rest = after.trim_start_matches([' ', '\t']);
            if !rest.is_empty() && !rest.starts_with(',') {
                return None;
            }
        }
        (!tags.is_empty()).then_some(EtagCondition::Tags(tags))
    }
}

impl EntityTag {
    fn parse_prefix(text: &str) -> Option<(EntityTag, &str)> {
        let (is_weak, quoted) = match text.strip_prefix("W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (opaque, rest) = quoted.strip_prefix('"')?.split_once('"')?;
        let is_etagc = |b: u8| b == 0x21 || (0x23..=0x7e).contains(&b) || b >= 0x80;
        opaque.bytes().all(is_etagc).then(|| (EntityTag { is_weak, opaque: opaque.to_owned() }, rest))
    }

    fn strongly_matches(&self, opaque: &str) -> bool {
        !self.is_weak && self.opaque == opaque
    }

    fn weakly_matches(&self, opaque: &str) -> bool {
        self.opaque == opaque
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn if_match(text: &str) -> Preconditions {
        Preconditions { if_match: EtagCondition::parse(text), if_none_match: None }
    }

    fn if_none_match(text: &str) -> Preconditions {
        Preconditions { if_match: None, if_none_match: EtagCondition::parse(text) }
    }

    #[test]
    fn malformed_conditions_are_refused() {
        for bad in ["", " ", ",", "5", "\"5", "5\"", "\"5\" \"6\"", "*,\"5\"", "w/\"5\"", "\"a b\"", "W/5", "**"] {
            assert_eq!(EtagCondition::parse(bad), None, "{bad:?}");
        }
        assert_eq!(EtagCondition::parse(" * "), Some(EtagCondition::Any));
        assert!(matches!(EtagCondition::parse("\"5\" , W/\"6\",\"\""), Some(EtagCondition::Tags(t)) if t.len() == 3));
    }

    #[test]
    fn if_match_compares_strongly() {
        let five = Seq::new(5);
        assert!(if_match("\"5\"").hold_for(five));
        assert!(if_match("\"4\", \"5\"").hold_for(five));
        assert!(if_match("*").hold_for(five));
        assert!(!if_match("W/\"5\"").hold_for(five));
        assert!(!if_match("\"05\"").hold_for(five));
        assert!(!if_match("*").hold_for(None));
        assert!(!if_match("\"5\"").hold_for(None));
    }

    #[test]
    fn if_none_match_star_means_absent() {
        assert!(if_none_match("*").hold_for(None));
        assert!(!if_none_match("*").hold_for(Seq::new(5)));
        assert!(!if_none_match("W/\"5\"").hold_for(Seq::new(5)));
        assert!(if_none_match("\"4\"").hold_for(Seq::new(5)));
    }
}
