'use strict';

const { eventLoop, startMonitor } = require('./event_loop');
const { counts } = require('./exchange');
const { workerName } = require('./worker');

/** See index.d.ts. */
function stats() {
  const { delay, utilisation } = eventLoop();
  return {
    sojourn: 1,
    kind: 'node',
    pid: process.pid,
    worker: workerName(),
    requests_in_progress: counts.inProgress,
    requests: counts.total,
    event_loop_delay: delay,
    event_loop_utilisation: utilisation,
    uptime: process.uptime(),
  };
}

/** See index.d.ts. */
function statsHandler() {
  startMonitor();
  return function sojournStats(req, res) {
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      res.writeHead(405, { Allow: 'GET, HEAD', 'Content-Length': 0 });
      res.end();
      return;
    }
    const body = Buffer.from(`${JSON.stringify(stats())}\n`);
    res.writeHead(200, {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'Cache-Control': 'no-store',
    });
    res.end(body);
  };
}

module.exports = { stats, statsHandler };
