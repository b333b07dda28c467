# bash completion of tracehost: each Tab asks `tracehost completion words`

_tracehost() {
  local words=() word glued='' typed value answer i
  COMPREPLY=()
  # bash splits at = and : what is one word to tracehost
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ -n $glued || (${#words[@]} -gt 0 && $word == [=:]*) ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    glued=
    [[ $word == *[=:] ]] && glued=1
  done
  typed=${words[-1]} value=${words[-1]}
  [[ $typed != --*=* ]] || value=${typed#*=}
  mapfile -t answer < <(command "${COMP_WORDS[0]/#\~/$HOME}" completion words -- "${words[@]}" 2>/dev/null)

  for word in "${answer[@]:1}"; do
    COMPREPLY+=("${word%%$'\t'*}")
  done
  [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
  case ${answer[0]} in
    any) compopt -o bashdefault -o default ;;
    folders) compopt -o dirnames ;;
    '*'*)
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -X "!${answer[0]}" -- "$value")
      compopt -o filenames -o plusdirs
      ;;
  esac
  [[ $typed != --*=* || $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/${typed%%=*}=}")
}

complete -F _tracehost tracehost
