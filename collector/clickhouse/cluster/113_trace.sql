-- On a cluster only: what 112 changed, under the plain name.
ALTER TABLE requests ${on_cluster}
    ADD COLUMN IF NOT EXISTS trace String ALIAS if(trace_id = '' AND span_id != '', request_id, trace_id) AFTER trace_id;
