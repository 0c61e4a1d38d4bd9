cityHash64(kind, reason, position, raw)
