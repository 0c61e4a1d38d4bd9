-- Lines as they arrive, before anything collapses, by file and minute: the number of deliveries. The table arrivals had
-- this name until lines were parsed here; what it knows stands.
DROP VIEW IF EXISTS arrivals_of_requests${local} ${on_cluster};

DROP VIEW IF EXISTS arrivals_of_dead_letters${local} ${on_cluster};

RENAME TABLE IF EXISTS arrivals${local} TO lines_received${local} ${on_cluster};

CREATE MATERIALIZED VIEW IF NOT EXISTS lines_received_of_lines${local} ${on_cluster} TO lines_received${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT toStartOfMinute(now('UTC')) AS minute, if(reason = '', 'requests', 'dead_letters') AS kind, source, count() AS lines
FROM parsed${local}
GROUP BY kind, source;

-- Rows of agents that still parse by themselves. Only their rows have a length.
CREATE MATERIALIZED VIEW IF NOT EXISTS lines_received_of_requests${local} ${on_cluster} TO lines_received${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT toStartOfMinute(now('UTC')) AS minute, 'requests' AS kind, source, count() AS lines
FROM requests${local}
WHERE line_bytes > 0
GROUP BY source;

CREATE MATERIALIZED VIEW IF NOT EXISTS lines_received_of_dead_letters${local} ${on_cluster} TO lines_received${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT toStartOfMinute(now('UTC')) AS minute, 'dead_letters' AS kind, source, count() AS lines
FROM dead_letters${local} AS d
WHERE d.kind = 'requests' AND d.line_bytes > 0
GROUP BY source;
