Tuple(file String, id String, began Nullable(Float64), written Float64, size UInt64, read Nullable(UInt64), judged UInt64, gone Bool)
