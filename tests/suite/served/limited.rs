//! Keys that are limited to some resources.

use super::wire::Served;
use crate::support::bed::Bed;
use crate::support::on_every_engine;

async fn a_key_for_what_was_never_written_reads_nothing_yet(bed: Bed) {
    let served = Served::start(&bed).await;
    let everything = served.key(None).await;
    let limited = served.key(Some(&["plan", "invoice"])).await;
    let page = served.get(&limited, "/v1/changes?since=0").await;
    assert_eq!((page.status, page.body.as_slice()), (200, b"".as_slice()));
    served.send(&everything, "PUT", "/v1/entities/note/n", "{}").await;
    served.send(&everything, "PUT", "/v1/entities/plan/p", "{}").await;
    let page = served.get(&limited, "/v1/changes?since=0&compact=true").await;
    assert_eq!(page.status, 200);
    assert!(String::from_utf8_lossy(&page.body).contains(r#""id":"p""#));
    let encoded = served.get(&everything, "/v1/changes?resource=plan%2Cnote&fields=time%2Ctx").await;
    assert_eq!(String::from_utf8_lossy(&encoded.body).matches(r#","tx":"#).count(), 2);
    assert_eq!(served.get(&limited, "/v1/changes?resource=plan%2Cnote").await.status, 403);
    let named = served.get(&limited, "/v1/changes?resource=plan,invoice").await;
    assert_eq!((named.status, named.slug().as_str()), (400, "unknown-resource"));
    served.stop().await;
}

async fn a_cascade_beyond_the_key_is_forbidden(bed: Bed) {
    let served = Served::start(&bed).await;
    let everything = served.key(None).await;
    let limited = served.key(Some(&["customer"])).await;
    served.send(&everything, "PUT", "/v1/entities/customer/c", "{}").await;
    served.send(&everything, "PUT", "/v1/entities/subscription/s", r#"{"status":"active","customer":"c"}"#).await;
    let refused = served.send(&limited, "DELETE", "/v1/entities/customer/c", "{}").await;
    assert_eq!((refused.status, refused.slug().as_str()), (403, "forbidden"));
    assert!(!String::from_utf8_lossy(&refused.body).contains("subscription"));
    let batch = r#"[{"op":"delete","resource":"customer","id":"c"}]"#;
    let refused = served.send(&limited, "POST", "/v1/batch", batch).await;
    let document: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!((refused.status, document.get("index")), (403, None));
    assert_eq!(served.desk.head().await, 2);
    served.stop().await;
}

on_every_engine! {
    a_cascade_beyond_the_key_is_forbidden,
    a_key_for_what_was_never_written_reads_nothing_yet,
}
