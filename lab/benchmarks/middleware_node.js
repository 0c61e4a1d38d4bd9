'use strict';

// CPU seconds of a request with and without the Node package, without a network: node middleware_node.js PACKAGE CALLS
//
// The output is one line: seconds of a minimal app alone, and of the same app measured.

const http = require('node:http');
const { Writable } = require('node:stream');

const [folder, calls] = process.argv.slice(2);
const { wrap } = require(folder);

function app(req, res) {
  res.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': 3 });
  res.end('ok\n');
}

const RAW = [
  ...['Host', 'shop.example', 'X-Request-ID', '4bf92f3577b34da6a3ce929d0e0e4736', 'User-Agent', 'curl/8.5.0'],
  ...['Accept', '*/*', 'X-Forwarded-For', '192.0.2.7', 'X-Forwarded-Proto', 'https'],
];

function request() {
  const req = new http.IncomingMessage(null);
  req.method = 'GET';
  req.url = '/items/12345';
  req.httpVersionMajor = req.httpVersionMinor = 1;
  req.httpVersion = '1.1';
  req.rawHeaders = [...RAW, 'X-Request-Start', `t=${(Date.now() / 1000).toFixed(3)}`];
  return req;
}

class Sink extends Writable {
  _write(chunk, encoding, done) {
    done();
  }
}

const IN_PROGRESS = 100;

/** Return the CPU seconds of a batch of requests that are in progress together; making them does not count. */
async function batchSeconds(handler, count) {
  const pairs = [];
  for (let index = 0; index < count; index += 1) {
    const req = request();
    const res = new http.ServerResponse(req);
    res.assignSocket(new Sink());
    pairs.push([req, res]);
  }
  let ended = 0;
  const start = process.cpuUsage();
  await new Promise((resolve) => {
    const next = () => {
      ended += 1;
      if (ended === count) resolve();
    };
    for (const [req, res] of pairs) {
      void req.headers.host; // which every app reads; the first look builds all headers
      handler(req, res);
      res.once('finish', next);
    }
  });
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
}

async function seconds(handler, count) {
  let sum = 0;
  for (let left = count; left > 0; left -= IN_PROGRESS) sum += await batchSeconds(handler, Math.min(left, IN_PROGRESS));
  return sum / count;
}

async function main() {
  const apps = [app, wrap(app)];
  for (const each of apps) await seconds(each, Math.min(calls, 2000)); // compiled
  const costs = [];
  for (const each of apps) costs.push(await seconds(each, Number(calls)));
  console.log(costs.join(' '));
}

main();
