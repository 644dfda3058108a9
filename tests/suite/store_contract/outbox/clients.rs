//! Many applications write one captured table while two servers drain it.

use std::collections::BTreeMap;
use std::sync::Arc;

use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;

use super::{application, drained, settled};
use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::desk::Desk;
use crate::support::model::{Entry, fold};
use crate::support::on_engine;
use crate::support::postgres::Shell;

const CLIENTS: usize = 16;
const ROUNDS: usize = 60;

const TABLE: &str = "CREATE TABLE public.accounts (id text PRIMARY KEY, who int, n numeric NOT NULL, hidden int);
    INSERT INTO public.accounts SELECT 'a' || n, 0, 0, 0 FROM generate_series(1, 12) AS n;
    SELECT scroll.capture('public.accounts', 'account', 'id', '{id,who,n}')";

/// What an application does in one round: an update that all fight for, in the order that avoids deadlocks; and
/// by turns a rollback, a savepoint that is rolled back, a change of the id, a delete and an insert again, an
/// update of what is not captured.
fn round(client: usize, round: usize) -> String {
    let nth = (client * 7 + round) % 12 + 1;
    let update = format!("UPDATE public.accounts SET n = n + 1.0, who = {client} WHERE id LIKE 'a{nth}%'");
    match round % 6 {
        0 => format!("BEGIN; {update}; ROLLBACK; {update}"),
        1 => format!("BEGIN; SAVEPOINT s; {update}; ROLLBACK TO s; {update}; COMMIT"),
        2 => format!(
            "UPDATE public.accounts SET id = id || 'x' WHERE id = 'a{nth}'; \
                      UPDATE public.accounts SET id = rtrim(id, 'x'), n = n + 1 WHERE id = 'a{nth}x'"
        ),
        3 => format!(
            "BEGIN; DELETE FROM public.accounts WHERE id = 'a{nth}'; \
                      INSERT INTO public.accounts VALUES ('a{nth}', {client}, {round}, 0) ON CONFLICT (id) \
                      DO UPDATE SET n = public.accounts.n + 0.50; COMMIT"
        ),
        4 => format!("UPDATE public.accounts SET hidden = {round} WHERE id = 'a{nth}'"),
        _ => format!("BEGIN; {update}; {update}; COMMIT"),
    }
}

fn rows(shell: &Shell) -> BTreeMap<String, String> {
    let text: String = shell.get(
        "SELECT coalesce(string_agg(id || ' ' || json_build_object('id', id, 'who', who, 'n', n)::text, E'\n'), '')
           FROM public.accounts",
    );
    let row = |line: &str| {
        let (id, data) = line.split_once(' ').unwrap();
        (id.to_owned(), data.replace(" : ", ":").replace(", ", ","))
    };
    text.lines().map(row).collect()
}

fn data_of(entry: &Entry) -> String {
    let (_, data) = entry.raw.split_once(r#","data":"#).unwrap();
    data.strip_suffix('}').unwrap().to_owned()
}

async fn sixteen_clients_and_two_servers_leave_every_row_as_its_last_line(bed: Bed) {
    let metrics = [(); 2].map(|()| Arc::new(Metrics::new().unwrap()));
    let desk = Desk::open_with(&bed, Options { metrics: metrics[0].clone(), ..Options::default() }).await;
    let other = Desk::open_with(&bed, Options { metrics: metrics[1].clone(), ..Options::default() }).await;
    let shell = application(&bed);
    shell.execute(TABLE);
    shell.execute("UPDATE public.accounts SET n = 0.00");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let url = bed.url();
            tokio::task::spawn_blocking(move || {
                let shell = Shell::connect(&url);
                (0..ROUNDS).for_each(|number| shell.execute(&round(client, number)));
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let lines = settled(&desk, &shell).await;
    let live = fold(&lines);
    let told: BTreeMap<_, _> = live.values().map(|entry| (entry.id.clone(), data_of(entry))).collect();
    assert_eq!(told, rows(&shell));
    assert!(lines.len() > CLIENTS * ROUNDS / 2, "only {} lines", lines.len());
    in_order(&lines);
    let drained = metrics.each_ref().map(|metrics| metrics.outbox_drained.get());
    assert!(drained[0] > 0 && drained[1] > 0, "one server did all the work: {drained:?}");
    assert_eq!(other.lines().await, lines);
}

/// Each row only ever counts up while it lives: a line that came twice, or out of order, would not.
fn in_order(lines: &[Entry]) {
    let mut known: BTreeMap<&str, f64> = BTreeMap::new();
    for entry in lines {
        if entry.deleted {
            known.remove(entry.id.as_str());
            continue;
        }
        let n: f64 = entry.data["n"].to_string().parse().unwrap();
        if let Some(before) = known.insert(&entry.id, n) {
            assert!(n > before, "{} after {before}: {}", n, entry.raw);
        }
    }
}

/// The same applications, and the tables that PostgreSQL itself keeps in step: what a foreign key takes away is told.
async fn what_foreign_keys_take_away_is_told(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute(
        "CREATE TABLE public.parents (id int PRIMARY KEY, parent int REFERENCES public.parents ON DELETE CASCADE ON UPDATE CASCADE);
         SELECT scroll.capture('public.parents', 'parent', 'id');
         INSERT INTO public.parents VALUES (1, 1), (2, 1), (3, 2);
         UPDATE public.parents SET id = 10 WHERE id = 1;
         DELETE FROM public.parents WHERE id = 10",
    );
    drained(&shell).await;
    let lines = check_everything(&desk, &Catalog::builtin()).await;
    assert!(fold(&lines).is_empty(), "{lines:?}");
    let last_of_two = lines.iter().rfind(|entry| entry.id == "2" && !entry.deleted).unwrap();
    assert_eq!(last_of_two.data["parent"], 10);
}

on_engine!(
    on_postgres,
    Postgres,
    sixteen_clients_and_two_servers_leave_every_row_as_its_last_line,
    what_foreign_keys_take_away_is_told
);
