//! Limits and forms that show over HTTP.

use super::wire::Served;
use crate::support::bed::Bed;
use crate::support::on_every_engine;

async fn patches_cannot_grow_a_state_beyond_a_body(bed: Bed) {
    let served = Served::start(&bed).await;
    let key = served.key(None).await;
    let half = "x".repeat(600 << 10);
    served.send(&key, "PUT", "/v1/entities/note/n", &format!(r#"{{"a":"{half}"}}"#)).await;
    let headers = "Content-Type: application/merge-patch+json\r\nIdempotency-Key: k\r\n";
    let line = "PATCH /v1/entities/note/n HTTP/1.1";
    for _ in 0..2 {
        let refused = served.ask(&key, line, headers, &format!(r#"{{"b":"{half}"}}"#)).await;
        assert_eq!((refused.status, refused.slug().as_str()), (413, "too-large"));
        assert_eq!(refused.header("idempotent-replayed"), None);
    }
    assert_eq!(served.desk.head().await, 1);
    let small = served.ask(&key, line, headers, r#"{"b":1}"#).await;
    assert_eq!(small.status, 200, "the refusal did not take the key");
    served.stop().await;
}

async fn a_key_is_not_named_with_control_characters(bed: Bed) {
    let served = Served::start(&bed).await;
    let key = served.key(None).await;
    for (name, status) in [(r"\u001b[2J", 422), (r"a\nb", 422), (r"\u0085", 422), ("mirror é", 201)] {
        let body = format!(r#"{{"log":"default","scopes":["read"],"name":"{name}"}}"#);
        assert_eq!(served.send(&key, "POST", "/v1/admin/keys", &body).await.status, status, "{name}");
    }
    served.stop().await;
}

on_every_engine! {
    a_key_is_not_named_with_control_characters,
    patches_cannot_grow_a_state_beyond_a_body,
}
