Tuple(
    name LowCardinality(String), host LowCardinality(String), timestamp String, tags Map(String, String),
    counter Tuple(value Nullable(Float64)), gauge Tuple(value Nullable(Float64)),
    aggregated_histogram Tuple(count Nullable(Float64), sum Nullable(Float64)))
