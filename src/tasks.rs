//! Background work: every task is spawned here, has a name, is counted, and is waited for at the end.
//!
//! Tasks run on the main runtime, not on the threads of the HTTP workers, so that a write or a page goes on
//! whatever happens to the connection that asked for it.

use std::sync::Arc;
use std::time::Duration;

use prometheus::IntGauge;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::metrics::Metrics;

/// Spawns tasks and knows how many run.
#[derive(Clone)]
pub struct Tasks {
    runtime: Handle,
    metrics: Arc<Metrics>,
    running: Arc<watch::Sender<usize>>,
}

impl Tasks {
    /// Tasks on this runtime.
    pub fn on(runtime: Handle, metrics: Arc<Metrics>) -> Tasks {
        Tasks { runtime, metrics, running: Arc::new(watch::Sender::new(0)) }
    }

    /// Runs `work` to its end. `name` is one of few words, since it labels a metric.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(self, name);
        self.runtime.spawn(async move {
            let _counted = counted;
            work.await;
        });
    }

    /// Waits until no task runs, at most so long; how many still run then.
    pub async fn stopped(&self, deadline: Duration) -> usize {
        let mut running = self.running.subscribe();
        let stopped = running.wait_for(|running| *running == 0);
        match tokio::time::timeout(deadline, stopped).await {
            Ok(_) => 0,
            Err(_) => *self.running.borrow(),
        }
    }
}

/// One running task; not any more when it is dropped, be it by its end, a panic, or the runtime's end.
struct Counted {
    running: Arc<watch::Sender<usize>>,
    gauge: IntGauge,
}

impl Counted {
    fn new(tasks: &Tasks, name: &'static str) -> Counted {
        let gauge = tasks.metrics.tasks.with_label_values(&[name]);
        gauge.inc();
        tasks.running.send_modify(|running| *running += 1);
        Counted { running: tasks.running.clone(), gauge }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.dec();
        self.running.send_modify(|running| *running = running.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_are_counted_and_waited_for() {
        let tasks = Tasks::on(Handle::current(), Arc::new(Metrics::new().unwrap()));
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn("test", async move { drop(gone.await) });
        assert_eq!(tasks.stopped(Duration::ZERO).await, 1);
        assert_eq!(tasks.metrics.tasks.with_label_values(&["test"]).get(), 1);
        go.send(()).unwrap();
        assert_eq!(tasks.stopped(Duration::from_secs(5)).await, 0);
        assert_eq!(tasks.metrics.tasks.with_label_values(&["test"]).get(), 0);
    }
}
