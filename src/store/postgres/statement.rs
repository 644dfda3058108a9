//! Statements that the query builder cannot write, as text with a `?` for each value. Unlike
//! `diesel::sql_query`, which is parsed and planned at every call, they are prepared once for each
//! connection, under their text.

use std::borrow::Cow;
use std::marker::PhantomData;

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Text};

/// A value of a statement.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// `bigint`
    Integer(i64),
    /// `text`
    Text(Cow<'a, str>),
    /// `bigint[]`
    Integers(Vec<i64>),
    /// `text[]`
    Texts(Vec<Cow<'a, str>>),
}

impl<'a> Value<'a> {
    /// A list of texts that are held elsewhere.
    pub fn texts(texts: impl IntoIterator<Item = &'a str>) -> Value<'a> {
        Value::Texts(texts.into_iter().map(Cow::Borrowed).collect())
    }
}

impl From<i64> for Value<'_> {
    fn from(integer: i64) -> Self {
        Value::Integer(integer)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

/// A text with its values. `Row` is the tuple of SQL types that it yields.
pub struct Statement<'a, Row> {
    sql: Cow<'a, str>,
    values: Vec<Value<'a>>,
    row: PhantomData<fn() -> Row>,
}

impl<'a, Row> Statement<'a, Row> {
    /// A text with as many values as it has question marks. It must come from few texts: each is kept.
    pub fn new(sql: impl Into<Cow<'a, str>>, values: Vec<Value<'a>>) -> Statement<'a, Row> {
        Statement { sql: sql.into(), values, row: PhantomData }
    }
}

impl<Row> QueryFragment<Pg> for Statement<'_, Row> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let mut parts = self.sql.split('?');
        out.push_sql(parts.next().unwrap_or_default());
        for (value, part) in self.values.iter().zip(parts) {
            match value {
                Value::Integer(integer) => out.push_bind_param::<BigInt, _>(integer)?,
                Value::Text(text) => out.push_bind_param::<Text, _>(text.as_ref())?,
                Value::Integers(integers) => out.push_bind_param::<Array<BigInt>, _>(integers)?,
                Value::Texts(texts) => out.push_bind_param::<Array<Text>, _>(texts)?,
            }
            out.push_sql(part);
        }
        Ok(())
    }
}

impl<Row> QueryId for Statement<'_, Row> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Row> Query for Statement<'_, Row> {
    type SqlType = Row;
}
