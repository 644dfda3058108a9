//! The threads that read. Each has its own connection and runs one short read at a time, so a reader
//! thread is never held by a slow client, and no snapshot outlives the read.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use diesel::SqliteConnection;
use tokio::sync::oneshot;

use super::connection::open_reader;
use super::error::gone;
use crate::store::{OpenError, StoreError};

/// Threads that read: more than the cores of a small machine, so that one long count does not hold up a
/// point read.
const READERS: usize = 4;
/// Reads that may wait; one more is refused as busy.
const QUEUE_READS: usize = 1_024;

type Read = Box<dyn FnOnce(&mut SqliteConnection) + Send>;

/// The pool of reading threads.
pub struct Readers {
    queue: Mutex<Option<SyncSender<Read>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    /// Opens the connections and starts the threads.
    pub fn start(path: &Path) -> Result<Readers, OpenError> {
        let (sender, receiver) = sync_channel::<Read>(QUEUE_READS);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::with_capacity(READERS);
        for number in 0..READERS {
            let connection = open_reader(path)?;
            let receiver = receiver.clone();
            let thread = std::thread::Builder::new()
                .name(format!("sqlite-read-{number}"))
                .spawn(move || work(&receiver, connection))
                .map_err(OpenError::Thread)?;
            threads.push(thread);
        }
        Ok(Readers { queue: Mutex::new(Some(sender)), threads: Mutex::new(threads) })
    }

    /// Runs one read on a reading thread.
    pub async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        read: impl FnOnce(&mut SqliteConnection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job: Read = Box::new(move |connection| {
            // Whoever asked may be gone.
            let _ = reply.send(read(connection));
        });
        self.send(operation, job)?;
        answer.await.unwrap_or_else(|_| Err(gone(operation)))
    }

    fn send(&self, operation: &'static str, job: Read) -> Result<(), StoreError> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = queue.as_ref() else {
            return Err(StoreError::Draining { operation });
        };
        sender.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy { operation, source: None },
            TrySendError::Disconnected(_) => gone(operation),
        })
    }

    /// Takes no more reads and waits for those that run.
    pub fn stop(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a reading thread had panicked");
            }
        }
    }
}

fn work(queue: &Mutex<Receiver<Read>>, mut connection: SqliteConnection) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(read) => read(&mut connection),
            Err(_) => return,
        }
    }
}
