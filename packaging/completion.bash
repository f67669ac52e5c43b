# Completion of the shardwise command for bash. Verbs, options and settings are asked of the command itself.
_shardwise() {
    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]-} part=() words
    [[ $verb == checkpoint || $verb == bench ]] && [ "$COMP_CWORD" -gt 2 ] && part=("${COMP_WORDS[2]}")
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=$(shardwise --help 2>/dev/null | awk '/^  [a-z]+ / {print $1}')
        mapfile -t COMPREPLY < <(compgen -W "$words help --help --version" -- "$word")
    elif [ "$COMP_CWORD" -eq 2 ] && [ "$verb" = help ]; then
        words=$(shardwise --help 2>/dev/null | awk '/^  [a-z]+ / {print $1}')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    elif [ "$COMP_CWORD" -eq 2 ] && [[ ( $verb == checkpoint || $verb == bench ) && $word != -* ]]; then
        words=$(shardwise "$verb" --help 2>/dev/null | awk '/^  [a-z]+ / {print $1}' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    elif [[ $word == -* ]]; then
        words=$(shardwise "$verb" "${part[@]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    elif [ "$COMP_CWORD" -gt 2 ] && [[ $verb == train || $verb == plan || ( $verb == bench && ${part[0]-} == step && $COMP_CWORD -gt 3 ) ]]; then
        words=$(shardwise train --help 2>/dev/null | awk '/^[a-z]+: / {section = $1} /^  [a-z_0-9]+: / && section {print section "." $1}' | tr -d :)
        mapfile -t COMPREPLY < <(compgen -S = -W "$words" -- "$word")
        compopt -o nospace
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -F _shardwise shardwise
