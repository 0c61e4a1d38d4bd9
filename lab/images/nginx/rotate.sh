#!/bin/sh
# Runs COMMAND, an nginx in the foreground, and limits the size of its log: beyond SOJOURN_LOG_BYTES the
# file gets a number and nginx a new one. SOJOURN_LOG_KEEP old ones are the time a reader of the log may be away.
#   with-rotated-log FILE COMMAND...
# In nginx's own container, because a service that shared its processes would stay down after a crash of nginx: the
# engine tries once to join a namespace, and finds none.
set -eu

log=${1:?usage: with-rotated-log FILE COMMAND...}
shift
most=${SOJOURN_LOG_BYTES:-268435456}
keep=${SOJOURN_LOG_KEEP:-4}
every=${SOJOURN_LOG_LOOK_SECONDS:-10}

rotated() {
    number=$keep
    while [ "$number" -gt 1 ]; do
        previous=$((number - 1))
        if [ -e "$log.$previous" ]; then mv -f "$log.$previous" "$log.$number"; fi
        number=$previous
    done
    mv -f "$log" "$log.1"
}

(
    # What goes wrong once, a full disk for instance, is tried again.
    set +e
    while sleep "$every"; do
        size=$(stat -c %s "$log" 2> /dev/null || echo 0)
        # $$ is this script's process, which is nginx's by now.
        if [ "$size" -gt "$most" ] && rotated; then kill -USR1 $$; fi
    done
) &
exec "$@"
