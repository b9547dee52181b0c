#!/usr/bin/env bash
# Resolve a name, pin what it points at, and wait until it is pinned. bash, curl and jq.
set -euo pipefail

gateway=${GATEWAY:-http://127.0.0.1:8080}
key=${CONTENT_GATEWAY_KEY:-me}
domain=$1

call() { # call METHOD PATH [CURL OPTION ...]: the answer; the words of a refusal and 1 otherwise
    local method=$1 path=$2 answer
    shift 2
    # --retry waits as long as Retry-After says, after 503 and its like only.
    answer=$(curl -sS --max-time 60 --retry 4 -X "$method" -H "x-api-key: $key" "$@" "$gateway$path")
    if jq -e 'has("code")' <<<"$answer" >/dev/null; then # RFC 9457
        jq -r --arg gateway "$gateway" '"\(.title): \(.detail) (\($gateway)\(.type))"' <<<"$answer" >&2
        return 1
    fi
    echo "$answer"
}

cid=$(call GET "/domain/resolve/$domain" | jq -r '.content | .cid // .ipnsCache // empty')
[[ -n $cid ]] || { echo "$domain has no content" >&2; exit 1; }
echo "$domain is $cid"
call POST "/ipfs/pin/add/$cid" --url-query "name=$domain" | jq -r .message
for _ in {1..120}; do
    pin=$(call GET "/ipfs/pin/status/$cid" | jq .result)
    [[ $(jq -r .status <<<"$pin") == pinned ]] && break
    sleep 0.5
done
jq -er '.status == "pinned" or ("still \(.status): \(.reason)" | halt_error)' <<<"$pin" >/dev/null
call GET "/ipfs/pin/ls?status=pinned" | jq -r '.results[] | "- \(.cid) \(.name // "")"'
