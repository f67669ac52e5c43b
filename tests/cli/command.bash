# command.bash: what the tests of the command share. Sourced with SW_BUILD and SW_SOURCE set by CTest.
shardwise=$SW_BUILD/shardwise
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
n_failed=0

# expect EXIT_CODE WORDS... -- COMMAND...: the command ends so; each of the words is in what it prints. Its output is left in $output, $errors.
expect() {
    local code=$1 words=() actual=0
    shift
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    shift
    "$@" >"$scratch/output" 2>"$scratch/errors" </dev/null || actual=$?
    output=$(tr -d '\0' <"$scratch/output") errors=$(tr -d '\0' <"$scratch/errors")
    [ "$actual" = "$code" ] || complain "$*: exit code $actual, not $code: $errors"
    local word
    for word in "${words[@]}"; do
        grep -qF -- "$word" "$scratch/output" "$scratch/errors" || complain "$*: prints nothing with '$word': $output $errors"
    done
    if [ "$code" != 0 ] && [ "$(grep -c '^shardwise: error: ' "$scratch/errors")" != 1 ]; then
        complain "$*: not one message: $errors"
    fi
}

complain() {
    echo "FAILED: $*" >&2
    n_failed=$((n_failed + 1))
}

finish() {
    [ "$n_failed" = 0 ] || exit 1
}
