// Checks the inbound stamp of a trusted peer if the directives of sojourn.conf cannot: another unit, several
// headers, invalid values. Written in the subset that njs 0.7.9 and QuickJS share.
//
// Times are whole microseconds since the epoch, as numbers: 16 digits fit below 2^53. Nanoseconds (19 digits) would
// not, so they are truncated to microseconds as strings.

// In order of precedence; the second is read only if the first is missing.
const HEADERS = ['x-request-start', 'x-queue-start'];

const DEFAULT_MAX_AGE = 3600;
const DEFAULT_MAX_FUTURE = 10;

// The unit by the number of digits before the point: `borrowed` digits of the fraction complete the microseconds, and
// a fraction has at most `fraction` digits. The prefix "t=" does not depend on the unit.
const UNITS = {
    10: { fraction: 9, borrowed: 6 },
    13: { fraction: 6, borrowed: 3 },
    16: { fraction: 0, borrowed: 0 },
    19: { fraction: 0, borrowed: 0 },
};

function refused(reason) {
    return { reason: reason };
}

// The value of one header: {us: microseconds} or {reason: of the rejection}. Limits are checked later.
function parsed(value) {
    if (value.indexOf(',') >= 0) {
        return refused('list');
    }

    const match = /^(?:t=)?([0-9]+)(?:\.([0-9]+))?$/.exec(value);
    if (!match) {
        return refused('not_a_number');
    }

    const whole = match[1];
    const fraction = match[2] || '';
    const unit = UNITS[whole.length];
    if (!unit || whole[0] === '0' || fraction.length > unit.fraction) {
        return refused('unit');
    }

    // Below a microsecond: floor, by removing digits.
    const digits = (whole + (fraction + '000000').slice(0, unit.borrowed)).slice(0, 16);
    return { us: Number(digits) };
}

// A stamp compared with the clock: {us} or {reason}. A stamp exactly at a limit is valid.
function within(stamp, now, maxAge, maxFuture) {
    if (stamp.reason) {
        return stamp;
    }
    if (stamp.us - now > Math.round(maxFuture * 1e6)) {
        return refused('future');
    }
    if (now - stamp.us > Math.round(maxAge * 1e6)) {
        return refused('stale');
    }
    return stamp;
}

function trimmed(value) {
    return value.replace(/^[ \t]+/, '').replace(/[ \t]+$/, '');
}

// The values of the header `name` in [[name, value], ...], without spaces at both ends.
function valuesOf(headers, name) {
    return headers
        .filter(function (header) { return header[0].toLowerCase() === name; })
        .map(function (header) { return trimmed(header[1]); });
}

// The verdict on a request's headers [[name, value], ...] by the first of HEADERS that is neither absent nor blank:
// {us: its stamp} or {reason: of the rejection, or "missing"}. `now` in microseconds, the limits in seconds.
function judge(headers, now, maxAge, maxFuture) {
    for (let number = 0; number < HEADERS.length; number += 1) {
        const values = valuesOf(headers, HEADERS[number]);
        if (values.length > 1) {
            return refused('list');
        }
        if (values.join('') !== '') {
            return within(parsed(values[0]), now, maxAge, maxFuture);
        }
    }
    return refused('missing');
}

// Seconds with milliseconds, or with microseconds when there are any: 1767225599.877
function seconds(us) {
    const digits = String(us);
    const whole = digits.slice(0, -6);
    const fraction = digits.slice(-6);
    return whole + '.' + (fraction.slice(3) === '000' ? fraction.slice(0, 3) : fraction);
}

// A limit from the user's configuration; the default if it is not a number of seconds.
function limit(r, name, standard) {
    const text = r.variables[name];
    const value = Number(text);
    if (text && value >= 0 && isFinite(value)) {
        return value;
    }
    r.error('sojourn: $' + name + ' is "' + text + '", not a number of seconds; taking ' + standard);
    return standard;
}

// For js_set: the inbound stamp in the form to be sent ("t=1767225599.877"), "refused:<reason>", or "" if there is none.
function judged(r) {
    // The time of nginx's clock that the log has, read once for the request. Date.now() reads the clock again and
    // would give a later time.
    const now = parsed(r.variables.sojourn_proxy_start).us;
    const maxAge = limit(r, 'sojourn_max_age', DEFAULT_MAX_AGE);
    const maxFuture = limit(r, 'sojourn_max_future', DEFAULT_MAX_FUTURE);
    const verdict = judge(r.rawHeadersIn, now, maxAge, maxFuture);

    if (verdict.reason === 'missing') {
        return '';
    }
    return verdict.reason ? 'refused:' + verdict.reason : 't=' + seconds(verdict.us);
}

export default { judged, judge, parsed, seconds };
