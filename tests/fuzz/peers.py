"""The same inputs through the other languages: one process a batch; None where the tool is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Headers = Sequence[tuple[str, str]]

_RUBY = """
require "json"
require "sojourn-middleware"
JSON.parse(File.read(ARGV[0])).each do |headers|
  env = headers.each_with_object({}) do |(name, value), names|
    key = "HTTP_#{name.upcase.tr("-", "_")}"
    names[key] = names.key?(key) ? "#{names[key]},#{value}" : value
  end
  env.transform_values! { |value| value.encode("ISO-8859-1").b }
  puts JSON.generate(Sojourn::Stamp.read(env, Integer(ARGV[1]), 3_600_000_000, 10_000_000))
end
"""
_NJS = """
import sojourn from 'sojourn.js';
import fs from 'fs';
JSON.parse(fs.readFileSync('CASES', 'utf8')).forEach(function (headers) {
    const stamp = sojourn.judge(headers, NOW, 3600, 10);
    console.log(JSON.stringify(stamp.reason || stamp.us));
});
"""


def stamps_by_ruby(cases: Sequence[Headers], now_us: int) -> list[Any] | None:
    """The result of the Rack middleware for each request's headers: microseconds, or a reason."""
    if shutil.which("ruby") is None:
        return None
    library = ROOT / "collector/middleware/ruby/lib"
    with tempfile.TemporaryDirectory() as folder:
        script = _written(folder, "stamps.rb", _RUBY)
        table = _written(folder, "cases.json", json.dumps(cases))
        return _said("ruby", "-w", "-I", str(library), script, table, str(now_us))


def stamps_by_njs(cases: Sequence[Headers], now_us: int) -> list[Any] | None:
    """What nginx/sojourn.js makes of them."""
    if shutil.which("njs") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "nginx/sojourn.js", folder)
        table = _written(folder, "cases.json", json.dumps(cases))
        script = _written(folder, "driver.js", _NJS.replace("CASES", table).replace("NOW", str(now_us)))
        return _said("njs", "-p", folder, script)


def _written(folder: str, name: str, text: str) -> str:
    path = Path(folder, name)
    path.write_text(text, "utf-8")
    return str(path)


def _said(*command: str) -> list[Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:2000]
    return [json.loads(line) for line in done.stdout.splitlines()]
