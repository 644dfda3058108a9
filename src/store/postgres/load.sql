-- Everything that a flight asks for, and where the log stands, in one round trip. `kind` tells the parts
-- apart, `nth` says which of the asked-for things a row is about. Each thing is looked up through its key
-- (LATERAL … LIMIT 1), whatever the planner thinks of tables that it has seen only empty. {changes} is the
-- partition of the log where it is known, since a statement about all of them locks all of them; else {nth} says
-- which one it is.
SELECT 0::bigint AS kind, {nth}::bigint AS nth, h.seq AS number, h.count, h.fingerprint,
       l.epoch AS a, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS b,
       pg_current_xact_id()::text AS c, NULL::bytea AS hash
  FROM scroll.logs AS l
  LEFT JOIN LATERAL (SELECT seq, count, fingerprint FROM {changes} WHERE log_id = ? ORDER BY seq DESC LIMIT 1)
         AS h ON true
 WHERE l.log_id = ?
UNION ALL -- entities: their newest live lines
SELECT 1, k.nth, e.seq, NULL, NULL, c.line, NULL, NULL, NULL
  FROM unnest(?, ?) WITH ORDINALITY AS k (resource, id, nth)
 CROSS JOIN LATERAL (SELECT seq FROM scroll.entities
                      WHERE log_id = ? AND resource = k.resource AND id = k.id LIMIT 1) AS e
 CROSS JOIN LATERAL (SELECT line FROM {changes} WHERE log_id = ? AND seq = e.seq LIMIT 1) AS c
UNION ALL -- resources: count and fingerprint. The order is that of one index only: by seq alone the planner
          -- would walk the log backwards, all of it for a resource that is rare
SELECT 2, k.nth, NULL, t.resource_count, t.resource_fingerprint, NULL, NULL, NULL, NULL
  FROM unnest(?) WITH ORDINALITY AS k (resource, nth)
 CROSS JOIN LATERAL (SELECT resource, resource_count, resource_fingerprint FROM {changes}
                      WHERE log_id = ? AND (resource, seq) <= (k.resource, 9223372036854775807)
                      ORDER BY resource DESC, seq DESC LIMIT 1) AS t
 WHERE t.resource = k.resource
UNION ALL -- requests: remembered answers
SELECT 3, k.nth, NULL, NULL, NULL, i.answer, NULL, NULL, i.body_hash
  FROM unnest(?, ?, ?) WITH ORDINALITY AS k (method, path, key, nth)
 CROSS JOIN LATERAL (SELECT answer, body_hash FROM scroll.idempotency
                      WHERE log_id = ? AND key = k.key AND method = k.method
                        AND hashtextextended(path, 0) = hashtextextended(k.path COLLATE "C", 0)
                        AND path = k.path LIMIT 1) AS i
UNION ALL -- referrers: the links that point to an entity, one more than may be
SELECT 4, k.nth, NULL, NULL, NULL, l.resource, l.id, l.member, NULL
  FROM unnest(?, ?) WITH ORDINALITY AS k (resource, id, nth)
 CROSS JOIN LATERAL (SELECT resource, id, member FROM scroll.links
                      WHERE log_id = ? AND target_resource = k.resource AND target_id = k.id
                      ORDER BY resource, id, member LIMIT ?) AS l
