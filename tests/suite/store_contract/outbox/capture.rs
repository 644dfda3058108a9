//! `scroll.capture` and `scroll.release`: which changes of a table are told, how values are written, what is
//! refused, and for whom it works.

use scroll::change::LogName;
use scroll::store::postgres::outbox::{Capture, Session, SessionError};

use super::{application, settled, told};
use crate::support::bed::Bed;
use crate::support::commands::resource;
use crate::support::desk::Desk;
use crate::support::on_engine;

fn capture(table: &str) -> Capture {
    Capture {
        table: table.into(),
        resource: resource("row"),
        id: "id".into(),
        columns: None,
        log: LogName::parse("default").unwrap(),
    }
}

async fn every_way_to_change_a_row_is_told(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text, secret text)");
    shell.execute("SELECT scroll.capture('public.t', 'row', 'id', '{id,v}')");
    for sql in [
        "INSERT INTO t VALUES (1, 'a', 's'), (2, 'b', 's')",
        "UPDATE t SET secret = 'x'", // not captured
        "UPDATE t SET v = v",        // nothing changed
        "UPDATE t SET v = 'c' WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 2", // the old id is gone
        "INSERT INTO t VALUES (1, 'd') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
        "INSERT INTO t VALUES (1, 'e') ON CONFLICT DO NOTHING",
        "MERGE INTO t USING (VALUES (3, 'm'), (4, 'n')) AS s (id, v) ON t.id = s.id
         WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
        "SET session_replication_role = replica; UPDATE t SET v = 'r' WHERE id = 4; RESET session_replication_role",
        "ALTER TABLE t RENAME TO renamed; DELETE FROM renamed WHERE id = 1; ALTER TABLE renamed RENAME TO t",
        "DELETE FROM t",
    ] {
        shell.execute(&format!("SET search_path = public; {sql}"));
    }
    assert_eq!(
        told(&settled(&desk, &shell).await),
        [
            r#"1 created {"id":1,"v":"a"}"#,
            r#"2 created {"id":2,"v":"b"}"#,
            r#"1 updated {"id":1,"v":"c"}"#,
            "2 deleted null",
            r#"3 created {"id":3,"v":"b"}"#,
            r#"1 updated {"id":1,"v":"d"}"#,
            r#"3 updated {"id":3,"v":"m"}"#,
            r#"4 created {"id":4,"v":"n"}"#,
            r#"4 updated {"id":4,"v":"r"}"#,
            "1 deleted null",
            "3 deleted null",
            "4 deleted null",
        ]
    );
}

