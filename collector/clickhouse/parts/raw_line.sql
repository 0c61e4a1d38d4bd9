leftUTF8(replaceRegexpOne(if(redact, redacted, text), '[\\r\\n]+\\z', ''), if(reason = 'line_too_long', 200, 10000)) AS raw
