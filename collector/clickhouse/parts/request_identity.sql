cityHash64(service, route, time, record)
