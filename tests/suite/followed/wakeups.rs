//! C062: a change that is committed between the last look and the wait wakes the reader all the same.

use std::time::Duration;

use futures::FutureExt as _;
use scroll::change::Seq;
use scroll::feed::tail::Found;
use scroll::feed::wait::Waiting;
use scroll::feed::{End, page};

use super::Followed;
use crate::support::bed::Bed;
use crate::support::commands::put;
use crate::support::on_every_engine;

/// Writes of the hunt, each raced by so many followers: ten thousand rounds.
const WRITES: i64 = 1_000;
const FOLLOWERS: usize = 10;
/// Rounds of a long-poll, which begins anew each time.
const POLLS: i64 = 2_000;
/// Longer than any wake-up takes, however busy the machine is; a lost one never comes.
const LOST: Duration = Duration::from_secs(20);

/// A reader looks, finds nothing and is about to wait; at that moment, and not a moment before or after,
/// another thread writes. What it does next must not be to sleep.
async fn no_wake_up_of_a_follower_is_lost(bed: Bed) {
    let followed = Followed::open(&bed).await;
    let mut followers = Vec::new();
    for _ in 0..FOLLOWERS {
        followers.push(followed.follower(Followed::request(Seq::ZERO, u64::MAX)).await);
    }
    for round in 1..=WRITES {
        let write = followed.desk.ok(put("note", "n", &format!(r#"{{"n":{round}}}"#)));
        let pieces = followers.iter_mut().enumerate().map(|(number, follower)| async move {
            // Some look before the write begins, some while it runs, some when it is nearly done.
            for _ in 0..(number + usize::try_from(round).unwrap()) % 4 {
                tokio::task::yield_now().await;
            }
            tokio::time::timeout(LOST, follower.next()).await.expect("a wake-up was lost").unwrap().unwrap()
        });
        let (written, pieces) = tokio::join!(write, futures::future::join_all(pieces));
        for piece in pieces {
            assert_eq!((written.entry.seq, piece.cursor.get(), piece.lines), (round, round, 1));
        }
    }
    drop(followers);
    followed.close().await;
}

/// The same without chance: the look is over, the wait has not begun, and the change is there before it does.
async fn a_change_between_the_look_and_the_wait_ends_the_wait(bed: Bed) {
    let followed = Followed::open(&bed).await;
    let position = followed.desk.store.position(followed.desk.log).await.unwrap();
    let subscribe = || followed.tails.subscribe(followed.desk.log, &position);
    let mut readers = Vec::new();
    for _ in 0..FOLLOWERS {
        readers.push(subscribe().await.unwrap());
    }
    let mut witness = subscribe().await.unwrap();
    for round in 1..=WRITES {
        let cursor = Seq::new(round - 1).unwrap();
        for reader in readers.iter_mut().chain([&mut witness]) {
            assert!(matches!(reader.after(cursor), Found::Nothing(_)), "there is nothing yet");
        }
        followed.desk.ok(put("note", "n", &format!(r#"{{"n":{round}}}"#))).await;
        // Its wait says that the change was told; a look would see it a moment before.
        tokio::time::timeout(LOST, witness.moved()).await.expect("a wake-up was lost");
        for reader in &mut readers {
            assert!(reader.moved().now_or_never().is_some(), "it would sleep with the change before it");
            assert!(matches!(reader.after(cursor), Found::Batch(_)));
        }
    }
    drop((readers, witness));
    followed.close().await;
}

async fn no_wake_up_of_a_long_poll_is_lost(bed: Bed) {
    let followed = Followed::open(&bed).await;
    let desk = &followed.desk;
    let catalog = scroll::entity::types::Catalog::builtin();
    for round in 1..=POLLS {
        let request = Followed::request(Seq::new(round - 1).unwrap(), 100);
        let empty = page::open(&*desk.store, &catalog, desk.log, &request).await.unwrap();
        assert_eq!(empty.lines, 0);
        let waiting = Waiting { store: &*desk.store, tails: &followed.tails, log: desk.log, request: &request };
        let held = waiting.for_lines(empty, LOST, followed.ending.subscribe());
        let write = desk.ok(put("note", "n", &format!(r#"{{"n":{round}}}"#)));
        let (page, _) = tokio::join!(held, write);
        let page = page.unwrap();
        assert_eq!((page.lines, page.next.get()), (1, round), "it waited to the end of its time");
    }
    followed.close().await;
}

/// What is parked holds nothing but itself, and ends when it is told to.
async fn a_parked_follower_ends_when_its_stream_must(bed: Bed) {
    let followed = Followed::open(&bed).await;
    let mut followers = Vec::new();
    for _ in 0..20 {
        let mut follower = followed.follower(Followed::request(Seq::ZERO, u64::MAX)).await;
        assert!(follower.next().now_or_never().is_none(), "there is nothing to say");
        followers.push(follower);
    }
    assert_eq!(followed.metrics.tasks.with_label_values(&["tail"]).get(), 1, "one for all of them");
    assert_eq!(followed.metrics.tasks.with_label_values(&["catch-up"]).get(), 0);
    followed.ending.send_replace(Some(End::Drain));
    for follower in &mut followers {
        let last = follower.next().await.unwrap().unwrap();
        assert_eq!((last.end, last.bytes.len()), (Some(End::Drain), 0), "no control was asked for");
        assert!(follower.next().await.unwrap().is_none());
    }
    drop(followers);
    followed.close().await;
}

/// A catch-up task ends with its reader, in the middle of a history.
async fn history_is_not_read_for_a_reader_that_is_gone(bed: Bed) {
    let followed = Followed::open(&bed).await;
    let text = format!(r#"{{"t":"{}"}}"#, "x".repeat(1_000));
    followed.desk.batch((0..2_000).map(|n| put("note", &format!("n{n}"), &text)).collect()).await;
    for _ in 0..10 {
        let mut follower = followed.follower(Followed::request(Seq::ZERO, u64::MAX)).await;
        let first = follower.next().await.unwrap().unwrap();
        assert!(first.lines < 2_000 && first.bytes.len() < 32 << 10, "history comes in small pieces");
    }
    followed.close().await;
}

on_every_engine! {
    no_wake_up_of_a_follower_is_lost,
    a_change_between_the_look_and_the_wait_ends_the_wait,
    no_wake_up_of_a_long_poll_is_lost,
    a_parked_follower_ends_when_its_stream_must,
    history_is_not_read_for_a_reader_that_is_gone,
}
