#compdef tracehost
# zsh completion of tracehost: each Tab asks `tracehost completion words`

_tracehost() {
  local -a answer shown open
  local line word ret=1
  answer=("${(@f)$(command ${~words[1]} completion words -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  [[ $PREFIX != --*=* ]] || compset -P '*='
  for line in "${(@)answer[2,-1]}"; do
    word=${line%%$'\t'*}
    if [[ $word == *= ]]; then
      open+=("$word:${line#*$'\t'}")
    elif [[ -n $word ]]; then
      shown+=("$word:${line#*$'\t'}")
    fi
  done
  (( $#shown == 0 )) || _describe -t words word shown && ret=0
  (( $#open == 0 )) || _describe -t words word open -S '' && ret=0
  case $answer[1] in
    any) _files && ret=0 ;;
    folders) _files -/ && ret=0 ;;
    '*'*) _files -g "$answer[1]" && ret=0 ;;
  esac
  return ret
}

# loaded from a folder of fpath, or read by `source`
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _tracehost "$@"
else
  compdef _tracehost tracehost
fi
