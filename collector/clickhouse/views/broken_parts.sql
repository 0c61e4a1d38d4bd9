-- Parts of the store's tables that the engine has put aside, in the folder "detached" of their table: their rows are in no
-- answer. It does so when it starts and cannot read them (reason: broken-on-start and others); an empty reason is a DETACH of
-- the administrator. A part remains here until it is attached again or dropped, also where its rows were loaded again.
-- Distributed.
CREATE OR REPLACE VIEW broken_parts${local} ${on_cluster} DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT table, name, ifNull(reason, '') AS reason, bytes_on_disk, modification_time AS since
FROM system.detached_parts
-- The database of this table: on a cluster another machine has another current one.
WHERE database IN (SELECT _database FROM schema_state${local})
    AND ifNull(reason, '') NOT IN ('ignored', 'clone', 'deleting', 'tmp-fetch', 'attaching', 'covered-by-broken');
