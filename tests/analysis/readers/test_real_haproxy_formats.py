"""Every line of a real HAProxy is read, whichever log-format it has; behind it, the line has the truth."""

from __future__ import annotations

from pathlib import Path

import pytest
import sojourn
from doctor_support import DEADLINE_S, app
from sojourn_lab.runtime.ports import free_ports, wait_for_port
from sojourn_lab.runtime.process import Process
from test_real_apache_formats import REQUESTS, exchange
from test_real_logs import program_or_skip

MARK = " @@@ "
AGENT = "%[capture.req.hdr(0)]"
FORMATS = {
    "bare": "%ci %HM %HU [%tr] %ST %Ta %Tr %b/%s %r",
    "agent in front": f"{AGENT} | %tr %ST %TR/%Tw/%Tc/%Tr/%Ta",
    "agent in brackets": f"[{AGENT}] %tr %ST %Ta %{{+Q}}r",
    "json": f'{{"t":"%tr","http":{{"status":%ST,"ms":%Ta}},"agent":"{AGENT}","line":%{{+Q}}r}}',
}


def test_every_line_is_read_with_the_values_of_the_truth(tmp_path: Path) -> None:
    program, (backend, *ports) = program_or_skip("haproxy"), free_ports(1 + len(FORMATS))
    frontends = "".join(
        f"frontend f{number}\n bind 127.0.0.1:{port}\n capture request header User-Agent len 200\n"
        f' log-format "{_escaped(f"{number}{MARK}{text}{MARK}%ST %Ta")}"\n default_backend apps\n'
        for number, (port, text) in enumerate(zip(ports, FORMATS.values(), strict=True))
    )
    (tmp_path / "haproxy.cfg").write_text(
        "global\n log stdout format raw local0\ndefaults\n mode http\n log global\n timeout connect 5s\n"
        f" timeout client 5s\n timeout server 5s\n{frontends}backend apps\n server one 127.0.0.1:{backend}\n"
    )
    process = Process([program, "-db", "-f", tmp_path / "haproxy.cfg"], name="haproxy", folder=tmp_path)
    most = len(FORMATS) * (len(REQUESTS) + 10)

    def lines_of(number: int) -> list[str]:
        return [line for line in process.last_lines(most).splitlines() if line.startswith(f"{number}{MARK}")]

    with app(backend), process:
        for port in ports:
            wait_for_port("127.0.0.1", port, DEADLINE_S, process)
            for data in REQUESTS:
                exchange(port, data)
        # That a port is open is tried out by a connection, which has a line, too.
        process.wait_until(
            lambda: all(len(lines_of(number)) > len(REQUESTS) for number in range(len(FORMATS))), DEADLINE_S, "the log"
        )
        logged = [lines_of(number) for number in range(len(FORMATS))]
    for number, text in enumerate(FORMATS.values()):
        # HAProxy cuts a line at 1,024 bytes, and the truth with it.
        parts = (line.split(MARK) for line in logged[number] if line.count(MARK) == 2)
        of_format = [(line, truth.split()) for _, line, truth in parts]
        log = tmp_path / f"{number}.log"
        log.write_text("".join(f"{line}\n" for line, _ in of_format))
        requests = sojourn.read(sojourn.log_file(log, text), columns=("status", "request_time"))
        assert requests.records.reasons == {}, (text, requests.records.rejects[0]["raw"])
        rows = requests.rows.collect().to_dicts()
        assert len(rows) >= len(REQUESTS)
        assert [row["status"] for row in rows] == [int(status) for _, (status, _) in of_format]
        assert [row["request_time"] for row in rows] == pytest.approx([int(took) / 1e3 for _, (_, took) in of_format])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
