-- What applications write in transactions of their own, on its way into the log, and what captures their
-- tables. Times here are timestamptz: people read them with psql.

-- A row waits here from the commit of the application's transaction until a server has made a change of it.
-- Nobody takes a lock of ours to write one. What cannot become a change is accepted all the same and set
-- aside later: an application's transaction must not fail because of the log.
CREATE TABLE scroll.outbox (
    outbox_id  BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Whoever has seen everything at one snapshot finds what came since by this: numbers above its xmax, and
    -- those that were running. The dead rows before it, however many a long transaction keeps, are never
    -- walked over again.
    xid        XID8 NOT NULL DEFAULT pg_current_xact_id(),
    log        TEXT COLLATE "C" NOT NULL,
    resource   TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C",
    op         TEXT COLLATE "C" NOT NULL, -- put or delete
    type       TEXT COLLATE "C",          -- what the line says; NULL: created, updated, deleted
    data       TEXT COLLATE "C",          -- JSON as it was written, digits and member order included
    written_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    unless_changed_since BIGINT           -- of a row that is tried again: nothing newer may be in the log
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000000);
-- What came since a snapshot. Each index costs the application a part of its time, so there is no other.
CREATE INDEX outbox_by_xid ON scroll.outbox (xid);

-- What could not become a change, until somebody decides.
CREATE TABLE scroll.outbox_refused (
    outbox_id  BIGINT PRIMARY KEY,
    log        TEXT COLLATE "C" NOT NULL,
    resource   TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C",
    op         TEXT COLLATE "C" NOT NULL,
    type       TEXT COLLATE "C",
    data       TEXT COLLATE "C",
    written_at TIMESTAMPTZ NOT NULL,
    refused_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    head       BIGINT NOT NULL, -- of the log when it was refused
    reason     TEXT NOT NULL
);
CREATE INDEX outbox_refused_by_entity ON scroll.outbox_refused (log, resource, id);

