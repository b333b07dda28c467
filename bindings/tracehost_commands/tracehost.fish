# fish completion of tracehost: each Tab asks `tracehost completion words`

function __tracehost_answer
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l answer (command $words[1] completion words -- $words[2..] "$typed" 2>/dev/null)
    set -l before (string match -r -- '^--[^=]*=' "$typed")
    set -l value (string replace -r -- '^--[^=]*=' '' "$typed")
    switch "$answer[1]"
        case any
            set -a answer (__fish_complete_path "$value")
        case folders
            set -a answer (__fish_complete_directories "$value")
        case '\**'
            set -a answer $value*(string sub -s 2 -- $answer[1]) $value*/
    end
    for line in $answer[2..]
        echo "$before$line"
    end
end

complete -c tracehost -f -a '(__tracehost_answer)'
