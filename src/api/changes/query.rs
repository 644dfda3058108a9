//! The query of a page, read strictly (PROTOCOL section 3, column "page").

use crate::api::extract::{Caller, Params, Query};
use crate::api::problem::Problem;
use crate::change::{EntityId, Fields, Resource, Selection, Seq};
use crate::feed::{PageRequest, Since};

/// Every parameter that a page has.
const KNOWN: &[&str] =
    &["since", "limit", "until", "resource", "id", "compact", "min_head", "epoch", "floor", "fields"];

/// Lines of a page that asks for no number.
pub const DEFAULT_LIMIT: u64 = 100;
/// Most entities that one request names.
pub const MAX_IDS: usize = 100;

/// What a page request asks for. The caller decides what "all resources" means.
pub fn page_request(query: &Query, caller: &Caller) -> Result<PageRequest, Problem> {
    let params = query.only(KNOWN)?;
    let named = params.words("resource", Resource::EXPECTED, |name| Resource::parse(name).ok())?;
    Ok(PageRequest {
        since: since(&params)?,
        until: params.seq("until")?,
        limit: params.limit("limit")?.unwrap_or(DEFAULT_LIMIT),
        selection: selection(&params, named.as_deref(), caller)?,
        named: named.unwrap_or_default(),
        is_compact: params.boolean("compact")?.unwrap_or(false),
        fields: fields(&params)?,
        epoch: params.parsed("epoch", "the epoch of a log", |text| (!text.is_empty()).then(|| text.to_owned()))?,
        min_head: params.seq("min_head")?,
        floor: params.seq("floor")?,
    })
}

fn since(params: &Params) -> Result<Since, Problem> {
    let expected = "digits without sign or leading zero, up to 9223372036854775807, or the word now";
    let since = params.parsed("since", expected, |text| match text {
        "now" => Some(Since::Now),
        digits => Seq::parse(digits).map(Since::After),
    })?;
    Ok(since.unwrap_or(Since::After(Seq::ZERO)))
}

fn selection(params: &Params, named: Option<&[Resource]>, caller: &Caller) -> Result<Selection, Problem> {
    let ids = params.list("id", EntityId::EXPECTED, |id| EntityId::parse(id).ok())?;
    match (named, ids) {
        (None, None) => Ok(caller.selection()),
        (Some(resources), None) => Ok(Selection::resources(resources.to_vec())),
        (Some([resource]), Some(ids)) => {
            if ids.len() > MAX_IDS {
                return Err(Problem::parameter_unseen("id", format!("at most {MAX_IDS} ids")));
            }
            Ok(Selection::entities(resource.clone(), ids))
        }
        (_, Some(_)) => Err(Problem::parameter_unseen("id", "exactly one resource beside it")),
    }
}

fn fields(params: &Params) -> Result<Fields, Problem> {
    let named = params.words("fields", "a list of time, prev and tx", |name| match name {
        "time" => Some(Fields { time: true, ..Fields::default() }),
        "prev" => Some(Fields { prev: true, ..Fields::default() }),
        "tx" => Some(Fields { tx: true, ..Fields::default() }),
        _ => None,
    })?;
    let all = named.unwrap_or_default().into_iter();
    Ok(all.fold(Fields::default(), |sum, one| Fields {
        time: sum.time || one.time,
        prev: sum.prev || one.prev,
        tx: sum.tx || one.tx,
    }))
}
