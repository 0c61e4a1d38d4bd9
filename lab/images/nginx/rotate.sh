#!/bin/sh
# Keeps the log of the nginx next door within bounds: beyond MAX_BYTES the file gets a number, nginx a new one.
#   rotate-logs FILE [MAX_BYTES [KEEP [EVERY_SECONDS]]]
# Shares the processes and the user of that nginx, which is process 1 there: all it takes to tell it. Vector goes on with the renamed file by its
# fingerprint; KEEP old ones are the time it may be away.
set -eu

log=${1:?usage: rotate-logs FILE [MAX_BYTES [KEEP [EVERY_SECONDS]]]}
most=${2:-268435456}
keep=${3:-4}
every=${4:-10}

trap 'exit 0' TERM INT
while :; do
    size=$(stat -c %s "$log" 2> /dev/null || echo 0)
    if [ "$size" -gt "$most" ]; then
        number=$keep
        while [ "$number" -gt 1 ]; do
            previous=$((number - 1))
            [ -e "$log.$previous" ] && mv -f "$log.$previous" "$log.$number"
            number=$previous
        done
        mv -f "$log" "$log.1"
        kill -USR1 1
    fi
    sleep "$every" &
    wait $!
done
