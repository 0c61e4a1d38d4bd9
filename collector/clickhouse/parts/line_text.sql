-- From 1 MiB on, a line is not a log line: its beginning becomes a dead letter. (Some shippers keep the newline.)
    length(i.line) - endsWith(i.line, '\n') >= 1048576 AS too_long,
    toValidUTF8(if(too_long, left(i.line, 10000), i.line)) AS valid,
    -- Each run of bytes that are not UTF-8 is one U+FFFD, also where the shipper has replaced them.
    if(position(valid, '\xEF\xBF\xBD\xEF\xBF\xBD') > 0, replaceRegexpAll(valid, '\\x{FFFD}+', '\xEF\xBF\xBD'), valid) AS text
