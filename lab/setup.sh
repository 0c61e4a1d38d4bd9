#!/bin/sh
# Installs what the demo (run), the tests (test), or benchmarks, fuzzers and audits (tools) need, says what it does, and does nothing when nothing is missing.
#   sh lab/setup.sh run|test|tools
# System packages by apt (with sudo where not root), Python packages into .venv, pinned with hashes.
set -eu

stage=${1:?usage: sh lab/setup.sh run|test|tools}
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
fail() { say "setup: $*"; exit 1; }

case $stage in
    run) requirements=requirements/run.txt needed="nginx libnginx-mod-http-js" wanted="" ;;
    # What the tests can do without is installed where the distribution has it; what is missing is named by a skip.
    test) requirements=requirements/dev.txt needed="nginx libnginx-mod-http-js"
        wanted="libnginx-mod-stream libnginx-mod-mail libnginx-mod-http-lua
            njs unicorn ruby-rack siege chromium zstd tcpdump tshark goaccess haproxy jq nodejs curl
            tmux libatomic1 php-fpm puma uwsgi-core uwsgi-plugin-python3 apache2-bin libtomcat10-java
            varnish default-jdk-headless maven php-cli composer phpunit php-nyholm-psr7 php-symfony-http-kernel
            php-illuminate-routing php-illuminate-events libapache2-mod-php ruby-minitest ruby-railties ruby-sinatra
            prometheus" ;;
    # Over and above the tests'.
    tools) sh lab/setup.sh test
        requirements=requirements/tools.txt needed="" wanted="wrk valgrind mtail" ;;
    *) fail "no such stage: $stage (run, test or tools)" ;;
esac

# ---- Python: 3.11 or newer
python=""
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" > /dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        python=$(command -v "$candidate")
        break
    fi
done
if [ -z "$python" ]; then
    if command -v python3 > /dev/null; then fail "Python 3.11 or newer is needed, and python3 is $(python3 -V 2>&1)"; fi
    needed="$needed python3 python3-venv"
elif ! "$python" -c 'import ensurepip, venv' 2> /dev/null; then
    needed="$needed python3-venv"
fi

# ---- System packages
installed() { dpkg-query -W -f '${Status}' "$1" 2> /dev/null | grep -q 'ok installed'; }
provided() { # what another installation than the distribution's may provide as well
    case $1 in
        nginx) command -v nginx > /dev/null || [ -x /usr/sbin/nginx ] ;;
        libnginx-mod-http-js)
            for place in /usr/lib/nginx/modules /usr/lib64/nginx/modules /etc/nginx/modules /usr/local/nginx/modules; do
                [ -e "$place/ngx_http_js_module.so" ] && return 0
            done
            return 1
            ;;
        njs | unicorn | siege | wrk | valgrind | mtail | chromium | zstd | tshark | goaccess | jq | tmux | curl | puma) command -v "$1" > /dev/null ;;
        haproxy) command -v haproxy > /dev/null || [ -x /usr/sbin/haproxy ] ;;
        nodejs) command -v node > /dev/null ;;
        default-jdk-headless) command -v javac > /dev/null ;;
        maven) command -v mvn > /dev/null ;;
        php-fpm) command -v php-fpm > /dev/null ;;
        uwsgi-core) command -v uwsgi > /dev/null || command -v uwsgi-core > /dev/null ;;
        *) return 1 ;;
    esac
}
missing=""
for package in $needed $wanted; do
    installed "$package" || provided "$package" || missing="$missing $package"
