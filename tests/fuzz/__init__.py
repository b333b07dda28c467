"""Archives that somebody made to do harm: mutants of good ones, with the hash that they should have.

corpus.py makes the good ones, container.py takes them apart and puts them together, mutate.py changes a part,
victim.py loads, inspects and calls in a process of its own, __main__.py watches that process.
"""
