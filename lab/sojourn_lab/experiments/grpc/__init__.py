"""gRPC calls over long-lived connections, balanced when a connection is made or with every call.

servers.py    the gRPC servers of a case, their ports and logs
plan.py       the plan of the client
client.py     the client: its own process, `python -m sojourn_lab.experiments.grpc.client PLAN.json`
figures.py    from the client's records and the servers' logs to figures
case.py       one case from start to end, with the configuration of nginx where it balances calls
"""
