//! The tables as diesel sees them; `migrations/sqlite` makes them.

diesel::table! {
    logs (log_id) {
        log_id -> BigInt,
        name -> Text,
        epoch -> Text,
        floor -> BigInt,
        purged_through -> BigInt,
        created_at -> BigInt,
    }
}

diesel::table! {
    changes (log_id, seq) {
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
    entities (log_id, resource, id) {
        log_id -> BigInt,
        resource -> Text,
        id -> Text,
        seq -> BigInt,
        bucket -> Integer,
    }
}

diesel::table! {
    links (log_id, target_resource, target_id, resource, id, member) {
        log_id -> BigInt,
        target_resource -> Text,
        target_id -> Text,
        resource -> Text,
        id -> Text,
        member -> Text,
    }
}

diesel::table! {
    idempotency (log_id, method, path, key) {
        log_id -> BigInt,
        method -> Text,
        path -> Text,
        key -> Text,
        body_hash -> Binary,
        answer -> Text,
        created_at -> BigInt,
    }
}

diesel::table! {
    keys (key_id) {
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
    settings (name) {
        name -> Text,
        value -> Text,
    }
}

diesel::allow_tables_to_appear_in_same_query!(logs, changes, entities, links, idempotency, keys, settings);
