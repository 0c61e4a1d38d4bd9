-- The same values as before, from whole microseconds: dateDiff goes by the calendar, which costs more than all the rest.
ALTER TABLE requests${local} ${on_cluster}
    MODIFY COLUMN upload Float64 ALIAS multiIf(
        attempts > 0, ifNull(toUnixTimestamp64Micro(proxy_start) - toUnixTimestamp64Micro(time) + reinterpretAsInt64(request_time), 0) / 1e6,
        status IN (400, 408, 413, 499), toFloat64(request_time), 0),
    MODIFY COLUMN app_start Nullable(Float64) ALIAS if(answered,
        toFloat64(app_queueing_delay) + (toUnixTimestamp64Micro(request_start) - toUnixTimestamp64Micro(proxy_start)) / 1e6, NULL);
