//! Live reading at the level of the feed, where a write can be put exactly where it hurts.

mod wakeups;

use std::sync::Arc;
use std::time::Duration;

use scroll::change::{Fields, Selection, Seq};
use scroll::entity::types::Catalog;
use scroll::feed::follow::{self, FollowRequest, Follower, Lifetime, Source};
use scroll::feed::form::{End, Form, Framing};
use scroll::feed::tail::Tails;
use scroll::feed::{PageRequest, Since};
use scroll::metrics::Metrics;
use scroll::tasks::Tasks;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::support::bed::Bed;
use crate::support::desk::Desk;

/// A log with what its followers need.
pub struct Followed {
    pub desk: Desk,
    pub tails: Arc<Tails>,
    pub tasks: Tasks,
    pub metrics: Arc<Metrics>,
    /// Ends every stream.
    pub ending: watch::Sender<Option<End>>,
}

impl Followed {
    pub async fn open(bed: &Bed) -> Followed {
        let desk = Desk::open(bed).await;
        let metrics = Arc::new(Metrics::new().unwrap());
        let tasks = Tasks::on(tokio::runtime::Handle::current(), metrics.clone());
        let tails = Arc::new(Tails::new(desk.store.clone(), tasks.clone()));
        Followed { desk, tails, tasks, metrics, ending: watch::Sender::new(None) }
    }

    /// What a reader of everything after a cursor asks for.
    pub fn request(since: Seq, limit: u64) -> PageRequest {
        PageRequest {
            since: Since::After(since),
            until: None,
            limit,
            selection: Selection::All,
            named: Vec::new(),
            is_compact: false,
            fields: Fields::default(),
            epoch: None,
            min_head: None,
            floor: None,
        }
    }

    /// A follower of plain lines.
    pub async fn follower(&self, page: PageRequest) -> Follower {
        let source = Source {
            store: self.desk.store.clone(),
            tails: self.tails.clone(),
            tasks: self.tasks.clone(),
            log: self.desk.log,
        };
        let form = Form { framing: Framing::Lines, fields: page.fields };
        let request = FollowRequest { page, form, heartbeat: Duration::from_secs(60), has_control: false };
        let place = follow::open(source, &Catalog::builtin(), request).await.unwrap();
        let until = Instant::now() + Duration::from_secs(3_600);
        place.follow(Lifetime { until, ending: self.ending.subscribe() })
    }

    /// Lets the store go once nothing follows it.
    pub async fn close(self) {
        assert_eq!(self.tasks.stopped(Duration::from_secs(10)).await, 0, "a task outlives its followers");
        drop(self.tails);
        // A read that nobody waits for any more comes to its end by itself.
        let gone = async {
            while Arc::strong_count(&self.desk.store) > 1 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.expect("somebody holds the store");
        Bed::close(self.desk.store).await;
    }
}
