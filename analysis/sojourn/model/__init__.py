"""Define what a request is, and what the other folders share. No log and no store is read here.

The request: frames of requests and traces, components, evidence, coverage, measures, checks, verdict. Shared: figures,
statistics, results, formatting, redaction, errors, the DSN of a store, extras, compiled functions, threads.
"""
