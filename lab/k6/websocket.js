// New WebSocket connections at a rate that grows from 0, one data-sync each, all held until the end: the load of the
// scenario `websocket`, by k6. The lab calls it; alone:
//
//   k6 run -e URL=ws://127.0.0.1:8080/sync -e RATE=30 -e RAMP=10 -e HOLD=4 -e CONNECTIONS=200 lab/k6/websocket.js
//
// Every connection becomes one line on the console, a JSON object with instants in unix ms (k6 has no finer clock).
// k6 spaces its iterations evenly: number k (from 0) is due when the area under the ramp, RATE·t²/(2·RAMP), is k + 1.
import { WebSocket } from 'k6/websockets';
import exec from 'k6/execution';

const url = __ENV.URL;
const rate = Number(__ENV.RATE);
const ramp = Number(__ENV.RAMP);
const hold = Number(__ENV.HOLD);
const label = __ENV.CASE || 'k6';

export const options = {
  scenarios: {
    connections: {
      executor: 'ramping-arrival-rate',
      startRate: 0,
      // k6 takes whole rates only: as many in a hundred seconds as there are hundredths of one in a second.
      timeUnit: '100s',
      stages: [{ target: Math.max(1, Math.round(rate * 100)), duration: `${Math.round(ramp * 1000)}ms` }],
      // A held connection keeps its virtual user.
      preAllocatedVUs: Number(__ENV.CONNECTIONS),
      gracefulStop: `${Math.ceil(hold) + 10}s`,
    },
  },
};

export default function () {
  const number = exec.scenario.iterationInTest;
  const start = exec.scenario.startTime;
  const seen = { number, due: start + 1000 * Math.sqrt((2 * (number + 1) * ramp) / rate), began: Date.now() };
  const end = start + 1000 * (ramp + hold);
  const socket = new WebSocket(url, null, { headers: { 'X-Lab-Case': label } });
  let ending = false;

  socket.onopen = () => {
    seen.upgraded = Date.now();
    seen.sent = Date.now();
    socket.send(JSON.stringify({ type: 'data-sync', user: `u${number}` }));
    setTimeout(() => {
      ending = true;
      socket.close();
    }, Math.max(1, end - Date.now()));
  };
  socket.onmessage = (message) => {
    seen.answered = Date.now();
    seen.server = JSON.parse(message.data).server;
  };
  socket.onerror = (event) => {
    seen.error = seen.error || String(event.error || 'failed');
  };
  socket.onclose = () => {
    if (!ending) {
      seen.lost = Date.now();
    }
    console.log(JSON.stringify(seen));
  };
}
