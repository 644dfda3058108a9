//! Which key is this, and is it valid? Asked on every request, so valid keys are remembered for a moment.
//!
//! A key is looked for by a prefix of its hash and then compared in constant time. Only valid keys are
//! remembered, so a guess costs the guesser a look-up and this server nothing. What is revoked here stops
//! working at once; what is revoked elsewhere (another server, the command line), when the moment is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::access::{Key, KeyHash, LogId};
use crate::change::time::Clock;
use crate::change::{LogName, Timestamp};
use crate::store::{Store, StoreError};

/// How long a valid key is believed: well within the 30 s in which a revocation must work.
const BELIEVED: Duration = Duration::from_secs(5);
/// Most keys, and most log names, that are remembered; beyond it everything is asked for anew.
const MAX_REMEMBERED: usize = 4096;

/// The keys and logs seen a moment ago.
pub struct Keyring {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    keys: HashMap<[u8; 8], Entry>,
    logs: HashMap<LogName, LogId>,
    /// Raised by every revocation, so that a look-up that began before it is not remembered.
    generation: u64,
}

struct Entry {
    hash: KeyHash,
    key: Arc<Key>,
    seen_at: Timestamp,
}

impl Keyring {
    /// Remembers nothing yet.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Keyring {
        Keyring { store, clock, memory: Mutex::default() }
    }

    /// The key whose secret has this hash, if it is valid now.
    pub async fn valid_key(&self, hash: &KeyHash) -> Result<Option<Arc<Key>>, StoreError> {
        let now = self.clock.now();
        let (remembered, generation) = self.recall(hash, now);
        let key = match remembered {
            Some(key) => Some(key),
            None => self.store.key(hash.clone()).await?.map(Arc::new),
        };
        let valid = key.filter(|key| key.is_valid_at(now));
        if let Some(key) = &valid {
            self.remember(hash.clone(), key, now, generation);
        }
        Ok(valid)
    }

    /// The number of the log of this name. Names are taken for good, so an answer holds.
    pub async fn log(&self, name: &LogName) -> Result<Option<LogId>, StoreError> {
        if let Some(log) = self.memory().logs.get(name) {
            return Ok(Some(*log));
        }
        let found = self.store.log(name).await?.map(|log| log.id);
        if let Some(log) = found {
            let mut memory = self.memory();
            if memory.logs.len() >= MAX_REMEMBERED {
                memory.logs.clear();
            }
            memory.logs.insert(name.clone(), log);
        }
        Ok(found)
    }

    /// Believes no key any more; after a revocation.
    pub fn forget_keys(&self) {
        let mut memory = self.memory();
        memory.keys.clear();
        memory.generation += 1;
    }

    fn recall(&self, hash: &KeyHash, now: Timestamp) -> (Option<Arc<Key>>, u64) {
        let memory = self.memory();
        let entry = memory.keys.get(&prefix(hash)).filter(|entry| entry.hash.is(hash));
        let fresh = entry.filter(|entry| entry.seen_at <= now && now < entry.seen_at.after(BELIEVED));
        (fresh.map(|entry| entry.key.clone()), memory.generation)
    }

    fn remember(&self, hash: KeyHash, key: &Arc<Key>, now: Timestamp, generation: u64) {
        let mut memory = self.memory();
        if memory.generation != generation {
            return;
        }
        if memory.keys.len() >= MAX_REMEMBERED {
            memory.keys.clear();
        }
        let entry = Entry { hash, key: key.clone(), seen_at: now };
        let prefix = prefix(&entry.hash);
        // A key that is still believed keeps its first moment: otherwise it would be believed for ever.
        let is_believed = memory.keys.get(&prefix).is_some_and(|known| Arc::ptr_eq(&known.key, key));
        if !is_believed {
            memory.keys.insert(prefix, entry);
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn prefix(hash: &KeyHash) -> [u8; 8] {
    let mut prefix = [0; 8];
    for (to, from) in prefix.iter_mut().zip(hash.as_bytes()) {
        *to = *from;
    }
    prefix
}
