(x) -> x IN ('', '-') AS blank,
    -- Numbers, as nginx writes them, in whole microseconds, so that sums are exact; NULL for anything else.
    (x) -> toFloat64OrNull(if(match(x, '^-?[0-9]+(?:\\.[0-9]+)?\\z'), x, '')) AS number,
    (n) -> accurateCastOrNull(trunc(n + 0.5 * sign(n)), 'Int64') AS rounded,
    -- Lists: between attempts nginx writes ", ", and between internal redirects " : ".
    (x) -> bitOr(position(x, ', ') > 0, position(x, ' : ') > 0) AS is_list,
    (x) -> if(is_list(x), splitByRegexp(', | : ', x), [x]) AS parts,
    (x) -> if(x = '', 0, length(parts(x))) AS length_of,
    ifNull(r.upstream_addr, '') AS addresses