-- Appends the new state of an entity, as part of the transaction that calls it. These functions run as whoever
-- calls them; names are written so that no search_path leads elsewhere.
CREATE FUNCTION scroll.append(log text, resource text, id text, data text, type text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scroll.outbox (log, resource, id, op, type, data) VALUES ($1, $2, $3, 'put', $5, $4);
END $$;

CREATE FUNCTION scroll.append(log text, resource text, id text, data json, type text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scroll.outbox (log, resource, id, op, type, data) VALUES ($1, $2, $3, 'put', $5, $4::pg_catalog.text);
END $$;

-- Its members are in the order that jsonb gives them.
CREATE FUNCTION scroll.append(log text, resource text, id text, data jsonb, type text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scroll.outbox (log, resource, id, op, type, data) VALUES ($1, $2, $3, 'put', $5, $4::pg_catalog.text);
END $$;

-- Appends the end of an entity.
CREATE FUNCTION scroll.append_delete(log text, resource text, id text, type text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scroll.outbox (log, resource, id, op, type) VALUES ($1, $2, $3, 'delete', $4);
END $$;

-- Lets a role append, and capture the tables that it owns. Whoever may append writes lines that consumers believe,
-- so nobody may until told. The other columns are not granted: they are the order.
CREATE FUNCTION scroll.allow_append(role regrole) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA scroll TO %s', role);
    EXECUTE format('GRANT INSERT (log, resource, id, op, type, data) ON scroll.outbox TO %s', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION scroll.has_log(text) TO %s', role);
END $$;

-- Is there a log of this name? For those who may not read scroll.logs.
CREATE FUNCTION scroll.has_log(name text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scroll.logs AS l WHERE l.name = $1)
$$;
REVOKE ALL ON FUNCTION scroll.has_log(text) FROM PUBLIC;

-- Tries refused rows again: one, or all (NULL). How many. A row keeps its place in the order, and one that was
-- overtaken meanwhile is dropped: by a newer refused row here, by a newer change when its turn comes.
CREATE FUNCTION scroll.outbox_retry(p_outbox_id bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tried bigint;
BEGIN
    WITH gone AS (
        DELETE FROM scroll.outbox_refused AS r WHERE p_outbox_id IS NULL OR r.outbox_id = p_outbox_id RETURNING r.*
    ), again AS (
        INSERT INTO scroll.outbox (outbox_id, log, resource, id, op, type, data, written_at, unless_changed_since)
        OVERRIDING SYSTEM VALUE
        SELECT g.outbox_id, g.log, g.resource, g.id, g.op, g.type, g.data, g.written_at, g.head
          FROM gone AS g
         WHERE NOT EXISTS (SELECT FROM scroll.outbox_refused AS n
                            WHERE n.log = g.log AND n.resource = g.resource AND n.id = g.id
                              AND n.outbox_id > g.outbox_id)
        RETURNING 1
    )
    SELECT count(*) INTO tried FROM again;
    RETURN tried;
END $$;

-- The data of a captured row, as an expression over the record of this name. Values are written as to_json
-- writes them: digits and code points survive, json columns keep their text.
CREATE FUNCTION scroll.capture_expression(columns text[], record text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN columns IS NULL THEN format('row_to_json(%s)::text', record)
                -- The quickest, for as many arguments as a function may have.
                WHEN cardinality(columns) <= 50 THEN
                    (SELECT format('json_build_object(%s)::text',
                                   string_agg(format('%L, %s.%I', c.name, record, c.name), ', ' ORDER BY c.nth))
                       FROM unnest(columns) WITH ORDINALITY AS c (name, nth))
                ELSE (SELECT format('(SELECT row_to_json(r) FROM (SELECT %s) AS r)::text',
                                    string_agg(format('%s.%I', record, c.name), ', ' ORDER BY c.nth))
                        FROM unnest(columns) WITH ORDINALITY AS c (name, nth)) END
$$;

-- The settings under which the values of these columns have one text each. A setting costs every change a little,
-- so only those that matter; columns that are added later may be of any type.
CREATE FUNCTION scroll.capture_settings("table" regclass, id text, columns text[]) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH known (type, setting) AS (VALUES
        ('int2'::regtype, ''), ('int4', ''), ('int8', ''), ('numeric', ''), ('bool', ''), ('uuid', ''), ('text', ''),
        ('varchar', ''), ('bpchar', ''), ('json', ''), ('jsonb', ''), ('timestamptz', 'SET timezone = ''UTC'''),
        ('float4', 'SET extra_float_digits = 1'), ('float8', 'SET extra_float_digits = 1'),
        ('bytea', 'SET bytea_output = ''hex'''))
    SELECT CASE WHEN columns IS NULL OR bool_or(k.type IS NULL OR a.attname = id AND k.setting <> '')
                THEN 'SET timezone = ''UTC'' SET datestyle = ''ISO'' SET intervalstyle = ''iso_8601'' '
                     'SET bytea_output = ''hex'' SET extra_float_digits = 1'
                ELSE coalesce(string_agg(DISTINCT k.setting, ' '), '') END
      FROM pg_attribute AS a LEFT JOIN known AS k ON k.type = a.atttypid
     WHERE a.attrelid = "table" AND a.attname = ANY (array_append(columns, id)) AND NOT a.attisdropped
$$;

-- Refuses what cannot be captured, in words.
CREATE FUNCTION scroll.capture_check("table" regclass, resource text, id text, columns text[], log text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record;
    missing text;
BEGIN
    SELECT c.*, n.nspname INTO t FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = "table";
    IF t.relkind = 'p' OR t.relispartition THEN
        RAISE EXCEPTION '% is partitioned: rows that move between partitions cannot be captured', "table";
    ELSIF t.relkind <> 'r' THEN
        RAISE EXCEPTION '% is not a table: a view or a foreign table has no rows of its own to capture', "table";
    ELSIF t.relpersistence <> 'p' THEN
        RAISE EXCEPTION '% is temporary or unlogged: a crash would take its rows away without a word', "table";
    ELSIF t.nspname IN ('scroll', 'pg_catalog', 'information_schema') THEN
        RAISE EXCEPTION '% is not a table of an application', "table";
    ELSIF EXISTS (SELECT FROM pg_inherits WHERE inhparent = "table") THEN
        RAISE EXCEPTION '% has tables that inherit from it: their rows would not be captured', "table";
    END IF;
    IF resource !~ '^[a-z][a-z0-9_.-]{0,63}$' THEN
        RAISE EXCEPTION 'resource % is no resource name: a lower-case letter, then up to 63 of a-z, 0-9, _, . and -',
            quote_literal(resource);
    END IF;
    IF NOT scroll.has_log(log) THEN
        RAISE EXCEPTION 'there is no log %', quote_literal(log) USING HINT = 'scroll logs create makes one';
    END IF;
    SELECT string_agg(quote_ident(c.name), ', ') INTO missing
      FROM unnest(array_append(columns, id)) AS c (name)
     WHERE NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = "table" AND a.attname = c.name
                          AND a.attnum > 0 AND NOT a.attisdropped);
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION '% has no column %', "table", missing;
    END IF;
    IF columns = '{}' OR (SELECT count(DISTINCT c) < cardinality(columns) FROM unnest(columns) AS c) THEN
        RAISE EXCEPTION 'columns must name at least one column, and each once';
    END IF;
    -- Two rows with one id would be one entity. A constraint that is checked late lets them be for a while.
    IF NOT EXISTS (SELECT FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                    WHERE i.indrelid = "table" AND a.attname = id AND a.attnotnull AND i.indnkeyatts = 1
                      AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL) THEN
        RAISE EXCEPTION 'column % of % cannot be the id: it needs NOT NULL and a unique index of its own, not deferrable',
            quote_ident(id), "table";
    END IF;
END $$;

-- The operator by which the unique index of an id compares: 3 is =, 5 is >. It may live in any schema.
CREATE FUNCTION scroll.capture_operator("table" regclass, id text, strategy integer) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname)
      FROM pg_index AS i
      JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
      JOIN pg_opclass AS c ON c.oid = i.indclass[0]
      JOIN pg_amop AS m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype
                       AND m.amoprighttype = c.opcintype AND m.amopstrategy = strategy
      JOIN pg_operator AS o ON o.oid = m.amopopr
      JOIN pg_namespace AS n ON n.oid = o.oprnamespace
     WHERE i.indrelid = "table" AND a.attname = id AND i.indnkeyatts = 1 AND i.indisunique AND i.indimmediate
       AND i.indisvalid AND i.indpred IS NULL
     ORDER BY i.indexrelid LIMIT 1
$$;

-- Captures a table: from this transaction's commit on, every row that is inserted, updated or deleted is written
-- to the outbox in the transaction that does it. Again with other arguments replaces what was there.
--
-- The function that the triggers run is made for the table: plans are cached, and it runs as the owner of the
-- table, so it gives nobody anything that the owner does not have. Sessions may have any setting; the function
-- has its own, so that one value is always written as one text.
--
-- Triggers run after the row, whose lock is then held: whoever changes the row next gets a higher outbox_id.
-- Their names sort before those of the application (so does their work), and they skip a row version that was
-- replaced in the meantime, by other triggers of the same statement: its successor has been written already.
CREATE FUNCTION scroll.capture("table" regclass, resource text, id text, columns text[] DEFAULT NULL,
                               log text DEFAULT 'default') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    t record;
    run text;
    changed text;
BEGIN
    PERFORM scroll.capture_check("table", resource, id, columns, log);
    SELECT c.relname, n.nspname, pg_get_userbyid(c.relowner) AS owner INTO t
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = "table";
    IF NOT has_schema_privilege(t.owner, 'scroll', 'USAGE')
       OR NOT has_column_privilege(t.owner, 'scroll.outbox', 'data', 'INSERT') THEN
        RAISE EXCEPTION '%, the owner of %, may not append to the log', t.owner, "table"
            USING HINT = format('SELECT scroll.allow_append(%L)', quote_ident(t.owner));
    END IF;
    PERFORM scroll.release("table");
    run := format('%I.%I', t.nspname, 'scroll_capture_' || "table"::oid);
    EXECUTE format($make$
CREATE FUNCTION %1$s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp %11$s
AS $run$
DECLARE
    stands boolean;
BEGIN
    -- The usual case, in as few steps as can be. xmax is 0 while nobody has touched this version of the row.
    IF (TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND OLD.%4$I::text COLLATE "C" = NEW.%4$I::text COLLATE "C")
       AND NEW.xmax = '0'::xid THEN
        INSERT INTO scroll.outbox (log, resource, id, op, data) VALUES (%6$L, %7$L, NEW.%4$I::text, 'put', %8$s);
        RETURN NULL;
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'TRUNCATE of %% would take rows away that the log still has', TG_RELID::regclass
            USING HINT = 'DELETE the rows, or let go of the table first: SELECT scroll.release(...)';
    END IF;
    -- The row of the old id is gone, unless a trigger has put one there again.
    IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND OLD.%4$I::text COLLATE "C" <> NEW.%4$I::text COLLATE "C" THEN
        IF TG_TABLE_NAME = %2$L AND TG_TABLE_SCHEMA = %3$L THEN
            SELECT EXISTS (SELECT FROM %5$s AS t WHERE t.%4$I %9$s OLD.%4$I
                              AND t.%4$I::text COLLATE "C" = OLD.%4$I::text COLLATE "C") INTO stands;
        ELSE -- It was renamed: no plan of its own, and no error.
            EXECUTE format('SELECT EXISTS (SELECT FROM %%1$s AS t WHERE t.%%2$I %9$s $1
                               AND t.%%2$I::text COLLATE "C" = $1::text COLLATE "C")', TG_RELID::regclass, %10$L)
                INTO stands USING OLD.%4$I;
        END IF;
        IF NOT stands THEN
            INSERT INTO scroll.outbox (log, resource, id, op) VALUES (%6$L, %7$L, OLD.%4$I::text, 'delete');
        END IF;
    END IF;
    -- This version of the row may have been locked, or replaced.
    IF TG_OP <> 'DELETE' THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %%s AS t WHERE t.ctid = $1)', TG_RELID::regclass)
            INTO stands USING NEW.ctid;
        IF stands THEN
            INSERT INTO scroll.outbox (log, resource, id, op, data) VALUES (%6$L, %7$L, NEW.%4$I::text, 'put', %8$s);
        END IF;
    END IF;
    RETURN NULL;
END $run$ $make$, run, t.relname, t.nspname, id, "table", log, resource, scroll.capture_expression(columns, 'NEW'),
        scroll.capture_operator("table", id, 3), id, scroll.capture_settings("table", id, columns));
    EXECUTE format('REVOKE ALL ON FUNCTION %s() FROM PUBLIC', run);
    IF t.owner <> current_user THEN
        EXECUTE format('ALTER FUNCTION %s() OWNER TO %I', run, t.owner);
    END IF;
    -- Compared byte by byte: 1.0 and 1.00 are equal and yet not the same text. What is not captured does not count.
    SELECT CASE WHEN columns IS NULL THEN 'OLD OPERATOR(pg_catalog.*<>) NEW'
                ELSE format('ROW(%s)::record OPERATOR(pg_catalog.*<>) ROW(%s)::record', string_agg(format('OLD.%I', c), ', '),
                            string_agg(format('NEW.%I', c), ', ')) END
      INTO changed FROM unnest(array_append(columns, id)) AS c;
    EXECUTE format('CREATE TRIGGER "!scroll_capture_rows" AFTER INSERT OR DELETE ON %s
                    FOR EACH ROW EXECUTE FUNCTION %s()', "table", run);
    EXECUTE format('CREATE TRIGGER "!scroll_capture_updates" AFTER UPDATE ON %s
                    FOR EACH ROW WHEN (%s) EXECUTE FUNCTION %s()', "table", changed, run);
    EXECUTE format('CREATE TRIGGER "!scroll_capture_truncate" BEFORE TRUNCATE ON %s
                    FOR EACH STATEMENT EXECUTE FUNCTION %s()', "table", run);
    -- Also what logical replication applies: the log follows the table, whoever writes it.
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "!scroll_capture_rows",
                    ENABLE ALWAYS TRIGGER "!scroll_capture_updates",
                    ENABLE ALWAYS TRIGGER "!scroll_capture_truncate"', "table");
END $body$;

-- Ends the capture of a table; true when it was captured. What is in the log stays there.
CREATE FUNCTION scroll.release("table" regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record;
    runs text[] := '{}';
    run text;
BEGIN
    FOR t IN SELECT g.tgname, g.tgfoid::regprocedure::text AS run FROM pg_trigger AS g
              WHERE g.tgrelid = "table" AND g.tgname LIKE '!scroll\_capture\_%' LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', t.tgname, "table");
        runs := runs || t.run;
    END LOOP;
    FOR run IN SELECT DISTINCT r FROM unnest(runs) AS r LOOP
        EXECUTE 'DROP FUNCTION ' || run;
    END LOOP;
    RETURN runs <> '{}';
END $$;

-- Brings one chunk of the rows that a captured table already has into the outbox: `rows` of them above the id
-- `after` (NULL: from the beginning), in the order of the id. The last id of the chunk, NULL at the end; how many
-- rows were taken; and the ids of rows that somebody else is writing right now, which are left out.
--
-- Rows are locked as they are read: a change of one came before, and is what is read here, or it waits for the
-- end of this transaction, and its outbox_id is higher. Nobody is waited for while locks are held, so no
-- transaction of the application can ever be the victim of a deadlock with this one.
CREATE FUNCTION scroll.backfill_chunk("table" regclass, resource text, id text, columns text[], log text,
                                      after text, rows integer,
                                      OUT last text, OUT taken bigint, OUT busy text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO'
    SET intervalstyle = 'iso_8601' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
DECLARE
    kind text;
    ids text[];
    locked text[];
BEGIN
    SELECT format_type(a.atttypid, a.atttypmod) INTO kind FROM pg_attribute AS a
     WHERE a.attrelid = "table" AND a.attname = id;
    EXECUTE format('SELECT array_agg(c.id) FROM (SELECT t.%1$I::text AS id FROM %2$s AS t
                    WHERE %4$s ORDER BY t.%1$I LIMIT $2) AS c', id, "table", kind,
                   CASE WHEN after IS NULL THEN '$1 IS NULL'
                        ELSE format('t.%I %s $1::%s', id, scroll.capture_operator("table", id, 5), kind) END)
       INTO ids USING after, rows;
    last := ids[cardinality(ids)];
    locked := scroll.backfill_rows("table", resource, id, columns, log, ids, true);
    taken := coalesce(cardinality(locked), 0);
    SELECT coalesce(array_agg(i), '{}') INTO busy FROM unnest(ids) AS i WHERE i <> ALL (coalesce(locked, '{}'));
END $$;

-- Locks these rows and brings them into the outbox; the ids of those that it got. A row that is gone is nobody's
-- loss: its end is in the outbox.
CREATE FUNCTION scroll.backfill_rows("table" regclass, resource text, id text, columns text[], log text, ids text[],
                                     skips_busy boolean) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO'
    SET intervalstyle = 'iso_8601' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
DECLARE
    kind text;
    locked text[];
BEGIN
    SELECT format_type(a.atttypid, a.atttypmod) INTO kind FROM pg_attribute AS a
     WHERE a.attrelid = "table" AND a.attname = id;
    EXECUTE format('WITH taken AS (INSERT INTO scroll.outbox (log, resource, id, op, data)
                        SELECT $1, $2, c.id, ''put'', c.data FROM (
                            SELECT t.%1$I::text AS id, %2$s AS data FROM %3$s AS t
                             WHERE t.%1$I %6$s ANY ($3::%4$s[]) ORDER BY t.%1$I FOR SHARE %5$s) AS c
                        RETURNING id)
                    SELECT array_agg(id) FROM taken',
                   id, scroll.capture_expression(columns, 't'), "table", kind,
                   CASE WHEN skips_busy THEN 'SKIP LOCKED' END, scroll.capture_operator("table", id, 3))
       INTO locked USING log, resource, ids;
    RETURN locked;
END $$;
