"""Workers needed from requests that are counted when they arrive.

A log shows a request when it ends. nginx, a proxy or the app counts it when it begins: ``counts`` reads such an answer,
``poller`` asks for it several times a second. ``ledger`` holds which requests of the log ended when;
``reconciliation`` compares both, so that long polls, requests of other services and requests that are not logged are in
no count. ``demand`` is what the state of a service says of service times and workers; ``signal`` computes the gauges
when they are scraped.
"""
