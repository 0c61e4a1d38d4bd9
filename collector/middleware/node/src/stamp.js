'use strict';

// Reads the instant at which the proxy sent the request. Several proxies stamp in several units, and the prefix t= says
// nothing about the unit, so the number of digits decides, strictly. A value that does not fit is refused, with a
// reason.

/** The headers that may carry a stamp: the second one is read only if the first one is missing or blank. */
const STAMP_HEADERS = ['x-request-start', 'x-queue-start'];

const NUMBER = /^(?:t=)?([0-9]+)(?:\.([0-9]+))?$/;

// Digits of the integer part -> [most digits allowed in the fraction, decimal places from this unit to microseconds].
const UNITS = { 10: [9, 6], 13: [6, 3], 16: [0, 0], 19: [0, -3] };

const SPACE = 0x20;
const TAB = 0x09;

/** Return the text without spaces and tabs at both ends; no other character is a blank in a header. */
function trimmed(text) {
  let start = 0;
  let end = text.length;
  while (start < end && (text.charCodeAt(start) === SPACE || text.charCodeAt(start) === TAB)) start += 1;
  while (end > start && (text.charCodeAt(end - 1) === SPACE || text.charCodeAt(end - 1) === TAB)) end -= 1;
  return start === 0 && end === text.length ? text : text.slice(start, end);
}

/**
 * Return whole microseconds since the Unix epoch, floored; or the reason why the value is not a stamp:
 * 'missing' (blank), 'list', 'not_a_number' or 'unit'. The age is not judged.
 */
function parseStamp(value) {
  const text = trimmed(value);
  if (text === '') return 'missing';
  // A proxy that appends instead of replacing joins two stamps; reading either one would be a guess.
  if (text.includes(',')) return 'list';
  const match = NUMBER.exec(text);
  if (match === null) return 'not_a_number';
  const whole = match[1];
  const fraction = match[2] ?? '';
  const unit = UNITS[whole.length];
  if (unit === undefined || whole[0] === '0' || fraction.length > unit[0]) return 'unit';
  const places = unit[1];
  if (places < 0) return Number(whole.slice(0, places));
  return Number(whole + fraction.slice(0, places).padEnd(places, '0'));
}

/**
 * Return the stamp of a request in microseconds since the Unix epoch, or the reason why there is none: one of
 * parseStamp's, 'future' or 'stale'. A stamp exactly at a limit is valid. X-Queue-Start does not replace a refused
 * X-Request-Start: whatever the proxy does not overwrite, a client can send.
 *
 * @param {object} headers of the request, by lower-case name; Node joins repeated ones with a comma
 * @param {number} nowMicros the app's wall clock
 * @param {number} maxAgeMicros
 * @param {number} maxFutureMicros
 */
function readStamp(headers, nowMicros, maxAgeMicros, maxFutureMicros) {
  for (const name of STAMP_HEADERS) {
    const value = headers[name];
    if (value === undefined) continue;
    const stamp = parseStamp(String(value));
    if (stamp === 'missing') continue;
    if (typeof stamp === 'string') return stamp;
    if (stamp > nowMicros + maxFutureMicros) return 'future';
    return stamp < nowMicros - maxAgeMicros ? 'stale' : stamp;
  }
  return 'missing';
}

/** Return the span attribute queueing.status: ok, missing, unparsable, future or stale. */
function stampStatus(stamp) {
  if (typeof stamp === 'number') return 'ok';
  return stamp === 'list' || stamp === 'not_a_number' || stamp === 'unit' ? 'unparsable' : stamp;
}

module.exports = { STAMP_HEADERS, parseStamp, readStamp, stampStatus };
