(t) -> toUnixTimestamp64Nano(parseDateTime64BestEffortOrNull(if(t LIKE '____-__-__T__:__:__%Z', t, ''), 9, 'UTC')) AS nanoseconds
