'use strict';

// The name of the worker that serves a request. The main thread of a process, also of one that `cluster` started, is
// the process, 1234. A worker thread is 1234.2: the smallest number from 1 that no living thread of the process has.

const { getEnvironmentData, isMainThread, setEnvironmentData, threadId } = require('node:worker_threads');

const KEY = 'sojourn-middleware.threads';
const SLOTS = 1024;

// Memory that all threads share: slot n - 1 has the threadId of the thread with the number n, or 0. Threads inherit it
// from the thread that started them, if that one had loaded this package.
const slots = sharedSlots();
let name = null;

function sharedSlots() {
  let memory = getEnvironmentData(KEY);
  if (memory === undefined && isMainThread) {
    memory = new SharedArrayBuffer(SLOTS * Int32Array.BYTES_PER_ELEMENT);
    setEnvironmentData(KEY, memory);
  }
  return memory === undefined ? null : new Int32Array(memory);
}

function release(thread) {
  for (let slot = 0; slot < SLOTS; slot += 1) Atomics.compareExchange(slots, slot, thread, 0);
}

if (slots !== null) {
  // A thread that is terminated runs no code of its own any more: the thread that started it gives its number back.
  process.on('worker', (worker) => {
    const thread = worker.threadId;
    worker.once('exit', () => release(thread));
  });
}

function threadNumber() {
  if (slots !== null) {
    for (let slot = 0; slot < SLOTS; slot += 1) {
      if (Atomics.compareExchange(slots, slot, 0, threadId) === 0) return slot + 1;
    }
  }
  return threadId;
}

/** Return the process id, '1234', or process and thread, '1234.2', for a worker thread. */
function workerName() {
  name ??= isMainThread ? String(process.pid) : `${process.pid}.${threadNumber()}`;
  return name;
}

module.exports = { workerName };
