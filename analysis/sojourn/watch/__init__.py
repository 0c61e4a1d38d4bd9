"""Watch a log while it is written: the split of the last seconds, minute and ten minutes.

``watcher`` opens logs and computes views of their requests (``sojourn.sources.live`` reads them); ``figures`` and
``queues`` compute the contents of a ``view``. ``screen`` lays out a view in ``cells``; ``app`` draws it on a terminal
and handles keys and mouse, while ``reading`` continues on its own thread.
"""
