# Completion of the shardwise command for bash. Verbs, options and settings are asked of the command itself.
_shardwise() {
    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]-} words
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=$(shardwise --help 2>/dev/null | awk '/^  [a-z]+ / {print $1}')
        mapfile -t COMPREPLY < <(compgen -W "$words --help --version" -- "$word")
    elif [[ $word == -* ]]; then
        words=$(shardwise "$verb" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    elif [ "$COMP_CWORD" -gt 2 ] && [[ $verb == train || $verb == plan ]]; then
        words=$(shardwise train --help 2>/dev/null | awk '/^[a-z]+: / {section = $1} /^  [a-z_0-9]+: / && section {print section "." $1}' | tr -d :)
        mapfile -t COMPREPLY < <(compgen -S = -W "$words" -- "$word")
        compopt -o nospace
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -F _shardwise shardwise
