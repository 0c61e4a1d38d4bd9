'use strict';

const emitted = new Set();

/**
 * Emit a process warning, which Node prints to the standard error output. The same one is emitted once.
 *
 * @param {string} consequence what happens to the request
 * @param {unknown} [error] the cause
 */
function warnOnce(consequence, error) {
  if (emitted.has(consequence)) return;
  emitted.add(consequence);
  const cause = error === undefined ? '' : `: ${error instanceof Error ? error.message : String(error)}`;
  process.emitWarning(`${consequence}${cause}; the same again will not be reported`, {
    type: 'SojournWarning',
    detail: error instanceof Error ? error.stack : undefined,
  });
}

module.exports = { warnOnce };
