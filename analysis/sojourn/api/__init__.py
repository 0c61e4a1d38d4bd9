"""The functions of ``import sojourn``: what the verbs of the command line do, for programs and notebooks.

Each takes requests as one has them (sources, a split, a frame) and options by the names they have on the command line,
and returns a result: ``print(result)`` says it in a sentence, a notebook shows its table, ``result.to_dict()`` is what
``--json`` prints.
"""
