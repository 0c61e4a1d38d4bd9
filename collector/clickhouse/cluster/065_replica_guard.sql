-- On a cluster only, and ahead of 070, whose view of this name it takes the place of: a replica that lags behind by more
-- than 30 s knows of no minute, so it computes none from rows it does not have yet. With less, a minute is still due
-- (60 s) when the rows have come.
CREATE VIEW IF NOT EXISTS minutes_known_local ${on_cluster} SQL SECURITY INVOKER AS
SELECT minute, max(touched) AS touched, max(computed) AS computed, sum(arrived) AS arrived
FROM touched_minutes_local
WHERE minute > toDateTime(0) AND (
    SELECT max(absolute_delay) FROM system.replicas
    WHERE database = currentDatabase() AND table = 'requests_local') < 30
GROUP BY minute;
