//! A network between a server and its database that fails at the worst moment: while a transaction commits.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A simple query that commits, as it stands on the wire.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// What happens to the next connection that commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The database never hears of the commit.
    CutBefore,
    /// The database commits; its answer is lost with the connection.
    CutAfter,
    /// The database commits; the way back is closed, the way there stays open.
    HalfClose,
    /// The commit takes its time to get there.
    Delay(Duration),
}

struct Network {
    database: SocketAddr,
    fault: Mutex<Option<Fault>>,
    /// After a fault nobody gets through, until [`Proxy::heal`].
    breaks_down: AtomicBool,
    is_down: AtomicBool,
    is_closed: AtomicBool,
    faults: AtomicUsize,
}

pub struct Proxy {
    network: Arc<Network>,
    pub port: u16,
}

impl Proxy {
    /// Before a database on this port of the loopback.
    pub fn before(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let network = Arc::new(Network {
            database: SocketAddr::from(([127, 0, 0, 1], port)),
            fault: Mutex::new(None),
            breaks_down: AtomicBool::new(false),
            is_down: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            faults: AtomicUsize::new(0),
        });
        let shared = network.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.is_closed.load(Ordering::SeqCst) {
                    return;
                }
                if !shared.is_down.load(Ordering::SeqCst) {
                    connect(&shared, client);
                }
            }
        });
        Proxy { network, port: own }
    }

    /// The next commit meets this.
    pub fn fail_next(&self, fault: Fault) {
        *self.network.fault.lock().unwrap() = Some(fault);
    }

    /// The next commit meets this, and then nobody gets through.
    pub fn break_down_at(&self, fault: Fault) {
        self.network.breaks_down.store(true, Ordering::SeqCst);
        self.fail_next(fault);
    }

    pub fn heal(&self) {
        self.network.breaks_down.store(false, Ordering::SeqCst);
        self.network.is_down.store(false, Ordering::SeqCst);
    }

    /// How many commits have met something.
    pub fn faults(&self) -> usize {
        self.network.faults.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.is_closed.store(true, Ordering::SeqCst);
        // Wakes the listener, so that its thread ends.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn connect(network: &Arc<Network>, client: TcpStream) {
    let Ok(database) = TcpStream::connect(network.database) else {
        return;
    };
    for end in [&client, &database] {
        end.set_nodelay(true).unwrap();
    }
    let (from, to) = (database.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || back(from, to));
    let network = network.clone();
    std::thread::spawn(move || there(&network, client, database));
}

/// From the database to the server.
fn back(mut database: TcpStream, mut client: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = database.read(&mut buffer) {
        if client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    drop(client.shutdown(Shutdown::Write));
    drop(database.shutdown(Shutdown::Read));
}

/// From the server to the database, where the faults are.
fn there(network: &Network, mut client: TcpStream, mut database: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let sent = &buffer[..count];
        let commits = sent.windows(COMMIT.len()).any(|window| window == COMMIT);
        let fault = if commits { network.fault.lock().unwrap().take() } else { None };
        if fault.is_some() {
            network.is_down.store(network.breaks_down.load(Ordering::SeqCst), Ordering::SeqCst);
            network.faults.fetch_add(1, Ordering::SeqCst);
        }
        match fault {
            Some(Fault::CutBefore) => break,
            Some(Fault::Delay(time)) => std::thread::park_timeout(time),
            Some(Fault::CutAfter | Fault::HalfClose) => {
                drop(client.shutdown(if fault == Some(Fault::CutAfter) { Shutdown::Both } else { Shutdown::Write }));
            }
            None => {}
        }
        if database.write_all(sent).is_err() {
            break;
        }
    }
    drop(client.shutdown(Shutdown::Both));
    drop(database.shutdown(Shutdown::Both));
}
