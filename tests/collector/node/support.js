'use strict';

// What the tests of the Node package share: the package, real servers on free ports, and clients.

const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const { createRequire } = require('node:module');
const net = require('node:net');
const path = require('node:path');

const ROOT = path.resolve(__dirname, '../../..');
const PACKAGE = path.join(ROOT, 'collector/middleware/node');
const NOW_US = 1767225600000000;

/** Where package.json of this folder is installed: frameworks, OpenTelemetry's SDK, TypeScript. */
const INSTALLED = process.env.SOJOURN_NODE_PACKAGES || path.join(ROOT, '.tools/node');

/** The option `skip` of tests that need an installed package: false, or the reason. */
const skip = fs.existsSync(path.join(INSTALLED, 'node_modules', 'typescript'))
  ? false
  : `${INSTALLED} has no packages: npm install there, with tests/collector/node/package.json`;

// The package finds an app's OpenTelemetry API from the app's working directory, if it is installed by a symbolic link.
if (!skip) process.chdir(INSTALLED);

const requireInstalled = createRequire(path.join(INSTALLED, 'package.json'));
const sojourn = require(PACKAGE);

function table(name) {
  return JSON.parse(fs.readFileSync(path.join(ROOT, 'tests/vectors', name), 'utf8'));
}

/** Clocks that a test sets. */
class ManualClock {
  constructor(wall = NOW_US) {
    this.wall = wall;
    this.monotonic = 5_000_000;
  }

  wallMicros() {
    return this.wall;
  }

  monotonicMicros() {
    return this.monotonic;
  }

  advance(micros) {
    this.wall += micros;
    this.monotonic += micros;
  }
}

/** Start a server on a free port of the loopback interface and end it, with its connections, after the test. */
async function listen(t, server) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections?.();
      }),
  );
  return server.address().port;
}

/** An http server around a handler; returns its port. */
function serve(t, handler) {
  return listen(t, http.createServer(handler));
}

/** Send one request on a connection of its own; the stamp is a second old unless `headers` has another one. */
async function fetch(port, { path: target = '/', method = 'GET', headers = {}, body } = {}) {
  const stamp = { 'X-Request-Start': `t=${(Date.now() / 1000 - 1).toFixed(3)}` };
  const options = { host: '127.0.0.1', port, path: target, method, headers: { ...stamp, ...headers }, agent: false };
  const request = http.request(options);
  const informational = [];
  request.on('information', (info) => informational.push(info.statusCode));
  request.end(body);
  const [response] = await once(request, 'response');
  const chunks = [];
  for await (const chunk of response) chunks.push(chunk);
  return {
    status: response.statusCode,
    message: response.statusMessage,
    headers: response.headers,
    raw: response.rawHeaders,
    body: Buffer.concat(chunks),
    informational,
  };
}

/** Send bytes on one connection and return all that comes back until the server closes it. */
async function raw(port, bytes) {
  const socket = net.connect(port, '127.0.0.1');
  socket.write(bytes, 'latin1');
  let text = '';
  socket.setEncoding('latin1');
  for await (const chunk of socket) text += chunk;
  return text;
}

/** Wait until a condition is true, for at most ten seconds. */
async function eventually(condition, what) {
  const deadline = Date.now() + 10_000;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited 10 s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Block the event loop, as a handler that computes does. */
function block(seconds) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; );
}

/** How often a header occurs in a list of names and values. */
function occurrences(rawHeaders, name) {
  return rawHeaders.filter((each, index) => index % 2 === 0 && each.toLowerCase() === name.toLowerCase()).length;
}

module.exports = {
  INSTALLED,
  ManualClock,
  NOW_US,
  PACKAGE,
  ROOT,
  block,
  eventually,
  fetch,
  listen,
  occurrences,
  raw,
  requireInstalled,
  serve,
  skip,
  sojourn,
  table,
};
