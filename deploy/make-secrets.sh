#!/bin/sh
# Writes the passwords of compose.yaml into secrets/ (or into the folder that is named), each once: a file that is there stays.
#
# The folder is for this user alone. The files in it can be read by everybody who gets into it, as containers run as users
# of their own.
set -eu
umask 022
folder=${1:-$(dirname "$0")/../secrets}
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"

random() { od -An -tx1 -N24 /dev/urandom | tr -d ' \n'; }
keep() { # keep FILE TEXT
    [ -s "$1" ] || { printf '%s\n' "$2" >"$1.partial" && mv "$1.partial" "$1"; }
}

keep broker.conf "requirepass $(random)"
keep broker_url "redis://:$(sed 's/requirepass //' broker.conf)@redis:6379/0"
keep postgres_password "$(random)"
keep ledger_url "postgresql+psycopg://sluice:$(cat postgres_password)@postgres:5432/sluice"
keep searxng_secret "$(random)"
keep grafana_password "$(random)"
