# Completion of the shardwise command for bash. The names of settings come from the command itself.
_shardwise() {
    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]-}
    COMPREPLY=()
    # bash splits words at `=` and `:`; only what comes before one is completed here.
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "train generate plan doctor --help --version" -- "$word")
        return
    fi
    case $verb:$word in
        *:-*)
            local options
            options=$(shardwise "$verb" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)
            mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
            ;;
        train:*.yaml | train:*.yml | generate:*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        train:* | plan:*)
            if [ "$COMP_CWORD" -gt 2 ]; then
                local keys
                keys=$(shardwise train --help 2>/dev/null | grep -oE '\b(model|data|train|optimizer|shard|parallel|checkpoint|guard|log)\.[a-z_.]+\b' | sort -u)
                mapfile -t COMPREPLY < <(compgen -S = -W "$keys" -- "$word")
                compopt -o nospace
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$word")
            fi
            ;;
    esac
}
complete -o filenames -F _shardwise shardwise
