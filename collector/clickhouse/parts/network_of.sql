-- Of an address its network, 24 bits of IPv4 or 48 of IPv6. A text that is not an address is kept.
    '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])' AS octet,
    (x) -> multiIf(
        match(x, concat('^(?:::ffff:)?(?:', octet, '\\.){3}', octet, '\\z')), replaceRegexpOne(x, '[0-9]+\\z', '0'),
        position(x, ':') > 0 AND toIPv6OrNull(x) IS NOT NULL, toString(tupleElement(IPv6CIDRToRange(toIPv6OrDefault(x), 48), 1)),
        x) AS network_of
