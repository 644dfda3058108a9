//! The tables and functions as diesel sees them; `migrations/postgres` makes them.

use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text};

diesel::table! {
    scroll.logs (log_id) {
        log_id -> BigInt,
        name -> Text,
        epoch -> Text,
        floor -> BigInt,
        purged_through -> BigInt,
        created_at -> BigInt,
    }
}

diesel::table! {
    scroll.changes (log_id, seq) {
        log_id -> BigInt,
        seq -> BigInt,
        resource -> Text,
        id -> Text,
        deleted -> Bool,
        time -> BigInt,
        prev -> Nullable<BigInt>,
        tx -> BigInt,
        count -> BigInt,
        fingerprint -> BigInt,
        resource_count -> BigInt,
        resource_fingerprint -> BigInt,
        line -> Text,
    }
}

diesel::table! {
    scroll.entities (log_id, resource, id) {
        log_id -> BigInt,
        resource -> Text,
        id -> Text,
        seq -> BigInt,
        bucket -> Integer,
    }
}

diesel::table! {
    scroll.keys (key_id) {
        key_id -> Text,
        hash -> Binary,
        log_id -> Nullable<BigInt>,
        scopes -> Text,
        resources -> Nullable<Text>,
        name -> Nullable<Text>,
        created_at -> BigInt,
        expires_at -> Nullable<BigInt>,
        revoked_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    scroll.settings (name) {
        name -> Text,
        value -> Text,
    }
}

diesel::allow_tables_to_appear_in_same_query!(logs, changes, entities, keys, settings);

diesel::define_sql_function! {
    /// Writes a decided flight down; how many changes it wrote.
    #[sql_name = "scroll.write_flight"]
    #[expect(clippy::too_many_arguments, reason = "one call for a whole flight, and SQL has no structs of arrays")]
    fn write_flight(
        log: BigInt,
        xid: Nullable<Text>,
        first: BigInt,
        at: BigInt,
        c_resource: Array<Text>,
        c_id: Array<Text>,
        c_deleted: Array<Bool>,
        c_prev: Array<Nullable<BigInt>>,
        c_tx: Array<BigInt>,
        c_count: Array<BigInt>,
        c_fingerprint: Array<BigInt>,
        c_resource_count: Array<BigInt>,
        c_resource_fingerprint: Array<BigInt>,
        c_line: Array<Text>,
        c_bucket: Array<Nullable<Integer>>,
        l_come: Array<Bool>,
        l_target_resource: Array<Text>,
        l_target_id: Array<Text>,
        l_resource: Array<Text>,
        l_id: Array<Text>,
        l_member: Array<Text>,
        a_method: Array<Text>,
        a_path: Array<Text>,
        a_key: Array<Text>,
        a_body_hash: Array<Binary>,
        a_answer: Array<Text>,
    ) -> Integer;
}
