-- What distinguishes two records of one request id.
        cityHash64(id_first, attempts, proxy, isNull(connection), ifNull(connection, negate(status)), isNull(connection_requests),
            ifNull(connection_requests, negate(status)), request_time, status)
