// The lab's app for Node: the same as app.py, behind the package in the folder LAB_SOJOURN_JS.
//
//   node app.js FD                            serves the listening socket FD
//   /sleep/<seconds>?status=N&route=/NAME     holds the event loop that long, as a big JSON.parse does: it is the worker
//   /ready                                    answered without the headers of Sojourn
'use strict';

const http = require('node:http');
const { measure } = require(process.env.LAB_SOJOURN_JS);

const SILENT = process.env.LAB_SILENT === '1';
const SLOWDOWN = Number(process.env.LAB_SLOWDOWN || 1);
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
  Atomics.wait(held, 0, 0, seconds * SLOWDOWN * 1000);
  if (!SILENT) res.setHeader('X-Route', route);
  return plain(res, status, `slept ${seconds} s`);
}

const server = http.createServer((req, res) => {
  const url = new URL(`http://lab${req.url}`); // as a path even where it begins with //
  if (url.pathname === '/ready') return plain(res, 200, 'ready');
  if (!SILENT) measure(req, res);
  return sleeper(req, res, url);
});
server.listen({ fd: Number(process.argv[2]) });
process.on('SIGTERM', () => process.exit(0));