done
if [ -n "$missing" ]; then
    command -v apt-get > /dev/null || fail "these are needed, and only apt is known here to install them:$missing"
    if [ "$(id -u)" = 0 ]; then
        as_root=""
    elif command -v sudo > /dev/null; then
        as_root=sudo
        say "setup: asking for sudo to install by apt:$missing"
    else
        fail "install these as root, then try again:$missing"
    fi
    say "setup: apt-get update"
    $as_root apt-get update -qq || fail "apt-get update failed"
    available=""
    for package in $missing; do
        if apt-cache show "$package" > /dev/null 2>&1; then
            available="$available $package"
        else
            case " $needed " in
                *" $package "*) fail "this distribution has no package $package (Debian 12, Ubuntu 24.04 and newer have)" ;;
                *) say "setup: this distribution has no package $package: the tests that need it will be skipped" ;;
            esac
        fi
    done
    say "setup: apt-get install$available"
    case $available in
        *" nginx"*) say "setup: (Debian's package starts an nginx of its own on port 80; nothing here uses it)" ;;
    esac
    case $available in
        *" prometheus"*) say "setup: (Debian's package starts a prometheus of its own on port 9090; nothing here uses it)" ;;
    esac
    case $available in
        *" varnish"*) say "setup: (Debian's package starts a varnishd of its own on port 6081; nothing here uses it)" ;;
    esac
    case $available in
        *" php-fpm"*) say "setup: (Debian's package starts a php-fpm of its own on a Unix socket; nothing here uses it)" ;;
    esac
    # shellcheck disable=SC2086 # a list of words
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $available > /dev/null \
        || fail "apt-get install failed"
fi
[ -n "$python" ] || python=$(command -v python3) || fail "python3 is still missing"

# ---- Captures of others, which tshark and the reader are compared on: among the tests of a Go module
module=github.com/google/gopacket@v1.1.19
module_hash=fc8cbe2239683199e677cb39f9303ae8d4a365f3c8cd8a2dcfa1f14c41bcff88
if [ "$stage" = test ] && [ "$(cat .tools/captures/.of 2> /dev/null)" != "$module" ]; then
    if ! command -v go > /dev/null; then
        say "setup: no go, so no captures of others: the tests that need them will be skipped"
    elif ! archive=$(cd / && timeout 60 go mod download -json "$module" 2> /dev/null | sed -n 's/.*"Zip": "\(.*\)".*/\1/p') \
        || ! printf '%s  %s\n' "$module_hash" "$archive" | sha256sum --check --status; then
        say "setup: go could not fetch $module: the tests that need its captures will be skipped"
    else
        rm -rf .tools/captures
        mkdir -p .tools/captures
        "$python" -m zipfile -e "$archive" .tools/captures && printf '%s\n' "$module" > .tools/captures/.of
        find .tools/captures -depth ! -name "*.pcap" ! -name "*.pcapng" ! -name .of ! -type d -delete -o -type d -empty -delete
    fi
fi

# ---- Kafka, for the tests of the agents' way to many machines: a broker from Maven Central
pom=tests/collector/vector/kafka/pom.xml
if [ "$stage" = test ] && ! cmp -s $pom .tools/kafka/pom.xml; then
    if ! command -v mvn > /dev/null; then
        say "setup: no mvn, so no Kafka: the tests that need it will be skipped"
    else
        say "setup: fetching Kafka by mvn"
        mkdir -p .tools/kafka
        if timeout 300 mvn --batch-mode --quiet -f $pom dependency:copy-dependencies -DoutputDirectory="$PWD/.tools/kafka/libs" > /dev/null; then
            cp $pom .tools/kafka/pom.xml
        else
            say "setup: mvn could not fetch Kafka: the tests that need it will be skipped"
        fi
    fi
fi

# ---- Python packages, once per state of the requirements
state=$(cat "$requirements" pyproject.toml lab/pyproject.toml collector/middleware/python/pyproject.toml | sha256sum | cut -d ' ' -f 1)
stamp=.venv/.sojourn-$stage
if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2> /dev/null)" = "$state" ]; then exit 0; fi
# Everything the demo needs is among what the tests need.
if [ "$stage" = run ] && [ -e .venv/.sojourn-test ]; then
    exec sh lab/setup.sh test
fi
if ! .venv/bin/python -c '' 2> /dev/null; then
    say "setup: making a virtual environment in .venv with $("$python" -V)"
    rm -rf .venv
    "$python" -m venv .venv
fi
say "setup: installing Python packages from $requirements (a minute or so)"
pip() { .venv/bin/python -m pip --disable-pip-version-check install --quiet "$@"; }
pip --require-hashes -r "$requirements" || fail "pip could not install $requirements"
[ "$stage" = tools ] || pip --no-deps --no-build-isolation -e collector/middleware/python -e . -e lab || fail "pip could not install the project"
if [ "$stage" != tools ]; then
    say "setup: compiling the code that commands call (about a minute)"
    .venv/bin/python -m sojourn.cli.compilation || fail "the compiled code could not be made"
fi
printf '%s\n' "$state" > "$stamp"
