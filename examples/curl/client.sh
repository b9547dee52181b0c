#!/usr/bin/env bash
# Resolve a name, pin what it points at, and wait until it is pinned. bash, curl 7.66 and jq.
set -euo pipefail

gateway=${GATEWAY:-http://127.0.0.1:8080}
key=${CONTENT_GATEWAY_KEY:-me}
domain=$1
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

call() { # call METHOD PATH [NAME=VALUE]: the answer; the words of a refusal and 1 otherwise
    local status
    # --retry waits as long as Retry-After says. The answer goes to a file, since that is emptied
    # before the next try, and the key comes from one, since arguments show in `ps`.
    status=$(curl -sS --max-time 30 --retry 4 --retry-max-time 300 -o "$answer" \
        -w '%{http_code}' -G -X "$1" --data-urlencode "${3-}" -H @<(echo "x-api-key: $key") "$gateway$2") || return
    if [[ $status != 200 ]]; then # a problem (RFC 9457), or a proxy's page
        jq -r --arg url "$gateway" '"\(.title): \(.detail) (\($url)\(.type))"' "$answer" >&2 ||
            echo "HTTP $status" >&2
        return 1
    fi
    cat "$answer"
}

name=$(jq -rn --arg domain "$domain" '$domain | @uri')
cid=$(call GET "/domain/resolve/$name" | jq -r '.content | .cid // .ipnsCache // empty')
[[ -n $cid ]] || { echo "$domain has no content" >&2; exit 1; }
echo "$domain is $cid"
call POST "/ipfs/pin/add/$cid" "name=$domain" | jq -r .message
for _ in {1..120}; do
    pin=$(call GET "/ipfs/pin/status/$cid" | jq .result)
    [[ $(jq -r .status <<<"$pin") == pinned ]] && break
    sleep 0.5
done
jq -e '.status == "pinned" or ("still \(.status): \(.reason)\n" | halt_error(1))' <<<"$pin" >/dev/null
call GET /ipfs/pin/ls status=pinned | jq -r '.results[] | "- \(.cid) \(.name // "")"'
