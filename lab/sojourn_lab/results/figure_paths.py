"""The paths of the figures of each analysis and of each kind of case: `figures.<path>` in a criterion or a column.

`{a,b}` stands for one of several names, `*` for names that the run decides: routes, backends, services, steps. A path
that no run can have is refused before a scenario starts.
"""

from __future__ import annotations

Q = "{mean,p50,p90,p95,p99,p999,max}"
SPREAD = (
    "{requests,rate,most,least,waited,imbalance,imbalance_share,imbalance_mean}",
    "backends.*.{requests,share,rate,service_time,queueing_delay}",
    "queueing_delay.{mean,p99}",
)
"""How requests were spread over backends, as in the analysis `balance`."""
BALANCE = (
    *SPREAD,
    *(f"{{before,after,settled}}.{path}" for path in SPREAD),
    "joined.{requests,share,settled_share,fair,seconds_to_first,seconds_to_share}",
)
SPELL = "{wanted,share,attempts,pressure}"

OF_ANALYSES: dict[str, tuple[str, ...]] = {
    "accept_queue": (
        "{asked,limit,deepest,room,beyond,syn_recv,full,overflows,drops,other_drops}",  # codespell:ignore asked
        "{syn_queue_drops,cookies_sent,cookies_taken,requests,stepped,unexplained,valley,bad_gateway,answered_share}",
        "{findings,steps,by_response}.*",
    ),
    "balance": BALANCE,
    "capacity": (
        "{law,saturation,objective}",
        "plateau.{ratio,more_users}",
        "plateau.{early,late}.{throughput,users}",
        "rise.{windows,slope,ratio,r2}",
        "usable.{rate,low,high,at_least,at_most,reason,of_saturation}",
        "sizing.{saturation,usable,article}",
    ),
    "contention": (
        "{scope,name,family,share,capacity,low,high,busy,slowdown,places,places_low,places_high,inner_wait,service}",
        "{replay_mean,replay_p99,refused}",
    ),
    "dark_reads": (
        "{percent,percent_after,compared,differing,differ_share,ratio,logged}",
        "client.{p50,mean}",
        "{original,dark}.{mean,p50,p99}",
    ),
    "goodput": (
        "{wanted,served,share,rate,capacity,of_capacity,given_up,turned_away,unknown,worked,wasted,wasted_share}",
    ),
    "held": (
        "{requests,unknown,refused,difference,of,looked_free,mean_wait}",
        "{known,stated}.*",
    ),
    "inferred": (
        "{requests,verdict,reason,accepted,refused,workers,error,p99_error,accepted_error,accepted_p99_error}",
        "workers_set.*",
        "measured.{mean,p50,p99,response}",
        f"inferred.{Q}",
    ),
    "ports": ("{held,ports,needed,limit,expected,rate,refused,refused_share,most,logged_errors}",),
    "reconciliation": ("{at_nginx,reached,failed,unseen,seen_failed,unseen_share}", "by_status.*"),
    "recovery": (
        "capacity",
        "burst.{begin,end,rate}",
        "goodput.{recovered,seconds}",
        "queue.{waiting,emptied,seconds,law}",
        f"{{after,settled,last}}.{SPELL}",
        "amplification.{sent,logged}",
    ),
    "routes": (
        "by.*.requests",
        f"by.*.{{response_time,queueing_delay,service_time}}.{Q}",
        "waits.*.{waited,dispatch,imbalance,unknown}",
        "waits.*.blamed.*",
    ),
    "tiers": (
        "{kind,sentence,behind,another_instance_helps,share}",
        "tier.*.{visits,queueing,self,span}",
        "app.{service_time,queueing_delay}",
    ),
    "wire": (
        "{packets,undecoded,connections,joined,joined_share,resent,syn_retransmissions,acks_dropped,request_resent}",
        "{syn_ack_retransmissions,resets,refused,unanswered,queue_p99_apart}",
        f"{{handshake,syn_dropped,syn_queue,accept_wait_lower,accept_wait_upper,accept_wait}}.{Q}",
        "agreement.*.{requests,median,p99,max,within_1ms,centred_p99}",
    ),
}
"""Analysis -> paths below `figures.<analysis>`."""

RESPONSE_TIME = f"response_time.{Q}"
OF_KINDS: dict[str, tuple[str, ...]] = {
    "http": ("targets.*.{requests,answered,failed}", f"targets.*.response_time.{Q}"),
    "websocket": (
        "{rate,capacity,offered_load,limit,within_limit,missed_looks,held,cost}",
        "connections.{offered,made,failed,lost}",
        "connections.errors.*",
        f"{{response,handshake,reached,whole,wait}}.{Q}",
        f"stations.*.{Q}",
        "shares.*",
        *(f"{name}.*" for name in ("onset", "end", "generator", "unloaded", "ramp", "stable", "log")),
    ),
    "grpc": (
        *BALANCE,
        "client.{offered,answered,failed,failed_share,rate,unmatched}",
        "client.errors.*",
        f"client.{RESPONSE_TIME}",
        f"client.{{before,after,settled}}.{RESPONSE_TIME}",
    ),
    "collector": (
        "law.{capacity,throughput}",
        "{offered,throughput,errors_per_s,refused,other_failures,read_failures,reads,lost,twice}",
        f"{{write_latency,read_latency}}.{Q}",
        "cpu.{cores,share}",
        "channel.{mean,max,full}",
        "consumers.{busy,cost,batch}",
        "generator.{cpu,lag_p99}",
    ),
    "pipeline": (
        "{rows_per_s,insert_seconds,inserts,cores,row_cpu,partitions,parts,read_share,lost}",
        "{events_per_s,event_cpu,discarded}",
    ),
    "autoscale": ("*",),
}
"""Kind of case -> paths below `figures`; a study decides its own."""
