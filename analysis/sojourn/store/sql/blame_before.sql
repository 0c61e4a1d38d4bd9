-- What is known of some minutes, but for what is no longer so.
SELECT minute, service, upstream, account, victim, culprit
FROM blame_minute FINAL
WHERE minute >= toDateTime({begin:UInt32}, 'UTC') AND minute < toDateTime({end:UInt32}, 'UTC') AND seconds != 0
