"""`tracehost bench`: a function's calls against eager's and torch.compile's.

The problem: a call takes microseconds, and a machine is never quiet. A first call takes seconds, and is worth it only
after so many calls. A figure is fair only where each contender has the same arguments, at the same time.

- bench.py: the command: what is measured, with which arguments, against whom
- timing.py: how long calls take: contenders in turns, block by block
- report.py: the figures as rows and as a table, and `--max-regress`, which judges them
"""
