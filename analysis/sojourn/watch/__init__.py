"""Watching a log while it is being written: the split of the last seconds, minute and ten minutes.

``opened`` turns names into followers; ``follow`` and ``tail`` find the bytes; ``parsing`` makes rows of them;
``recent`` keeps those of ten minutes; ``figures`` and ``queues`` compute what a ``view`` holds, as often as ``pace``
allows and as of the time that ``clock`` tells; ``watcher`` does all of it, again and again. ``screen`` lays a view out
in ``cells``; ``app`` draws it on a terminal, by keys and mouse, while ``reading`` goes on.
"""
