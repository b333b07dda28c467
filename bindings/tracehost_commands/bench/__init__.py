"""`tracehost bench`: a function's calls against eager's and torch.compile's.

The problem: a call takes microseconds, and a machine is never quiet. A first call takes seconds, and is worth it only
after so many calls. A figure is fair only where each contender has the same arguments, at the same time.

- bench.py: the command: what is measured, with which arguments, against whom
- timing.py: how long calls take: contenders in turns, block by block
- report.py: the figures as a table or as JSON, and `--max-regress`, which judges them

A worked example: `tracehost bench model.py:step --signature 'f32[32,128]' --against eager`

    main()      imports model.py, finds `step`, makes a random tensor; `eager` calls the Python function itself
    measure()   a first call of each; 10 calls as warm-up; then 50 rounds, in each a block of calls of either
    as_text()   a row of each: first call, time of a call, its ratio to eager, after how many calls it pays back
    slower()    exit code 3, if the traced call is slower than eager's by more than `--max-regress` percent
"""
