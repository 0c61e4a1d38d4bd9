package sojourn

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// vectors reads a table that the packages of all languages share.
func vectors[T any](t *testing.T, name string) T {
	t.Helper()
	text, err := os.ReadFile("../../../tests/vectors/" + name)
	if os.IsNotExist(err) {
		t.Skipf("the shared tables are not beside this module, which is outside of Sojourn's repository: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var table T
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	return table
}

type stampTable struct {
	NowUS int64 `json:"now_us"`
	Cases []struct {
		Name      string
		Headers   [][2]string
		StartUS   *int64 `json:"start_us"`
		Reason    Reason
		MaxAge    *float64 `json:"max_age"`
		MaxFuture *float64 `json:"max_future"`
	}
}

func duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

func TestStampTable(t *testing.T) {
	table := vectors[stampTable](t, "request_start.json")
	now := time.UnixMicro(table.NowUS)
	for _, c := range table.Cases {
		t.Run(c.Name, func(t *testing.T) {
			options := []Option{at(now, 0)}
			if c.MaxAge != nil {
				options = append(options, MaxAge(duration(*c.MaxAge)))
			}
			if c.MaxFuture != nil {
				options = append(options, MaxLead(duration(*c.MaxFuture)))
			}
			var got Measurement
			options = append(options, Observe(observerFunc(func(m Measurement) { got = m })))
			r := httptest.NewRequest("GET", "/", nil)
			for _, header := range c.Headers {
				r.Header.Add(header[0], header[1])
			}
			w := httptest.NewRecorder()
			New(options...)(empty).ServeHTTP(w, r)

			if got.Reason != c.Reason {
				t.Errorf("reason %q, want %q", got.Reason, c.Reason)
			}
			delay := w.Header().Get("X-Queueing-Delay")
			if c.StartUS == nil {
				if !got.Stamp.IsZero() || delay != "" {
					t.Errorf("stamp %v, delay %q, want none", got.Stamp, delay)
				}
				return
			}
			if got.Stamp.UnixMicro() != *c.StartUS {
				t.Errorf("stamp %d, want %d", got.Stamp.UnixMicro(), *c.StartUS)
			}
			if want := decimals(now.Sub(time.UnixMicro(*c.StartUS)), time.Second, 6); delay != want {
				t.Errorf("delay %q, want %q", delay, want)
			}
		})
	}
}

type answerTable struct {
	NowNS int64 `json:"now_ns"`
	Cases []struct {
		Name         string
		Stamp        *string
		ServiceNS    int64 `json:"service_ns"`
		Route        string
		Headers      map[string]string
		ServerTiming string `json:"server_timing"`
		AlwaysAnswer bool   `json:"always_answer"`
	}
}

func TestAnswerTable(t *testing.T) {
	table := vectors[answerTable](t, "answer_headers.json")
	for _, c := range table.Cases {
		t.Run(c.Name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			if c.Stamp != nil {
				r.Header.Set("X-Request-Start", *c.Stamp)
			}
			for _, timing := range []bool{false, true} {
				options := []Option{
					at(time.Unix(0, table.NowNS), time.Duration(c.ServiceNS)),
					Route(func(*http.Request) string { return c.Route }),
					func(m *middleware) { m.pid = "1234" },
				}
				want := map[string]string{}
				for name, value := range c.Headers {
					want[name] = value
				}
				if c.AlwaysAnswer {
					options = append(options, AlwaysAnswer())
				}
				if timing {
					options = append(options, ServerTiming())
					want["Server-Timing"] = c.ServerTiming
				}
				w := httptest.NewRecorder()
				New(options...)(empty).ServeHTTP(w, r)
				for name, value := range want {
					if got := w.Header()[name]; len(got) != 1 || got[0] != value {
						t.Errorf("%s: %q, want %q", name, got, value)
					}
				}
				if len(w.Header()) != len(want) {
					t.Errorf("headers %v, want %v", w.Header(), want)
				}
			}
		})
	}
}

// at sets the clock: the service starts at now and takes the duration.
func at(now time.Time, service time.Duration) Option {
	return func(m *middleware) {
		started := false
		m.now = func() time.Time {
			if started {
				return now.Add(service)
			}
			started = true
			return now
		}
	}
}
