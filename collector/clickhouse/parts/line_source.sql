multiIf(i.host = '', i.file, i.file = '', i.host, concat(i.host, ':', log_name(i.file))) AS source,
    i.position AS position,
    i.redact AS redact
