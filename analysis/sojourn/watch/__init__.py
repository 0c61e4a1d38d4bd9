"""Watch a log while it is written: the split of the last seconds, minute and ten minutes.

``sources`` opens names as followers; ``follow`` and ``tail`` read the bytes; ``parsing`` converts them to rows;
``recent`` keeps the rows of ten minutes; ``figures`` and ``queues`` compute the contents of a ``view``, as often as
``pace`` allows and as of the time of ``clock``; ``watcher`` repeats all of it. ``screen`` lays out a view in
``cells``; ``app`` draws it on a terminal and handles keys and mouse, while ``reading`` continues on its own thread.
"""
