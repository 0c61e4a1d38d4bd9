'use strict';

const { monitorEventLoopDelay, performance } = require('node:perf_hooks');

const { counts } = require('./exchange');
const { workerName } = require('./worker');

const RESOLUTION_MS = 20;
const PERIOD_MS = 30_000;

// Two overlapping windows, each of 60 s: the older one, which is read, covers the last 30 to 60 s. Several
// readers do not take measurements from one another.
let windows = null;

function openWindow() {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  return { histogram, utilisation: performance.eventLoopUtilization(), start: performance.now() };
}

function startMonitor() {
  if (windows !== null) return;
  windows = [openWindow(), openWindow()];
  setInterval(() => {
    const [expired, older] = windows;
    expired.histogram.disable();
    windows = [older, openWindow()];
  }, PERIOD_MS).unref();
}

/** Return seconds. Node records the time from one tick of a timer to the next, which includes the timer's interval. */
function delaySeconds(nanoseconds) {
  const delay = nanoseconds / 1e9 - RESOLUTION_MS / 1e3;
  return delay > 0 ? delay : 0; // also for NaN: there is no tick yet
}

/** See index.d.ts. */
function eventLoop() {
  startMonitor();
  const { histogram, start, utilisation } = windows[0];
  return {
    delay: {
      p50: delaySeconds(histogram.percentile(50)),
      p99: delaySeconds(histogram.percentile(99)),
      max: delaySeconds(histogram.max),
      mean: delaySeconds(histogram.mean),
    },
    utilisation: performance.eventLoopUtilization(utilisation).utilization,
    window: (performance.now() - start) / 1e3,
  };
}

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

module.exports = { eventLoop, stats, statsHandler };
