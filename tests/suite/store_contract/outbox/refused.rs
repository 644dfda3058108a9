//! Rows that cannot become a change: set aside with the reason, in nobody's way, and what can be done about them.

use std::sync::Arc;

use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;
use scroll::store::postgres::outbox::Session;

use super::{application, drained, settled, told};
use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::desk::Desk;
use crate::support::on_engine;

async fn what_cannot_become_a_change_is_set_aside_and_blocks_nobody(bed: Bed) {
    let metrics = Arc::new(Metrics::new().unwrap());
    let desk = Desk::open_with(&bed, Options { metrics: metrics.clone(), ..Options::default() }).await;
    let shell = application(&bed);
    shell.execute(
        "SELECT scroll.append('default', 'note', NULL, '{}');
         SELECT scroll.append('default', 'Note', 'n', '{}');
         SELECT scroll.append('default', 'note', repeat('x', 256), '{}');
         SELECT scroll.append('default', 'note', 'n', '{');
         SELECT scroll.append('default', 'note', 'n', '[1]');
         SELECT scroll.append('default', 'note', 'n', '{\"a\":1,\"a\":2}');
         SELECT scroll.append('default', 'note', 'n', json_build_object('a', repeat('x', 1048576))::text);
         SELECT scroll.append('default', 'note', 'n', repeat('[', 200) || repeat(']', 200));
         SELECT scroll.append('default', 'subscription', 's', '{\"status\":\"asleep\"}');
         SELECT scroll.append('default', 'note', 'n', '{}', 'Not a verb');
         SELECT scroll.append('nowhere', 'note', 'n', '{}');
         SELECT scroll.append('default', 'subscription', 't', '{\"status\":\"active\",\"customer\":\"cus_none\"}');
         SELECT scroll.append('default', 'note', 'good', '{}')",
    );
    assert_eq!(
        told(&settled(&desk, &shell).await),
        [r#"t created {"status":"active","customer":"cus_none"}"#, "good created {}"]
    );
    let mut session = Session::open(&bed.url()).await.unwrap();
    let refused = session.refused(0, 100).await.unwrap();
    let reasons: Vec<&str> = refused.iter().map(|row| row.reason.split_once(": ").unwrap().0).collect();
    let due = ["id", "resource", "id", "data", "data", "data", "data", "data", "data/status", "type", "log"];
    assert_eq!(reasons, due, "{refused:?}");
    assert_eq!(session.refused(refused[9].outbox_id, 100).await.unwrap(), refused[10..]);
    assert_eq!((metrics.outbox_refused.get(), metrics.outbox_drained.get()), (11, 2));
    assert_eq!(metrics.outbox_waiting.with_label_values(&["default"]).get(), 0);
    let text = metrics.render().unwrap();
    assert!(!text.contains("nowhere"), "a log that is not there has no figures: {text}");
}

/// A refused row that is tried again keeps its place: it never overwrites what came after it.
async fn a_row_that_is_tried_again_never_overwrites_what_is_newer(bed: Bed) {
    const TYPES: &str = "[resource.thing]\nschema = { type = \"object\", properties = { n = { maximum = 3 } } }";
    const LOOSE: &str = "[resource.thing]\nprefix = \"thing_\"";
    let desk = Desk::open_with(&bed, Options::types(TYPES)).await;
    let shell = application(&bed);
    let append = |id: &str, n: i32| {
        shell.execute(&format!("SELECT scroll.append('default', 'thing', '{id}', '{{\"n\":{n}}}')"));
    };
    for id in ["overtaken", "deleted"] {
        append(id, 1);
        append(id, 4);
    }
    append("overtaken", 2);
    shell.execute("SELECT scroll.append_delete('default', 'thing', 'deleted')");
    append("twice", 5);
    append("twice", 6);
    append("good", 1);
    append("good", 7);
    drained(&shell).await;
    let before = desk.lines().await.len();
    let desk = desk.reopened_with(&bed, Options::types(LOOSE)).await;
    let mut session = Session::open(&bed.url()).await.unwrap();
    assert_eq!(session.refused(0, 100).await.unwrap().len(), 5);
    assert_eq!(session.retry(None).await.unwrap(), 4, "all but the older one of `twice` go back");
    drained(&shell).await;
    let catalog = Catalog::from_toml(LOOSE).unwrap();
    let lines = check_everything(&desk, &catalog).await;
    assert_eq!(told(&lines[before..]), [r#"twice created {"n":6}"#, r#"good updated {"n":7}"#]);
    assert_eq!(session.refused(0, 100).await.unwrap(), []);
}

async fn a_refused_row_can_be_dropped_or_tried_alone(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute("SELECT scroll.append('later', 'note', n::text, '{}') FROM generate_series(1, 3) AS n");
    drained(&shell).await;
    let later = desk.neighbour("later").await;
    let mut session = Session::open(&bed.url()).await.unwrap();
    let refused = session.refused(0, 100).await.unwrap();
    assert_eq!(refused.len(), 3);
    assert!(session.drop_refused(refused[0].outbox_id).await.unwrap());
    assert!(!session.drop_refused(refused[0].outbox_id).await.unwrap());
    assert_eq!(session.retry(Some(refused[0].outbox_id)).await.unwrap(), 0);
    assert_eq!(session.retry(Some(refused[1].outbox_id)).await.unwrap(), 1);
    drained(&shell).await;
    assert_eq!(told(&later.lines().await), ["2 created {}"]);
    assert_eq!(session.refused(0, 100).await.unwrap(), refused[2..]);
    assert_eq!(session.waiting().await.unwrap(), []);
}

on_engine!(
    on_postgres,
    Postgres,
    what_cannot_become_a_change_is_set_aside_and_blocks_nobody,
    a_row_that_is_tried_again_never_overwrites_what_is_newer,
    a_refused_row_can_be_dropped_or_tried_alone
);
