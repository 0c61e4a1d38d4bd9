#!/bin/sh
# Runs once before every other service, and again without effect: creates the passwords, and gives each volume to its
# writer. A password is created here, remains in a volume, and is readable only by the services that need it.
set -eu

ours=10001 vector=10002 migrations=10003 clickhouse=101 grafana=472

secret() { # secret NAME OWNER GROUP MODE
    [ -s "/secrets/$1" ] && return 0
    rm -f "/secrets/.$1" # of an interrupted run: it may belong to another user, and not even root could write it
    (umask 077 && od -An -N 24 -t x1 /dev/urandom | tr -d ' \n' > "/secrets/.$1")
    chmod "$4" "/secrets/.$1"
    chown "$2:$3" "/secrets/.$1"
    mv "/secrets/.$1" "/secrets/$1"
}

# The administrator of the store is known to the migrations alone; the server keeps a hash.
if [ ! -s /clickhouse-users/sojourn.xml ]; then
    rm -f /secrets/clickhouse_admin /secrets/.admin /clickhouse-users/.sojourn.xml
    (umask 077 && od -An -N 24 -t x1 /dev/urandom | tr -d ' \n' > /secrets/.admin)
    hash=$(sha256sum < /secrets/.admin | cut -d ' ' -f 1)
    cat > /clickhouse-users/.sojourn.xml << XML
<clickhouse>
    <users>
        <default remove="remove"/>
        <sojourn_admin>
            <password_sha256_hex>$hash</password_sha256_hex>
            <networks><ip>::/0</ip></networks>
            <profile>default</profile>
            <quota>default</quota>
            <access_management>1</access_management>
            <named_collection_control>1</named_collection_control>
        </sojourn_admin>
    </users>
</clickhouse>
XML
    chmod 0400 /secrets/.admin /clickhouse-users/.sojourn.xml
    chown "$migrations:$migrations" /secrets/.admin
    chown "$clickhouse:$clickhouse" /clickhouse-users/.sojourn.xml
    mv /secrets/.admin /secrets/clickhouse_admin
    mv /clickhouse-users/.sojourn.xml /clickhouse-users/sojourn.xml
fi
# Secret among the servers of one cluster (profile scale).
if [ ! -s /clickhouse-secrets/interserver.xml ]; then
    rm -f /clickhouse-secrets/.interserver.xml
    (umask 077 && printf '<clickhouse><interserver_secret>%s</interserver_secret></clickhouse>\n' \
        "$(od -An -N 24 -t x1 /dev/urandom | tr -d ' \n')" > /clickhouse-secrets/.interserver.xml)
    chmod 0400 /clickhouse-secrets/.interserver.xml
    chown "$clickhouse:$clickhouse" /clickhouse-secrets/.interserver.xml
    mv /clickhouse-secrets/.interserver.xml /clickhouse-secrets/interserver.xml
fi
secret clickhouse_writer "$vector" "$migrations" 0440
secret clickhouse_reader "$grafana" "$migrations" 0440
secret grafana_admin "$grafana" 0 0400

chown "$ours:$ours" /logs /runs /captures
chown "$vector:$vector" /vector /vector-spans /vector-scale
echo "prepare: passwords and volumes are ready"
