//! Servers on one database, with the logs they write.

use serde_json::json;

use crate::Outcome;
use crate::http::{self, Connection};
use crate::server::Server;
use crate::writers::Logs;

use super::cluster::Cluster;

/// One way of serving.
pub struct Side {
    /// Its database, by name.
    pub database: String,
    /// One or more.
    pub servers: Vec<Server>,
    /// What is written to.
    pub logs: Logs,
}

impl Side {
    /// Makes a database with so many logs, filled, and starts servers on it.
    pub async fn start(
        cluster: &Cluster,
        name: &'static str,
        logs: usize,
        servers: usize,
        arguments: &[&str],
    ) -> Outcome<Side> {
        let database = name.replace(' ', "_");
        let place = cluster.database(&database)?;
        let mut started = Vec::new();
        for _ in 0..servers {
            started.push(Server::start(place.clone(), arguments).await?);
        }
        let first = started.first().ok_or("a side without a server")?;
        let key = first.key("*")?;
        let names: Vec<String> = (0..logs).map(|log| format!("log-{log}")).collect();
        for name in &names {
            make_log(first, &key, name).await?;
        }
        let logs = Logs::fill(first.address, &key, names).await?;
        Ok(Side { database, servers: started, logs })
    }

    /// Ends the servers; each must end well.
    pub async fn stop(self) -> Outcome<()> {
        for server in self.servers {
            server.stop().await?;
        }
        Ok(())
    }
}

async fn make_log(server: &Server, key: &str, name: &str) -> Outcome<()> {
    let mut request = Vec::new();
    let body = json!({"name": name}).to_string();
    let kind = "Content-Type: application/json\r\n";
    http::write_request(&mut request, "POST /v1/admin/logs", key, kind, body.as_bytes());
    let mut connection = Connection::open(server.address).await?;
    let head = connection.send(&request).await?;
    let body = connection.whole().await?;
    match head.status {
        201 => Ok(()),
        status => Err(format!("a log was answered {status}: {}", String::from_utf8_lossy(&body)).into()),
    }
}
