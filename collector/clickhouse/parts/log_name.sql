-- A rotated file is the same log: access.jsonl.1 and access.jsonl-20260101 are access.jsonl.
    (f) -> if(endsWith(f, '.jsonl'), f, replaceRegexpOne(f, '(\\.jsonl)[.-][0-9][^/]*\\z', '\\1')) AS log_name
