//! The ceiling: the server stack of scroll with nothing behind it. Bytes that are in memory already go out in
//! pieces of the size that scroll sends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpResponse, HttpServer, web};
use bytes::Bytes;
use scroll::feed::lines::pieces;

use crate::Outcome;

/// A server in a thread of its own.
pub struct Ram {
    /// Where it listens.
    pub address: SocketAddr,
    handle: ServerHandle,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Ram {
    /// Serves `bytes` at every path.
    pub fn start(bytes: Bytes) -> Outcome<Ram> {
        let (sender, started) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let app = move || App::new().app_data(web::Data::new(bytes.clone())).default_service(web::to(answer));
                let server = HttpServer::new(app).bind(("127.0.0.1", 0))?;
                let addresses = server.addrs();
                let server = server.disable_signals().run();
                // Whoever waits for this has not gone.
                let _ = sender.send((addresses[0], server.handle()));
                server.await
            })
        });
        let (address, handle) = started.recv()?;
        Ok(Ram { address, handle, thread })
    }

    /// Ends it.
    pub async fn stop(self) -> Outcome<()> {
        self.handle.stop(false).await;
        Ok(self.thread.join().map_err(|_| "the server in memory panicked")??)
    }
}

async fn answer(bytes: web::Data<Bytes>) -> HttpResponse {
    let pieces = pieces(bytes.get_ref().clone()).map(Ok::<_, Infallible>);
    HttpResponse::Ok().content_type("application/x-ndjson").streaming(futures::stream::iter(pieces))
}
