"""Assign each connection to a side of the proxy, per server address.

An address is a backend's if the log's upstreams or the user name it; if they name none in the capture, an address is a
backend's if most requests to it carry the stamp (X-Request-Start) of a proxy. Hosts that connect to backends are
proxies: HTTP or TLS connections to them are the clients' side. On the loopback all hosts share one address, and only
ports count.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl

from sojourn.analyses.pcap.frames import LEGS

LEG = pl.Enum(LEGS)
STAMPED = 0.5  # share of an address's requests: a few clients may send their own stamp


def address_and_port(address: str, port: str) -> pl.Expr:
    """Return ``10.0.0.1:80`` or ``[::1]:80`` of two columns; null where there is no address."""
    name = pl.col(address)
    host = pl.when(name.str.contains(":", literal=True)).then(pl.format("[{}]", name)).otherwise(name)
    return pl.format("{}:{}", host, pl.col(port))


def upstreams(rows: pl.DataFrame) -> set[str]:
    """Return the upstream addresses of a log, from its ``upstream_addr`` lists."""
    lists = rows["upstream_addr"].drop_nulls().unique().to_list()
    return {
        name for text in lists for name in text.replace(" : ", ", ").split(", ") if name and name != "-"
    }  # fmt: skip


def with_legs(
    connections: pl.DataFrame, exchanges: pl.DataFrame, backends: Collection[str], *, log: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Add ``leg`` and ``endpoint`` (the server's address:port) to connections and exchanges.

    ``backends``: as address:port, or :port for any address. With a log, an address that is no backend may be the
    clients' side on any host.
    """
    # An address and a port as one number: grouping by a million texts is slow.
    number = pl.col("server").cast(pl.Categorical).to_physical().cast(pl.Int64) * 65_536 + pl.col("server_port")
    connections = connections.with_columns(_at=number)
    ends = _ends(connections, exchanges, backends)
    backend = "configured" if ends["configured"].any() else "stamped"
    ends = ends.with_columns(backend=pl.col(backend))
    proxies = connections.join(ends.filter("backend"), on="_at", how="semi")["client"].unique().to_list()
    near = pl.col("server").is_in(proxies) | pl.lit(log)
    ends = ends.select(
        "_at", "endpoint",
        leg=pl.when("backend").then(pl.lit("backend"))
        .when(near & pl.col("has_protocol")).then(pl.lit("client"))
        .otherwise(pl.lit("unknown")).cast(LEG),
    )  # fmt: skip
    connections = connections.join(ends, on="_at", how="left", maintain_order="left").drop("_at")
    return connections, of_connections(exchanges, connections.select("connection", "leg", "endpoint"))


def _ends(connections: pl.DataFrame, exchanges: pl.DataFrame, backends: Collection[str]) -> pl.DataFrame:
    """Return one row per server address: _at, server, endpoint, has_protocol, configured and stamped (as a backend)."""
    ports = {int(name[1:]) for name in backends if name.startswith(":") and name[1:].isdigit()}
    stamps = (
        of_connections(exchanges.select("connection", "stamp", "method"), connections.select("connection", "_at"))
        .group_by("_at")
        .agg(stamped=pl.col("stamp").is_not_null().sum(), requests=pl.col("method").is_not_null().sum())
    )
    return (
        connections.group_by("_at")
        .agg(
            pl.col("server", "server_port").first(),
            has_protocol=pl.col("protocol").is_in(["http", "http2", "tls"]).any(),
        )
        .join(stamps, on="_at", how="left")
        .with_columns(endpoint=address_and_port("server", "server_port"))
        .with_columns(
            configured=pl.col("endpoint").is_in(list(backends)) | pl.col("server_port").is_in(list(ports)),
            stamped=(pl.col("stamped") > STAMPED * pl.col("requests")).fill_null(value=False),
        )
    )


def of_connections(exchanges: pl.DataFrame, connections: pl.DataFrame) -> pl.DataFrame:
    """Return ``exchanges`` with the columns of ``connections``, by ``connection``, which all exist there."""
    numbers = connections["connection"].to_numpy()
    places = np.zeros(int(numbers.max()) + 1 if len(numbers) else 0, np.uint32)
    places[numbers] = np.arange(len(numbers), dtype=np.uint32)
    at = pl.Series(places[exchanges["connection"].to_numpy()])
    return exchanges.hstack(connections.drop("connection").select(pl.all().gather(at)))
