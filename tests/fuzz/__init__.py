"""Archives that somebody made to do harm: mutants of good ones, with the hash that they should have.

corpus.py makes the good ones. container.py takes them apart and puts them together, and mutate.py changes a part.
victim.py loads, inspects and calls in a process of its own, which __main__.py watches.
"""
