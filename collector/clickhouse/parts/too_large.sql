-- Each span has a copy of its resource.
    length(text) > 131072 AND arraySum(x -> arraySum(a -> length(a.key) + length(mapValues(a.value)[1]), x.resource.attributes)
        * arraySum(s -> length(s.spans), x.scopeSpans), r.resourceSpans) > 67108864 AS too_large