/// Whatever the session has set, a value is written in one way; digits, code points and the text of json stay.
async fn values_are_written_as_they_are(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute(
        "CREATE TABLE public.v (id uuid PRIMARY KEY, n numeric, f float8, j json, b bytea, t timestamptz, l timestamp,
             i interval, a int[], r daterange, s text);
         SELECT scroll.capture('public.v', 'row', 'id')",
    );
    let insert = r#"INSERT INTO public.v VALUES ('00000000-0000-0000-0000-000000000001', 12345678901234567890.1200,
        0.1::float8 + 0.2, '{"z":1e400,  "a":[1.0, "\u0000"]}', '\x00ff', '2026-01-01 00:30:00+02', '2026-07-01 00:00',
        '1 day 2 hours', '{1,NULL}', '[2026-01-01,2026-02-01)', E'tab\t"q" \u2028 😀')"#;
    shell.execute(insert);
    shell.execute(
        "SET timezone = 'America/St_Johns'; SET datestyle = 'German'; SET intervalstyle = 'sql_standard';
         SET bytea_output = 'escape'; SET extra_float_digits = 0",
    );
    shell.execute("DELETE FROM public.v");
    shell.execute(insert);
    shell.execute("UPDATE public.v SET n = 'NaN', f = 'Infinity'");
    let lines = told(&settled(&desk, &shell).await);
    assert_eq!(
        lines[0],
        concat!(
            r#"00000000-0000-0000-0000-000000000001 created {"id":"00000000-0000-0000-0000-000000000001","#,
            r#""n":12345678901234567890.1200,"f":0.30000000000000004,"j":{"z":1e400,"a":[1.0,"\u0000"]},"#,
            r#""b":"\\x00ff","t":"2025-12-31T22:30:00+00:00","l":"2026-07-01T00:00:00","i":"P1DT2H","#,
            r#""a":[1,null],"r":"[2026-01-01,2026-02-01)","s":"tab\t\"q\" \u2028 😀"}"#
        )
    );
    assert_eq!(lines[2], lines[0]);
    assert!(lines[3].contains(r#""n":"NaN","f":"Infinity""#), "{}", lines[3]);
    assert_eq!(lines.len(), 4);
}

/// A row version that triggers of the same statement replaced is no news when its own turn comes.
async fn the_last_line_is_the_row_whatever_triggers_do(bed: Bed) {
    const ROWS: &str = "SELECT string_agg(id || ' ' || n, ',' ORDER BY id) FROM public.g";
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute(
        "CREATE TABLE public.g (id int PRIMARY KEY, n int);
         CREATE FUNCTION public.meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF TG_OP = 'DELETE' THEN INSERT INTO public.g VALUES (OLD.id + 1, -1) ON CONFLICT DO NOTHING;
             ELSIF NEW.n < 100 THEN UPDATE public.g SET n = NEW.n + 100 WHERE id IN (NEW.id, NEW.id + 1); END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER a_meddle AFTER INSERT OR UPDATE ON public.g FOR EACH ROW EXECUTE FUNCTION public.meddle();
         SELECT scroll.capture('public.g', 'row', 'id');
         CREATE TRIGGER b_meddle AFTER DELETE ON public.g FOR EACH ROW EXECUTE FUNCTION public.meddle()",
    );
    for (sql, rows) in [
        ("INSERT INTO public.g VALUES (1, 1), (2, 2), (3, 3)", "1 101,2 102,3 103"),
        ("BEGIN; SELECT FROM public.g FOR UPDATE; UPDATE public.g SET n = 7; COMMIT", "1 107,2 107,3 107"),
        ("DELETE FROM public.g WHERE id < 3", "2 199,3 199"),
        (
            "BEGIN; UPDATE public.g SET n = 300; SAVEPOINT s; SELECT FROM public.g FOR SHARE; \
          UPDATE public.g SET n = 301 WHERE id = 2; RELEASE s; COMMIT",
            "2 301,3 300",
        ),
    ] {
        shell.execute(sql);
        let lines = settled(&desk, &shell).await;
        let live = crate::support::model::fold(&lines);
        let told: Vec<String> = live.values().map(|entry| format!("{} {}", entry.id, entry.data["n"])).collect();
        assert_eq!(told.join(","), shell.get::<String>(ROWS), "{sql}: {:?}", self::told(&lines));
        assert_eq!(told.join(","), rows, "{sql}");
    }
}

async fn truncate_is_refused_and_says_what_to_do(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute("CREATE TABLE public.t (id int PRIMARY KEY); SELECT scroll.capture('public.t', 'row', 'id')");
    shell.execute("INSERT INTO public.t VALUES (1)");
    let said = shell.refused("TRUNCATE public.t");
    assert!(said.contains("TRUNCATE of public.t"), "{said}");
    assert_eq!(told(&settled(&desk, &shell).await), [r#"1 created {"id":1}"#]);
    shell.execute("SELECT scroll.release('public.t'); TRUNCATE public.t");
}

async fn what_cannot_be_captured_is_refused_in_words(bed: Bed) {
    let _desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY, v text, loose int UNIQUE, deferred int NOT NULL UNIQUE DEFERRABLE);
         CREATE VIEW public.v AS SELECT * FROM public.t;
         CREATE TABLE public.p (id int PRIMARY KEY) PARTITION BY HASH (id);
         CREATE UNLOGGED TABLE public.u (id int PRIMARY KEY);
         CREATE TABLE public.parent (id int PRIMARY KEY); CREATE TABLE public.child () INHERITS (public.parent)",
    );
    for (arguments, reason) in [
        ("'public.v', 'row', 'id'", "is not a table"),
        ("'public.p', 'row', 'id'", "is partitioned"),
        ("'public.u', 'row', 'id'", "temporary or unlogged"),
        ("'public.parent', 'row', 'id'", "inherit from it"),
        ("'scroll.logs', 'row', 'log_id'", "not a table of an application"),
        ("'public.t', 'Row', 'id'", "no resource name"),
        ("'public.t', 'row', 'id', log => 'none'", "there is no log 'none'"),
        ("'public.t', 'row', 'ident', '{id,x}'", "has no column x, ident"),
        ("'public.t', 'row', 'id', '{}'", "at least one column"),
        ("'public.t', 'row', 'id', '{v,v}'", "each once"),
        ("'public.t', 'row', 'v'", "cannot be the id"),
        ("'public.t', 'row', 'loose'", "cannot be the id"),
        ("'public.t', 'row', 'deferred'", "cannot be the id"),
    ] {
        let said = shell.refused(&format!("SELECT scroll.capture({arguments})"));
        assert!(said.contains(reason), "{arguments}: {said}");
    }
    assert_eq!(shell.get::<i64>("SELECT count(*) FROM pg_trigger WHERE tgname LIKE '!scroll%'"), 0);
}

async fn capturing_again_replaces_and_releasing_ends_it(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)");
    let mut session = Session::open(&bed.url()).await.unwrap();
    session.capture(&capture("public.t")).await.unwrap();
    session.capture(&Capture { columns: Some(vec!["v".into()]), ..capture("public.t") }).await.unwrap();
    shell.execute("INSERT INTO public.t VALUES (1, 'a')");
    assert!(session.release("public.t").await.unwrap());
    assert!(!session.release("public.t").await.unwrap());
    shell.execute("INSERT INTO public.t VALUES (2, 'b')");
    assert_eq!(told(&settled(&desk, &shell).await), [r#"1 created {"v":"a"}"#]);
    let left = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'scroll\\_capture\\_%' AND pronamespace <> 'scroll'::regnamespace";
    assert_eq!(shell.get::<i64>(left), 0);
    let absent = session.capture(&capture("public.absent")).await.unwrap_err();
    assert!(matches!(&absent, SessionError::Refused(said) if said.contains("does not exist")), "{absent}");
}

/// Those who write the table need nothing; its owner must have been told; and nobody else gets at the outbox.
async fn roles_other_than_the_owner_write_a_captured_table(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    let name: String = shell.get("SELECT current_database()::text");
    let (owner, clerk) = (format!("{name}_owner"), format!("{name}_clerk"));
    shell.execute(&format!(
        "CREATE ROLE {owner}; CREATE ROLE {clerk}; CREATE SCHEMA app AUTHORIZATION {owner};
         SET ROLE {owner}; CREATE TABLE app.t (id int PRIMARY KEY, v text);
         GRANT USAGE ON SCHEMA app TO {clerk}; GRANT ALL ON app.t TO {clerk}; RESET ROLE"
    ));
    let said = shell.refused("SELECT scroll.capture('app.t', 'row', 'id')");
    assert!(said.contains("may not append"), "{said}");
    shell.execute(&format!(
        "SELECT scroll.allow_append('{owner}'); SET ROLE {owner}; SELECT scroll.capture('app.t', 'row', 'id');
         RESET ROLE; SET ROLE {clerk}; SET search_path = pg_temp, app; INSERT INTO t VALUES (1, 'a');
         UPDATE t SET v = 'b'; DELETE FROM t"
    ));
    for forbidden in [
        "SELECT scroll.append('default', 'row', '1', '{}')",
        "INSERT INTO scroll.outbox (log, resource, op) VALUES ('default', 'row', 'put')",
        "SELECT count(*) FROM scroll.outbox",
    ] {
        assert!(shell.refused(forbidden).contains("permission denied"), "{forbidden}");
    }
    shell.execute(&format!("RESET ROLE; SET ROLE {owner}; SELECT scroll.append('default', 'row', '2', '{{}}')"));
    let order = "INSERT INTO scroll.outbox (outbox_id, log, resource, op) OVERRIDING SYSTEM VALUE VALUES (1, 'default', 'row', 'put')";
    assert!(shell.refused(order).contains("permission denied"));
    shell.execute("RESET ROLE; RESET search_path");
    let lines = told(&settled(&desk, &shell).await);
    assert_eq!(lines.last().unwrap(), "2 created {}");
    assert_eq!(lines.len(), 4);
    shell.execute(&format!("DROP OWNED BY {owner}, {clerk}; DROP ROLE {owner}, {clerk}"));
}

on_engine!(
    on_postgres,
    Postgres,
    every_way_to_change_a_row_is_told,
    values_are_written_as_they_are,
    the_last_line_is_the_row_whatever_triggers_do,
    truncate_is_refused_and_says_what_to_do,
    what_cannot_be_captured_is_refused_in_words,
    capturing_again_replaces_and_releasing_ends_it,
    roles_other_than_the_owner_write_a_captured_table
);
