#!/bin/sh
# Runs a command as a container of a manifest would: `container.sh ROOT REPOSITORY STORES COMMAND …`.
#
# This machine's files as a root that nobody writes to; emptyDirs as Kubernetes makes them, root's and open to a group; the
# repository as /app; STORES as /stores; secrets from STORES/secrets; user 10001 without any capability. To be started by
# `unshare --mount --pid --fork`, as root.
set -eu
root=$1 repository=$2 stores=$3
shift 3
mount --make-rprivate /
mount -t tmpfs tmpfs "$root"
mkdir "$root/upper" "$root/work" "$root/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/root"
cd "$root/root"
mkdir -p data app stores run/metrics run/secrets tmp proc dev sys
chmod 0711 root           # Python may be root's own here; in the image it is everybody's
touch usr/bin/chromium    # started for a page alone
for folder in data tmp run/metrics; do
    mount -t tmpfs -o mode=2777,gid=10001 tmpfs "$folder"
done
mount -t tmpfs -o mode=0750,gid=10001 tmpfs run/secrets
mkdir run/secrets/..data  # as Kubernetes lays secrets out: links into a folder that it swaps
for file in "$stores"/secrets/*; do
    cp "$file" run/secrets/..data/
    ln -s "..data/$(basename "$file")" "run/secrets/$(basename "$file")"
done
chgrp -R 10001 run/secrets/..data
chmod -R g+rX run/secrets/..data
mount -t proc proc proc
mount --rbind /dev dev
for place in app ".$repository"; do  # the environment's programs name their interpreter by its path, which may lie in /tmp
    mkdir -p "$place"
    mount --bind "$repository" "$place"
    mount -o remount,bind,ro "$place"
done
mount --rbind "$stores" stores
mount -o remount,ro "$root/root"
exec chroot . setpriv --reuid 10001 --regid 10001 --groups 10001 --no-new-privs --bounding-set=-all --inh-caps=-all \
    env --chdir=/app "$@"
