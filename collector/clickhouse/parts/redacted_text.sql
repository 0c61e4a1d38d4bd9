replaceRegexpAll(replaceRegexpAll(replaceRegexpAll(text,
        '\\?(?:[^"\\\\ \\t\\r\\n]|\\\\.)*', '?'),
        '\\b([0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3})\\.[0-9]{1,3}\\b', '\\1.0'),
        '("remote_addr" ?: ?")((?:[0-9A-Fa-f]{1,4}:){1,3})[0-9A-Fa-f:.]+', '\\1\\2:')
