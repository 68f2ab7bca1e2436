#!/usr/bin/env bash
# Bring a Sluice up to date with a repository: send the files that differ between two commits, remove those that are gone.
#
#   send-changed-files.sh BASE [HEAD] [PATH …]
#
# BASE is the commit that Sluice has; empty, unknown or all zeros means that it has none, so that every file is sent.
# HEAD is the commit that it is to have. PATHs are git's pathspecs, such as docs 'src/*.py'.
#
# SLUICE_URL           where it answers, such as https://sluice.example.org
# SLUICE_API_KEY       a key that lists the corpus
# SLUICE_CORPUS        default: default
# SLUICE_REPOSITORY    what ids of documents begin with; default: GITHUB_REPOSITORY
# SLUICE_WAIT_SECONDS  how long to wait until all of it can be found; 0: do not wait; default: 600
#
# A file is the document REPOSITORY/PATH, so its later version replaces it. A file that was renamed is removed under its
# old name and sent under its new one. Text (UTF-8) is sent as it is committed, PDF too; symbolic links, submodules, other
# binary files and files over 5 MB are left out, and what was there before under their name is removed.
# Needs bash, git, curl and jq. Exit code 0: all of it is there; 1: something failed, and the same call goes on.
set -euo pipefail

base=${1-} head=${2:-HEAD}
shift "$(($# < 2 ? $# : 2))"
url=${SLUICE_URL:?the address of a Sluice} url=${url%/}
: "${SLUICE_API_KEY:?a key that lists the corpus}"
corpus=${SLUICE_CORPUS:-default}
repository=${SLUICE_REPOSITORY:-${GITHUB_REPOSITORY:?what ids of documents begin with}}
wait_seconds=${SLUICE_WAIT_SECONDS:-600}
most_bytes=5000000 batch_bytes=4000000 batch_documents=200

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/runs"
head=$(git rev-parse --verify "$head^{commit}")
base=$(git rev-parse --verify --quiet "$base^{commit}") || base=$(git hash-object -t tree /dev/null)

# Ask Sluice: METHOD PATH [curl's options …]. The answer's body is in $folder/answer; its status is printed.
# The key goes by a file: the arguments of a process can be seen by others.
printf 'Authorization: Bearer %s\n' "$SLUICE_API_KEY" >"$folder/key"
ask() {
    curl --silent --show-error --max-time 120 --retry 5 --header "@$folder/key" \
        --output "$folder/answer" --write-out '%{http_code}' --request "$1" "${@:3}" "$url$2" || {
        echo "$1 $url$2: no answer" >&2
        exit 1
    }
}

refuse() {
    echo "$1: HTTP $2: $(jq -r '.message // .' "$folder/answer" 2>/dev/null || head -c 500 "$folder/answer")" >&2
    exit 1
}

# Remember the run that the last answer names.
note_run() { touch "$folder/runs/$(jq -er .run_id "$folder/answer")"; }

removed=0 sent=0 in_batch=0 number=0
: >"$folder/batch"
send_batch() {
    [ "$in_batch" -gt 0 ] || return 0
    local status
    number=$((number + 1))
    jq -s --arg corpus "$corpus" '{corpus: $corpus, create_corpus: true, documents: .}' "$folder/batch" >"$folder/body"
    status=$(ask POST /v1/documents --header 'Content-Type: application/json' \
        --header "Idempotency-Key: $repository@$head/$number/$(git hash-object "$folder/body")" \
        --data-binary "@$folder/body")
    [ "$status" = 202 ] || refuse "sending $in_batch files" "$status"
    note_run
    sent=$((sent + in_batch)) in_batch=0
    : >"$folder/batch"
}

remove() { # PATH
    local id status
    id=$(jq -rn --arg id "$repository/$1" '$id | @uri')
    status=$(ask DELETE "/v1/documents/$id?corpus=$corpus")
    case $status in
        202) note_run && removed=$((removed + 1)) ;;
        404) ;; # it is not there, or not any more
        *) refuse "removing $1" "$status" ;;
    esac
}

# Append a file to the batch; fails where it is nothing to send: PATH BLOB
add() {
    local media_type='' content
    [ "$(git cat-file -s "$2")" -le "$most_bytes" ] || return 1
    git cat-file blob "$2" >"$folder/file"
    [ -s "$folder/file" ] || return 1
    case $1 in *.pdf | *.PDF) media_type=application/pdf ;; esac
    if [ -n "$media_type" ]; then
        base64 -w 0 "$folder/file" >"$folder/file64"
        content=data
        mv "$folder/file64" "$folder/file"
    else
        ! LC_ALL=C grep -qaP '\x00' "$folder/file" && iconv -f UTF-8 -t UTF-8 "$folder/file" >/dev/null 2>&1 || return 1
        content=text
    fi
    jq -n -c --arg id "$repository/$1" --arg path "$1" --arg commit "$head" --arg media_type "$media_type" \
        --arg content "$content" --rawfile body "$folder/file" \
        '{id: $id, file_path: $path, metadata: {git_commit: $commit}, ($content): $body}
         + (if $media_type == "" then {} else {media_type: $media_type} end)' >>"$folder/batch"
    in_batch=$((in_batch + 1))
    if [ "$in_batch" -ge "$batch_documents" ] || [ "$(wc -c <"$folder/batch")" -ge "$batch_bytes" ]; then send_batch; fi
}

# :OLD_MODE NEW_MODE OLD_BLOB NEW_BLOB STATUS, then the path, each ended by a NUL.
git diff --raw -z --no-renames --no-abbrev "$base" "$head" -- "$@" >"$folder/changes"
while IFS= read -r -d '' change && IFS= read -r -d '' path; do
    read -r old_mode new_mode _ blob _ <<<"${change#:}"
    if ! printf %s "$path" | iconv -f UTF-8 -t UTF-8 >/dev/null 2>&1; then
        echo "left out, as its name is no UTF-8: $(printf %q "$path")" >&2
        continue
    fi
    case $new_mode in
        100*) if add "$path" "$blob"; then continue; fi ;;
        *) ;;
    esac
    [ "$new_mode" = 000000 ] || echo "left out: $path" >&2
    case $old_mode in 100*) remove "$path" ;; esac
done <"$folder/changes"
send_batch
echo "$repository@${head:0:12} into corpus $corpus: $sent files sent, $removed removed"

[ "$wait_seconds" -gt 0 ] || exit 0
failed=0
for run in "$folder"/runs/*; do
    [ -e "$run" ] || break
    run=${run##*/} status=open
    while :; do
        [ "$(ask GET "/v1/runs/$run")" = 200 ] && status=$(jq -r .status "$folder/answer")
        case $status in finished | failed | cancelled) break ;; esac
        [ "$SECONDS" -lt "$wait_seconds" ] || break
        sleep 1
    done
    [ "$status" = finished ] || { echo "$run: $status" >&2 && failed=1; }
done
exit "$failed"
