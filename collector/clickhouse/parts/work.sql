Tuple(request_id String, service_time String, start String, route String, worker String)
