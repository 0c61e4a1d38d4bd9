-- Every request once, with its split: the steps of split/, as in `sojourn split`, with the clock offset of the hour. Spans are not
-- joined: the time of a request without an answer is unattributed. queueing_delay is null where it is unknown; queue_by_duration
-- needs no clock.
-- Distributed.
CREATE OR REPLACE VIEW requests_split${local} ${on_cluster} SQL SECURITY INVOKER AS
WITH ${steps_by_hour}
SELECT * EXCEPT (
    by_stamp, by_span, of_app, pair, span_start, span_seconds, span_service_time, span_route, wasted,
    connecting, attempt, after_connecting, since_connected, waited, abandoned, accounted, has_both)
FROM split;
