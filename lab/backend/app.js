// The lab's app for Node: the same as app.py, behind the package in the folder LAB_SOJOURN_JS.
//
//   node app.js FD [PROCESSES]                serves the listening socket FD; several processes are a cluster
//   /sleep/<seconds>?status=N&route=/NAME     holds the event loop that long, as a big JSON.parse does: it is the worker
//   /ready                                    answered without the headers of Sojourn
//
// Where LAB_WORKER_LOG names a file, each request has a line in it, in the form of worker_log.py.
'use strict';

const cluster = require('node:cluster');
const fs = require('node:fs');
const http = require('node:http');
const { measure } = require(process.env.LAB_SOJOURN_JS);

const SILENT = process.env.LAB_SILENT === '1';
const SLOWDOWN = Number(process.env.LAB_SLOWDOWN || 1);
const PROCESSES = Number(process.argv[3] || 1);
const WORKER_LOG = process.env.LAB_WORKER_LOG;
const held = new Int32Array(new SharedArrayBuffer(4));

function plain(res, status, text) {
  res.writeHead(status, { 'content-type': 'text/plain', 'content-length': Buffer.byteLength(text) + 1 });
  res.end(`${text}\n`);
}

function sleeper(req, res, url) {
  const match = /^\/sleep\/(\d+(?:\.\d+)?)$/.exec(url.pathname);
  if (!match) return plain(res, 404, 'there is only /sleep/<seconds> and /ready');
  const seconds = Number(match[1]);
  const status = Number(url.searchParams.get('status') || 200);
  const route = url.searchParams.get('route') || '/sleep/{seconds}';
  if (seconds > 86400) return plain(res, 400, 'seconds must be a number from 0 to 86400');
  if (!Number.isInteger(status) || status < 200 || status > 599) return plain(res, 400, 'status must be from 200 to 599');
  if (route !== '/sleep/{seconds}' && !/^\/[a-z0-9/_-]{1,60}$/.test(route)) {
    return plain(res, 400, "route must be a slash and a name: lower case letters, digits, '/', '_' and '-'");
  }
  const begin = unix();
  Atomics.wait(held, 0, 0, seconds * SLOWDOWN * 1000);
  if (!SILENT) res.setHeader('X-Route', route);
  plain(res, status, `slept ${seconds} s`);
  if (WORKER_LOG) {
    const [worker, id] = [String(process.pid), req.headers['x-request-id'] || ''];
    const end = unix();
    const line = { worker, id, route, begin, headers: end, answered: end, released: end };
    fs.appendFileSync(WORKER_LOG, `${JSON.stringify(line)}\n`);
  }
}

/** Return the wall clock, seconds since the Unix epoch with fractions of a millisecond. */
function unix() {
  return (performance.timeOrigin + performance.now()) / 1000;
}

const server = http.createServer((req, res) => {
  const url = new URL(`http://lab${req.url}`); // as a path even where it begins with //
  if (url.pathname === '/ready') return plain(res, 200, 'ready');
  if (!SILENT) measure(req, res);
  return sleeper(req, res, url);
});
if (PROCESSES > 1 && cluster.isPrimary) {
  for (let number = 0; number < PROCESSES; number += 1) cluster.fork();
} else {
  server.listen({ fd: Number(process.argv[2]) });
}
process.on('SIGTERM', () => process.exit(0));
