-- What a table of `sojourn store explain` has of some minutes, but for what is no longer so.
SELECT $keys
FROM $table FINAL
WHERE minute >= toDateTime({begin:UInt32}, 'UTC') AND minute < toDateTime({end:UInt32}, 'UTC') AND seconds != 0
