'use strict';

// The delay and the utilisation of this thread's event loop, for the statistics, Prometheus and OpenTelemetry.

const { monitorEventLoopDelay, performance } = require('node:perf_hooks');

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

/** Return pairs of a label and seconds: the quantiles, the mean and the maximum of the delay. */
function delayQuantiles() {
  const { delay } = eventLoop();
  return [
    ['mean', delay.mean],
    ['0.5', delay.p50],
    ['0.99', delay.p99],
    ['max', delay.max],
  ];
}

/** The metric of these delays, as every exporter describes it. */
const EVENT_LOOP_DELAY = {
  name: 'sojourn_event_loop_delay_seconds',
  otelName: 'queueing.event_loop.delay',
  help: 'How much later than due the event loop ran a timer, in the last 30 to 60 s.',
};

module.exports = { EVENT_LOOP_DELAY, delayQuantiles, eventLoop, startMonitor };
